"""What happens between a reflector and a real API server when something goes wrong, and that the store is right afterwards."""

import asyncio
import signal

import pytest
from lab.control_plane import ControlPlane
from tests.kube.deep import DEEP, post_deep
from tests.kube.gadgets import GADGETS, QUICK, WHOLE_GADGETS, Gadget, GadgetSpec, define_gadgets, following, gadget, sizes
from tests.kube.relay import Relay
from tests.support.waiting import until

from transom.kube.backoff import Backoff
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.decoding import TOO_DEEP
from transom.kube.errors import UnreadableObject
from transom.kube.reflector import Reflector, ReflectorTimings
from transom.kube.store import Store

pytestmark = pytest.mark.lab


async def put(client: Client, name: str, size: object) -> None:
    await client.apply(WHOLE_GADGETS, gadget(name, size=size), name, "default")


@pytest.mark.usefixtures("gadgets")
async def test_it_follows_what_is_made_changed_and_deleted(direct: Client) -> None:
    store: Store[Gadget] = Store()
    told: list[tuple[str, bool, bool]] = []
    store.subscribe(lambda name, before, after: told.append((name.name, before is not None, after is not None)))
    reflector = Reflector(direct, GADGETS, store, timings=QUICK)
    await put(direct, "a", 1)
    async with following(reflector):
        await reflector.synced.wait()
        assert sizes(store) == {"a": 1}
        await put(direct, "b", 2)
        await put(direct, "a", 3)
        await direct.delete(GADGETS, "b", "default")
        await until(lambda: told[-1:] == [("b", True, False)])
    assert sizes(store) == {"a": 3}
    assert told == [("a", False, True), ("b", False, True), ("a", True, True), ("b", True, False)]
    assert (reflector.lists, reflector.watches) == (1, 1)


@pytest.mark.usefixtures("gadgets")
async def test_what_nobody_may_see_is_not_there_where_it_is_optional(control_plane: ControlPlane, direct: Client) -> None:
    """Nobody waits for it, and it is there once somebody has given the right."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody", "namespace": "default"}}
    await asyncio.to_thread(control_plane.apply, [account])
    token = await asyncio.to_thread(control_plane.create_service_account_token, "default", "nobody")
    connection = connect(str(control_plane.write_kubeconfig("nobody", token)))
    store: Store[Gadget] = Store()
    await put(direct, "a", 1)
    pace = ReflectorTimings(absent=Backoff(0.1, 0.1))
    rules = [{"apiGroups": [GADGETS.group], "resources": [GADGETS.plural], "verbs": ["list", "watch"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "gadgets"}}
    bound = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gadgets"},
        "subjects": [{"kind": "ServiceAccount", "name": "nobody", "namespace": "default"}],
    }
    try:
        reflector = Reflector(Client(connection), GADGETS, store, timings=pace, optional=True)
        async with following(reflector):
            await reflector.synced.wait()
            assert (reflector.present, len(store)) == (False, 0)
            given = [{**role, "kind": "ClusterRole", "rules": rules}, {**role, "kind": "ClusterRoleBinding", **bound}]
            await asyncio.to_thread(control_plane.apply, given)
            await until(lambda: sizes(store) == {"a": 1})
    finally:
        await connection.close()
        await asyncio.to_thread(
            control_plane.run_kubectl, "delete", "--ignore-not-found", "clusterrole,clusterrolebinding", "gadgets"
        )


@pytest.mark.usefixtures("gadgets")
async def test_a_list_of_many_pages_is_one_list(direct: Client) -> None:
    await asyncio.gather(*(put(direct, f"g{number:02}", number) for number in range(25)))
    listing = await direct.list_objects(GADGETS, "default", page_size=10)
    assert sorted(item.metadata.name for item in listing.items) == [f"g{number:02}" for number in range(25)]
    nothing = await direct.list_objects(GADGETS, "kube-system")
    assert (nothing.items, nothing.malformed) == ([], [])
    assert 0 < int(listing.resource_version) <= int(nothing.resource_version)


@pytest.mark.usefixtures("gadgets")
@pytest.mark.parametrize("at", [1, 700, 1500, 2500, 3001])
async def test_a_watch_cut_in_the_middle_goes_on_where_it_was(direct: Client, relayed: Client, relay: Relay, at: int) -> None:
    store: Store[Gadget] = Store()
    told: list[str] = []
    reflector = Reflector(relayed, GADGETS, store, timings=QUICK)
    async with following(reflector):
        await reflector.synced.wait()
        store.subscribe(lambda name, before, after: told.append(name.name))
        # the list's connection is kept alive and may carry the watch: a new one for each from here on
        relay.cut_after = at
        relay.cut()
        for number in range(12):
            await put(direct, f"g{number}", number)
        await asyncio.sleep(0.5)
        relay.cut_after = None
        relay.cut()
        await until(lambda: len(store) == 12)
    assert sizes(store) == {f"g{number}": number for number in range(12)}
    assert sorted(told) == sorted({*told}), "told twice"
    assert reflector.lists == 1
    assert relay.connections < 40


@pytest.mark.usefixtures("gadgets")
async def test_what_was_deleted_while_nobody_could_see_it_is_gone_after_a_410(
    control_plane: ControlPlane, direct: Client, relayed: Client, relay: Relay
) -> None:
    store: Store[Gadget] = Store()
    told: list[tuple[str, bool]] = []
    reflector = Reflector(relayed, GADGETS, store, timings=QUICK)
    await put(direct, "kept", 1)
    await put(direct, "deleted", 1)
    await put(direct, "changed", 1)
    async with following(reflector):
        await reflector.synced.wait()
        store.subscribe(lambda name, before, after: told.append((name.name, after is not None)))
        told.clear()
        relay.refuse = True
        relay.cut()
        await direct.delete(GADGETS, "deleted", "default")
        await put(direct, "changed", 2)
        await put(direct, "new", 3)
        # history is gone: from etcd, and with the restart from the server's own memory
        await asyncio.to_thread(control_plane.compact)
        await asyncio.to_thread(control_plane.restart_apiserver)
        relay.refuse = False
        await until(lambda: "new" in sizes(store))
    assert sizes(store) == {"kept": 1, "changed": 2, "new": 3}
    assert sorted(told) == [("changed", True), ("deleted", False), ("new", True)]
    assert reflector.lists == 2


@pytest.mark.usefixtures("gadgets")
async def test_a_killed_server_that_comes_back_is_followed_again(control_plane: ControlPlane, direct: Client) -> None:
    store: Store[Gadget] = Store()
    reflector = Reflector(direct, GADGETS, store, timings=QUICK)
    await put(direct, "a", 1)
    async with following(reflector):
        await reflector.synced.wait()
        control_plane.kill("kube-apiserver")
        await asyncio.sleep(1)
        watches = reflector.watches
        assert watches < 15, "a busy loop"
        await asyncio.to_thread(control_plane.start_apiserver)
        await put(direct, "b", 2)
        await until(lambda: sizes(store) == {"a": 1, "b": 2})


@pytest.mark.usefixtures("gadgets")
async def test_a_silent_server_is_left(direct: Client, relayed: Client, relay: Relay) -> None:
    store: Store[Gadget] = Store()
    pace = ReflectorTimings(backoff=QUICK.backoff, inactivity=0.5, least=0.05)
    reflector = Reflector(relayed, GADGETS, store, timings=pace)
    async with following(reflector):
        await reflector.synced.wait()
        relay.silent = True
        await put(direct, "a", 1)
        await asyncio.sleep(1.2)
        assert sizes(store) == {}
        relay.silent = False
        await until(lambda: sizes(store) == {"a": 1})
    assert reflector.watches >= 2


@pytest.mark.usefixtures("gadgets")
async def test_a_slow_list_arrives_whole(direct: Client, relayed: Client, relay: Relay) -> None:
    await asyncio.gather(*(put(direct, f"g{number:02}", number) for number in range(40)))
    store: Store[Gadget] = Store()
    reflector = Reflector(relayed, GADGETS, store, timings=QUICK)
    relay.chunk, relay.pause = 2000, 0.05
    async with following(reflector):
        await reflector.synced.wait()
        assert len(store) == 40
    assert reflector.lists == 1


@pytest.mark.usefixtures("gadgets")
async def test_errors_of_the_server_are_waited_out(control_plane: ControlPlane, direct: Client) -> None:
    """Without etcd the server answers 500s, or nothing in time."""
    store: Store[Gadget] = Store()
    await put(direct, "a", 1)
    reflector = Reflector(direct, GADGETS, store, timings=QUICK)
    control_plane.kill("etcd")
    try:
        async with following(reflector):
            await asyncio.sleep(1.5)
            assert not reflector.synced.is_set()
            assert reflector.lists < 20
            await asyncio.to_thread(control_plane.start_etcd)
            await until(lambda: sizes(store) == {"a": 1})
    finally:
        control_plane.wait_ready()


@pytest.mark.usefixtures("gadgets")
async def test_an_object_that_does_not_fit_spoils_no_other(direct: Client) -> None:
    await put(direct, "good", 1)
    await put(direct, "bad", "very large")
    await direct.apply(GADGETS, {**gadget("null"), "spec": {"parts": None, "other": [None]}}, "null", "default")
    with pytest.raises(UnreadableObject, match=r"Gadget: Expected `int \| null`, got `str` - at `\$\.spec\.size`"):
        await direct.get(GADGETS, "bad", "default")
    store: Store[Gadget] = Store()
    reflector = Reflector(direct, GADGETS, store, timings=QUICK)
    async with following(reflector):
        await reflector.synced.wait()
        assert sizes(store) == {"good": 1, "null": None}
        malformed = store.take_snapshot().malformed
        assert {name.name: item.problem for name, item in malformed.items()} == {
            "bad": "Expected `int | null`, got `str` - at `$.spec.size`"
        }
        await put(direct, "good", "larger")
        await until(lambda: ("default", "good") in store.take_snapshot().malformed)
        assert sizes(store)["good"] == 1, "the last version that could be read"
        await put(direct, "bad", 5)
        await until(lambda: sizes(store).get("bad") == 5)
        await direct.delete(GADGETS, "good", "default")
        await until(lambda: "good" not in sizes(store))
        assert not store.take_snapshot().malformed
    assert reflector.lists == 1


async def test_a_kind_that_goes_and_comes_back(control_plane: ControlPlane, direct: Client) -> None:
    store: Store[Gadget] = Store()
    reflector = Reflector(direct, GADGETS, store, timings=QUICK)
    async with following(reflector):
        await reflector.synced.wait()
        assert not reflector.present
        try:
            for size in (1, 2):
                await define_gadgets(control_plane)
                await put(direct, "a", size)
                await until(lambda size=size: sizes(store) == {"a": size})
                assert reflector.present
                await asyncio.to_thread(control_plane.run_kubectl, "delete", "crd", "gadgets.test.transom.dev")
                await until(lambda: not reflector.present)
                assert len(store) == 0
        finally:
            await asyncio.to_thread(
                control_plane.run_kubectl, "delete", "crd", "gadgets.test.transom.dev", "--ignore-not-found"
            )


@pytest.mark.usefixtures("gadgets")
async def test_a_frozen_server_costs_time_and_nothing_else(control_plane: ControlPlane, direct: Client) -> None:
    store: Store[Gadget] = Store()
    pace = ReflectorTimings(backoff=QUICK.backoff, inactivity=0.5, least=0.05)
    reflector = Reflector(direct, GADGETS, store, timings=pace)
    await put(direct, "a", 1)
    async with following(reflector):
        await reflector.synced.wait()
        control_plane.signal("kube-apiserver", signal.SIGSTOP)
        await asyncio.sleep(1.5)
        control_plane.signal("kube-apiserver", signal.SIGCONT)
        await put(direct, "b", 2)
        await until(lambda: sizes(store) == {"a": 1, "b": 2})
    assert reflector.lists == 1


@pytest.mark.usefixtures("gadgets")
async def test_an_object_as_deep_as_the_server_takes_spoils_no_other(control_plane: ControlPlane, direct: Client) -> None:
    """There when the list is asked for, and made, changed and deleted while the kind is followed."""
    told: list[tuple[str, str]] = []
    store: Store[Gadget] = Store()
    reflector = Reflector(
        direct,
        GADGETS,
        store,
        timings=QUICK,
        on_malformed=lambda item: told.append((item.metadata.metadata.name, item.problem)),
    )
    await put(direct, "good", 1)
    post_deep(control_plane, gadget("listed", size=3, more=DEEP), GADGETS)
    async with following(reflector):
        await reflector.synced.wait()
        assert sizes(store) == {"good": 1, "listed": 3}
        post_deep(control_plane, gadget("watched", size=3, more=DEEP), GADGETS)
        await put(direct, "better", 2)
        await until(lambda: "better" in sizes(store))
        assert sizes(store) == {"good": 1, "listed": 3, "watched": 3, "better": 2}
        assert {name.name for name in store.malformed} == {"listed", "watched"}
        assert told == [("listed", TOO_DEEP), ("watched", TOO_DEEP)]
        await direct.delete(GADGETS, "listed", "default")
        await until(lambda: {name.name for name in store.malformed} == {"watched"})
    assert (reflector.lists, reflector.watches) == (1, 1)
    assert (await direct.get(GADGETS, "watched", "default")).spec == GadgetSpec(3, None)
