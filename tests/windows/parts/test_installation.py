"""What of a payload is put on a host: tables of cases, and the properties of the plan."""

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.windows.authorities import authority
from tests.windows.installations import CONF, CONTAINERD, DOWN, EXE, KUBELET, SALT, UP, A, B, host, reached, wish

from transom.windows import ledger
from transom.windows.host.host_state import CHANGED, DesiredState, ObservedState, Preparation, Service
from transom.windows.host.queries import LEDGER, SERVICES
from transom.windows.parts import certificates, installation
from transom.windows.parts.service import Configuration
from transom.windows.planning.planner import plan
from transom.windows.registry.edits import SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_expand_sz, build_multi_sz


def steps(desired: DesiredState, actual: ObservedState) -> list[tuple[str, str, str]]:
    return [(step.kind, step.target, step.action) for step in plan(desired, actual, SALT).steps]


def test_a_bare_host_gets_everything_and_the_ledger_has_it_first() -> None:
    desired = wish(KUBELET, CONTAINERD, files={EXE: A}, directories=(r"C:\k",), proxied=True)
    planned = plan(desired, host(), SALT)
    assert [(s.kind, s.target) for s in planned.steps][:4] == [
        ("directory", r"C:\k"),
        ("file", EXE),
        ("service", "kubelet"),
        ("service", "containerd"),
    ]
    assert planned.start == ("containerd", "kubelet")
    assert not planned.stop
    # the ledger is imported before anything is made; the services' values only when they are there
    assert all(edit.path.startswith(LEDGER) for edit in planned.edits)
    installed = ledger.read(Registry().apply_edits(planned.edits)).installed
    assert (set(installed.services), set(installed.files), installed.directories) == (
        {"kubelet", "containerd"},
        {EXE},
        (r"C:\k",),
    )
    last = {e.path: e.value.to_texts() for e in planned.install.edits if isinstance(e, SetValue) and e.name == "Environment"}
    assert last == {CONTAINERD.path: ("OWN=1", "NO_PROXY=x"), KUBELET.path: ("NO_PROXY=x",)}
    assert installed.payload == ""
    assert ledger.read(reached(desired, host()).registry).installed.payload == "1.0.0"


def test_a_service_that_was_there_before_is_adopted() -> None:
    actual = host(("containerd", UP), ("kubelet", DOWN))
    desired = wish(KUBELET, CONTAINERD, proxied=True)
    planned = plan(desired, actual, SALT)
    assert not planned.install.create and not planned.install.configure
    assert planned.stop == planned.start == ("containerd",)
    found = reached(desired, actual)
    assert found.registry.find_value(rf"{SERVICES}\kubelet", "ImagePath") == build_expand_sz(r"C:\other\kubelet.exe")
    assert found.registry.find_value(rf"{SERVICES}\kubelet", "Environment") == build_multi_sz(["NO_PROXY=x"])
    assert found.find_service("kubelet") == Service("kubelet", DOWN)
    gone = reached(wish(payload=""), found)
    assert gone.registry.list_keys_below(SERVICES) == actual.registry.list_keys_below(SERVICES)
    assert gone.registry.find_key(LEDGER) is None


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (msgspec.structs.replace(KUBELET, image=rf"{EXE} --x=2"), [("service", "kubelet", "replace")]),
        (msgspec.structs.replace(KUBELET, environment=("A=1",)), [("service", "kubelet", "replace")]),
        (msgspec.structs.replace(KUBELET, restart_seconds=30), [("service", "kubelet", "replace")]),
        (KUBELET, []),
    ],
)
def test_a_service_of_ours_follows_the_payload(changed: Configuration, expected: list[tuple[str, str, str]]) -> None:
    found = reached(wish(KUBELET), host())
    planned = plan(wish(changed), found, SALT)
    made = [(s.kind, s.target, s.action) for s in planned.steps if s.kind == "service" and s.action != "restart"]
    assert made == expected
    assert planned.stop == planned.start == (("kubelet",) if expected else ())
    reached(wish(changed), found)


@pytest.mark.parametrize(
    ("there", "aside"),
    [({}, False), ({EXE: CHANGED}, True)],
    ids=["none", "foreign"],
)
def test_a_file_in_the_place_of_a_foreign_one_keeps_that(there: dict[str, str], aside: bool) -> None:
    desired = wish(files={EXE: A}, directories=(r"C:\k",))
    planned = plan(desired, host(files=there), SALT)
    (placed,) = planned.install.place
    assert (placed.path, placed.sha256, placed.size, placed.aside) == (EXE, A, 7, aside)
    found = reached(desired, host(files=there))
    removed = plan(wish(payload=""), found, SALT)
    assert [(r.path, r.back) for r in removed.install.remove] == [(EXE, aside)]


def test_what_a_file_was_and_will_be_is_told_and_its_hash_is_not() -> None:
    """A file may hold a password, which somebody who knows the rest of it could find by its hash."""

    def told(files: dict[str, str], actual: ObservedState) -> tuple[str | None, str | None]:
        (step,) = (step for step in plan(wish(files=files), actual, SALT).steps if step.kind == "file")
        return step.before, step.after

    none, sent = told({EXE: A}, host())
    assert none is None and sent is not None
    assert re.fullmatch("7 bytes, [0-9a-f]{12}", sent) and sent.rpartition(" ")[2] not in A
    assert told({EXE: A}, host(files={EXE: CHANGED})) == ("a file that is not Transom's", sent)
    found = reached(wish(files={EXE: A}), host())
    was, other = told({EXE: B}, found)
    assert was == sent != other
    assert told({}, found) == (sent, None)
    changed = msgspec.structs.replace(found, files={EXE: CHANGED})
    assert told({EXE: A}, changed) == ("changed since it was sent", sent)


def test_what_is_no_longer_in_the_payload_goes_and_the_rest_stays() -> None:
    found = reached(wish(KUBELET, CONTAINERD, files={EXE: A, CONF: A}, directories=(r"C:\k", r"C:\k\x")), host())
    desired = wish(CONTAINERD, files={EXE: A}, directories=(r"C:\k",))
    planned = plan(desired, found, SALT)
    assert planned.install.delete == ("kubelet",)
    assert [r.path for r in planned.install.remove] == [CONF]
    assert planned.install.leave == (r"C:\k\x",)
    assert planned.stop == ("kubelet",) and planned.start == ()
    # the lines stay until the things are gone
    before = ledger.read(found.registry.apply_edits(planned.edits)).installed
    assert set(before.files) == {EXE, CONF} and set(before.services) == {"kubelet", "containerd"}
    last = ledger.read(reached(desired, found).registry).installed
    assert set(last.files) == {EXE} and set(last.services) == {"containerd"}


def test_removal_undoes_the_ledger_and_leaves_what_others_changed() -> None:
    found = reached(wish(KUBELET, files={EXE: A, CONF: B}, directories=(r"C:\k",), proxied=True), host())
    found = msgspec.structs.replace(found, files=found.files | {CONF: CHANGED})
    planned = plan(wish(payload=""), found, SALT)
    assert [r.path for r in planned.install.remove] == [EXE]
    assert planned.warnings == (rf"{CONF} was changed since it was sent: it is left",)
    assert planned.forget
    assert reached(wish(payload=""), found).registry.find_key(LEDGER) is None


def test_a_file_that_services_read_restarts_them_and_no_others() -> None:
    found = reached(wish(KUBELET, CONTAINERD, files={EXE: A, CONF: A}), host())
    assert plan(wish(KUBELET, CONTAINERD, files={EXE: A, CONF: B}), found, SALT).stop == ()
    assert plan(wish(KUBELET, CONTAINERD, files={EXE: B, CONF: A}), found, SALT).stop == ("kubelet",)


def test_a_certificate_restarts_the_services_that_take_trust_and_no_others() -> None:
    root = authority("Corp Root 1")
    path = rf"{certificates.get_store_path(certificates.ROOT)}\{root.sha1}"
    blob = SetValue(path, "Blob", certificates.build_blob(root.der, root.sha1))
    desired = wish(KUBELET, CONTAINERD)
    found = msgspec.structs.replace(reached(desired, host()), dependencies={"kubelet": ("containerd",)})
    trusting = msgspec.structs.replace(desired, registry=desired.registry.apply_edits([blob]), trusting=("containerd",))
    assert plan(trusting, found, SALT).stop == ("kubelet", "containerd"), "the kubelet depends on containerd"
    trusting = msgspec.structs.replace(trusting, trusting=("kubelet",))
    assert plan(trusting, found, SALT).stop == ("kubelet",)


def test_windows_is_prepared_first_and_a_pending_boot_is_waited_for() -> None:
    desired = wish(KUBELET, preparation=Preparation(containers=True, ports=(10250,)))
    planned = plan(desired, host(), SALT)
    assert planned.prepare == desired.preparation and not planned.install and not planned.edits and not planned.start
    pending = ObservedState(Registry().apply_edits(planned.pending), boot=3)
    assert plan(desired, pending, SALT).boot_pending and not plan(desired, pending, SALT)
    booted = msgspec.structs.replace(pending, boot=4)
    assert plan(desired, booted, SALT).install.create
    assert plan(desired, ObservedState(Registry().apply_edits(planned.prepared), boot=3), SALT).install.create


def test_a_wish_that_does_not_speak_of_a_payload_leaves_it_alone() -> None:
    found = reached(wish(KUBELET, files={EXE: A}, directories=(r"C:\k",)), host())
    assert not plan(wish(payload=None), found, SALT).install


UPGRADED = msgspec.structs.replace(KUBELET, image=rf"{EXE} --x=2", environment=("A=1",))


def test_another_version_can_be_taken_back_as_it_was() -> None:
    first = wish(KUBELET, CONTAINERD, files={EXE: A}, proxied=True)
    found = msgspec.structs.replace(reached(first, host()), dependencies={"kubelet": ("containerd",)})
    assert plan(first, host(), SALT).install.reversal is None, "there is nothing before the first one"
    second = wish(UPGRADED, CONTAINERD, files={EXE: B, CONF: A}, directories=(r"C:\k",), payload="2.0.0", proxied=True)
    planned = plan(second, found, SALT)
    made = planned.install.reversal
    assert made is not None and (made.former, made.version) == ("1.0.0", "2.0.0")
    assert [(item.name, item.image, item.depends) for item in made.configure] == [("kubelet", KUBELET.image, KUBELET.depends)]
    back = installation.predict_reversal(found, planned.edits, planned.install)
    assert back.registry.find_key(KUBELET.path) == found.registry.find_key(KUBELET.path)
    assert ledger.read(back.registry).installed == ledger.read(found.registry).installed


def test_the_ledger_names_both_files_while_one_is_replaced() -> None:
    found = reached(wish(KUBELET, files={EXE: A}), host())
    second = wish(KUBELET, files={EXE: B}, payload="2.0.0")
    planned = plan(second, found, SALT)
    between = msgspec.structs.replace(found, registry=found.registry.apply_edits(planned.edits))
    line, former = (ledger.read(item.registry).installed.files[EXE] for item in (between, found))
    assert (line.former, line.former_size) == (former.digest, former.size)
    # cut there: the next pass goes on, or with the former payload finds the former file as it is, or removes it
    assert plan(second, between, SALT).install == planned.install
    withdrawn = plan(wish(KUBELET, files={EXE: A}), between, SALT)
    assert not withdrawn.install.place and withdrawn.stop == ("kubelet",), "its restart is owed"
    assert ledger.read(between.registry.apply_edits(withdrawn.edits)).installed.files[EXE] == former
    assert [item.path for item in plan(wish(payload=""), between, SALT).install.remove] == [EXE]
    assert not ledger.read(reached(second, found).registry).installed.files[EXE].former


configurations = st.builds(
    Configuration,
    st.sampled_from(["containerd", "kubelet", "kube-proxy"]),
    st.sampled_from([r"C:\k\a.exe", r'"C:\k\b.exe" --x="y"']),
    restart_seconds=st.sampled_from([None, 10]),
    environment=st.sampled_from([None, ("A=1",), ("A=2", "B=1")]),
)
paths = st.sampled_from([EXE, CONF, r"C:\k\c"])
wishes = st.builds(
    lambda services, files, directories, payload, proxied: wish(
        *{s.name: s for s in services}.values(), files=files, directories=tuple(directories), payload=payload, proxied=proxied
    ),
    st.lists(configurations, max_size=3),
    st.dictionaries(paths, st.sampled_from([A, B])),
    st.sets(st.sampled_from([r"C:\k", r"C:\k\x", r"C:\var"])),
    st.sampled_from(["1.0.0", "2.0.0", None]),
    st.booleans(),
)
actuals = st.builds(
    lambda services, files: host(*services.items(), files=files),
    st.dictionaries(st.sampled_from(["containerd", "kubelet", "other"]), st.sampled_from([UP, DOWN])),
    st.dictionaries(paths, st.just(CHANGED)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(wishes, max_size=3), actuals)
def test_every_plan_is_over_once_it_was_carried_out_and_removal_gives_the_host_back(
    desired: list[DesiredState], actual: ObservedState
) -> None:
    found = actual
    for item in desired:
        planned = plan(item, found, SALT)
        back = installation.predict_reversal(found, planned.edits, planned.install)
        if planned.install.reversal is not None:
            assert ledger.read(back.registry).installed == ledger.read(found.registry).installed
            reached(item, back)
        found = reached(item, found)
    gone = reached(wish(payload=""), found)
    assert gone.registry.find_key(LEDGER) is None
    assert gone.registry.list_keys_below(SERVICES) == actual.registry.list_keys_below(SERVICES)
    assert gone.files == actual.files
    assert {s.name for s in gone.services} == {s.name for s in actual.services}
