import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom.kube.client import MalformedObject
from transom.kube.objects import Metadata, ObjectMeta
from transom.kube.store import ObjectKey, Store


def thing(name: str, version: int, *colours: str, namespace: str | None = None, uid: str = "u") -> Metadata:
    labels = dict.fromkeys(colours, "")
    return Metadata(ObjectMeta(name, namespace, uid=uid, resource_version=str(version), labels=labels))


def store() -> tuple[Store[Metadata], list[tuple[ObjectKey, str | None, str | None]]]:
    told: list[tuple[ObjectKey, str | None, str | None]] = []
    made: Store[Metadata] = Store({"colour": lambda item: item.metadata.labels or ()})
    made.subscribe(
        lambda name, before, after: told.append(
            (name, before and before.metadata.resource_version, after and after.metadata.resource_version)
        )
    )
    return made, told


def test_a_list_tells_what_is_new_changed_and_gone_and_nothing_else() -> None:
    kept, told = store()
    kept.replace([thing("a", 1), thing("b", 2), thing("c", 3)], (), "10")
    told.clear()
    kept.replace([thing("b", 2), thing("c", 13), thing("d", 14)], (), "20")
    assert told == [((None, "a"), "1", None), ((None, "c"), "3", "13"), ((None, "d"), None, "14")]
    assert kept.resource_version == "20"


def test_an_object_made_anew_under_its_name_is_told() -> None:
    kept, told = store()
    kept.put(thing("a", 1, uid="first"))
    kept.put(thing("a", 1, uid="second"))
    assert len(told) == 2


def test_a_late_subscriber_is_told_what_is_there() -> None:
    kept, _ = store()
    kept.put(thing("a", 1))
    late: list[ObjectKey] = []
    kept.subscribe(lambda name, before, after: late.append(name))
    assert late == [(None, "a")]


def test_a_snapshot_does_not_change() -> None:
    kept, _ = store()
    kept.replace([thing("a", 1, "red"), thing("b", 2, "red", "blue")], (), "2")
    before = kept.take_snapshot()
    kept.put(thing("a", 3, "blue"))
    kept.remove(ObjectKey(None, "b"))
    kept.put(thing("c", 4, "red"))
    kept.put_malformed(MalformedObject(Metadata(ObjectMeta("c")), "no"))
    assert {item.metadata.name: item.metadata.resource_version for item in before} == {"a": "1", "b": "2"}
    assert [item.metadata.name for item in before.list_by_index("colour", "red")] == ["a", "b"]
    assert [item.metadata.name for item in before.list_by_index("colour", "blue")] == ["b"]
    assert not before.malformed
    assert before.resource_version == "2"
    after = kept.take_snapshot()
    assert [item.metadata.name for item in after.list_by_index("colour", "red")] == ["c"]
    assert [item.metadata.name for item in after.list_by_index("colour", "blue")] == ["a"]
    assert after.list_by_index("colour", "green") == []
    assert set(after.malformed) == {(None, "c")}
    with pytest.raises(KeyError):
        after.list_by_index("size", "red")


def test_a_snapshot_is_taken_once_and_follows_each_kind_of_change() -> None:
    kept, _ = store()
    empty = kept.take_snapshot()
    kept.add_indexes({"size": lambda item: [str(len(item.metadata.name))]})
    kept.put(thing("a", 1))
    assert (len(empty), [item.metadata.name for item in kept.take_snapshot().list_by_index("size", "1")]) == (0, ["a"])
    assert kept.take_snapshot() is kept.take_snapshot()
    kept.resource_version = "7"
    assert kept.take_snapshot().resource_version == "7"
    kept.put_malformed(MalformedObject(Metadata(ObjectMeta("a")), "no"))
    assert kept.take_snapshot().malformed
    kept.clear()
    assert (len(kept.take_snapshot()), kept.take_snapshot().resource_version) == (0, None)


def test_the_tables_are_copied_for_nobody_but_who_has_a_snapshot() -> None:
    kept, _ = store()
    kept.replace([thing("a", 1), thing("b", 2)], (), "2")
    tables = kept._objects
    assert kept.take_snapshot().find_named("a") == thing("a", 1)
    kept.put(thing("a", 3))
    assert kept._objects is tables
    rest = iter(kept.take_snapshot())
    assert next(rest).metadata.resource_version == "3"
    kept.remove(ObjectKey(None, "b"))
    kept.put(thing("c", 4))
    assert [item.metadata.name for item in rest] == ["b"]
    names = iter(kept.take_snapshot().iter_keys())
    assert next(names) == (None, "a")
    kept.remove(ObjectKey(None, "c"))
    assert list(names) == [(None, "c")]


def test_a_snapshot_stays_while_a_later_one_of_the_same_objects_comes_and_goes() -> None:
    kept, _ = store()
    kept.replace([thing("a", 1, "red")], (), "1")
    before = kept.take_snapshot()
    kept.resource_version = "7"
    assert kept.take_snapshot().resource_version == "7"
    kept.put(thing("a", 8, "blue"))
    assert (before.resource_version, [item.metadata.resource_version for item in before.list_by_index("colour", "red")]) == (
        "1",
        ["1"],
    )


def test_an_object_that_no_longer_decodes_stays_as_it_last_was() -> None:
    kept, told = store()
    kept.replace([thing("a", 1), thing("b", 1)], (), "1")
    told.clear()
    bad = MalformedObject(Metadata(ObjectMeta("a", resource_version="5")), "Expected `str`, got `int` - at `$.spec`")
    kept.replace([thing("b", 1)], [bad], "5")
    assert told == []
    snapshot = kept.take_snapshot()
    assert snapshot.find_named("a") == thing("a", 1)
    assert snapshot.malformed[None, "a"] is bad
    kept.put(thing("a", 6))
    assert not kept.take_snapshot().malformed
    kept.put_malformed(bad)
    kept.remove(ObjectKey(None, "a"))
    assert not kept.take_snapshot().malformed


def test_the_same_version_ends_a_malformed_one() -> None:
    """An edit that is taken back gives a new version, but a list after a change of the reader need not."""
    kept, _ = store()
    kept.put(thing("a", 1))
    kept.put_malformed(MalformedObject(Metadata(ObjectMeta("a")), "no"))
    kept.put(thing("a", 1))
    assert not kept.take_snapshot().malformed


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "remove", "replace", "snapshot", "bookmark"]),
            st.lists(st.tuples(st.sampled_from("abcd"), st.sets(st.sampled_from(["red", "blue"]))), max_size=4),
        ),
        max_size=30,
    )
)
def test_indexes_are_those_of_the_objects_and_snapshots_stay(steps: list[tuple[str, list[tuple[str, set[str]]]]]) -> None:
    kept, told = store()
    version = 0
    taken = []
    for action, items in steps:
        objects = []
        for name, colours in items:
            version += 1
            objects.append(thing(name, version, *colours))
        if action == "replace":
            kept.replace(objects, (), str(version))
        for entry in objects:
            if action == "put":
                kept.put(entry)
            elif action == "remove":
                kept.remove(ObjectKey(None, entry.metadata.name))
        if action == "bookmark":
            version += 1
            kept.resource_version = str(version)
            assert kept.take_snapshot().resource_version == str(version)
        if action == "snapshot":
            snapshot = kept.take_snapshot()
            taken.append(
                (snapshot, list(snapshot), snapshot.list_by_index("colour", "red"), snapshot.list_by_index("colour", "blue"))
            )
    for snapshot, objects, red, blue in [*taken, (kept.take_snapshot(), list(kept.take_snapshot()), None, None)]:
        assert list(snapshot) == objects
        for colour, then in (("red", red), ("blue", blue)):
            now = snapshot.list_by_index("colour", colour)
            assert then is None or now == then
            expected = sorted(obj.metadata.name for obj in objects if colour in (obj.metadata.labels or {}))
            assert [item.metadata.name for item in now] == expected
    # what was told adds up to what is there
    there: dict[ObjectKey, str] = {}
    for name, before, after in told:
        assert there.get(name) == before
        if after is None:
            del there[name]
        else:
            there[name] = after
    assert there == {(None, item.metadata.name): item.metadata.resource_version for item in kept.take_snapshot()}
