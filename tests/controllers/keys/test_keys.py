"""A changed SSH key on a real API server, with hosts behind SSH servers that let in who is in their file."""

import asyncio
import base64
from typing import Any

import asyncssh
import pytest
from tests.support.operator.clusters import PROXY, Cluster
from tests.support.operator.limited import limited
from tests.support.waiting import PATIENCE, until

from lab import openshift
from transom.controllers.runtime.informers import MACHINES
from transom.controllers.runtime.options import HostTimings
from transom.hosts.passes import key_move
from transom.hosts.ssh.ssh_client import Timeouts, compute_public_hash, format_public_key
from transom.kube.errors import NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import NODES, SECRETS, WINDOWS_INSTANCES, Resource
from transom.proxy.secret import Secret
from winsim import Host
from winsim.host import KEYS

pytestmark = pytest.mark.lab
ONLY = ("hosts", "keys")
QUICK = HostTimings(unready=0.3, refused=0.0, timeouts=Timeouts(connect=20, progress=5, whole=300))
JOE = b"ssh-rsa AAAAjoe joe@corp.example\r\n"


def new_key() -> Secret:
    return Secret(asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode())


def opened_by(host: Host, key: Secret) -> bool:
    return host.files.read(KEYS) == JOE + format_public_key(key).encode() + b"\r\n"


def lock(host: Host, key: Secret) -> None:
    host.files.write(KEYS, JOE + format_public_key(key).encode() + b"\r\n")


async def kept(cluster: Cluster) -> dict[str, Secret]:
    try:
        held = (await cluster.client.get(SECRETS, "transom-kept-keys.cloud-private-key", cluster.namespace)).value
    except NotFound:
        return {}
    return {name: Secret(base64.b64decode(text).decode()) for name, text in held["data"].items()}


async def until_kept(cluster: Cluster, **wanted: Secret) -> None:
    names = {"current": "private-key.pem", "previous": "private-key.previous.pem"}
    found: dict[str, Secret] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            while found != {names[name]: key for name, key in wanted.items()}:
                await asyncio.sleep(0.05)
                found = await kept(cluster)
    except TimeoutError:
        raise AssertionError(f"wanted {list(wanted)}, found {list(found)}") from None


async def until_recorded(cluster: Cluster, name: str, key: Secret) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await cluster.status(name)).get("keyHash") != compute_public_hash(key):
            await asyncio.sleep(0.05)


async def test_all_follow_and_the_previous_key_is_kept_until_they_have(cluster: Cluster) -> None:
    first, second = new_key(), new_key()
    hosts = [await cluster.simulator.add_host() for _ in range(4)]
    await cluster.put_key(first.reveal())
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    for number, host in enumerate(hosts):
        lock(host, first)
        await cluster.instance(f"win-{number}", host)
    async with limited(cluster, *ONLY) as client:
        async with cluster.operator(client, controllers=ONLY, pace=QUICK):
            for number in range(4):
                await cluster.until(f"win-{number}", Configured="True")
                await until_recorded(cluster, f"win-{number}", first)
            await until_kept(cluster, current=first)
            hosts[3].faults.refuses = True
            await cluster.put_key("-----BEGIN PRIVATE KEY-----\nhunter2\n")
            await cluster.until("win-0", Configured="False/KeyInvalid")
            assert opened_by(hosts[0], first)
            await cluster.put_key(second.reveal())
            await until(lambda: any(opened_by(host, second) for host in hosts))
        # the operator that follows goes on
        async with cluster.operator(client, controllers=ONLY, pace=QUICK):
            for number in range(3):
                await until_recorded(cluster, f"win-{number}", second)
                assert opened_by(hosts[number], second)
            await until_kept(cluster, current=second, previous=first)
            hosts[3].faults.refuses = False
            await cluster.merge(WINDOWS_INSTANCES, "win-3", {"metadata": {"annotations": {"look": "again"}}})
            await until_recorded(cluster, "win-3", second)
            await until_kept(cluster, current=second)
            assert opened_by(hosts[3], second)
            assert await cluster.told("win-3", "KeyMoved")
        # a key of its own for one of them: the one before it is known from the other Secret
        own = new_key()
        async with cluster.operator(client, controllers=ONLY, pace=QUICK):
            data = {"private-key.pem": base64.b64encode(own.reveal().encode()).decode()}
            await cluster.put(SECRETS, "own", data=data)
            await cluster.merge(WINDOWS_INSTANCES, "win-3", {"spec": {"keySecret": {"name": "own"}}})
            await until_recorded(cluster, "win-3", own)
            assert opened_by(hosts[3], own)
    # nothing but the key has changed: no service was restarted after the first pass
    assert [len(host.starts("kubelet")) for host in hosts] == [2, 2, 2, 2]
    assert "PRIVATE KEY" not in str([await cluster.events(f"win-{n}") for n in range(4)])


async def test_two_hosts_that_refuse_the_new_key_stop_it(cluster: Cluster) -> None:
    first = new_key()
    refused = Secret(asyncssh.generate_private_key("ecdsa-sha2-nistp256").export_private_key().decode())
    hosts = [await cluster.simulator.add_host() for _ in range(4)]
    await cluster.put_key(first.reveal())
    for number, host in enumerate(hosts):
        lock(host, first)
        host.key_types = ("ssh-ed25519",)
        await cluster.instance(f"win-{number}", host)
    async with cluster.operator(controllers=ONLY, pace=QUICK):
        for number in range(4):
            await until_recorded(cluster, f"win-{number}", first)
        await cluster.put_key(refused.reveal())
        async with asyncio.timeout(PATIENCE):
            found: list[str] = []
            while sorted(found) != ["NewKeyRefused"] * 2 + ["RolloutHalted"] * 2:
                await asyncio.sleep(0.05)
                found = [(await cluster.conditions(f"win-{number}"))["Configured"][1] for number in range(4)]
        assert sum(opened_by(host, first) for host in hosts) == 2
        second = new_key()
        await cluster.put_key(second.reveal())
        for number, host in enumerate(hosts):
            await until_recorded(cluster, f"win-{number}", second)
            await cluster.until(f"win-{number}", Configured="True")
            assert format_public_key(first).encode() not in host.files.read(KEYS)


async def test_a_host_of_which_nothing_is_known_may_have_an_earlier_key(cluster: Cluster) -> None:
    """A machine that was made with the user data of yesterday, and is met after the change."""
    first, second = new_key(), new_key()
    old, late = [await cluster.simulator.add_host() for _ in range(2)]
    await cluster.put_key(first.reveal())
    lock(old, first)
    lock(late, first)
    await cluster.instance("win-old", old)
    async with cluster.operator(controllers=ONLY, pace=QUICK):
        await until_recorded(cluster, "win-old", first)
        await until_kept(cluster, current=first)
        await cluster.merge(WINDOWS_INSTANCES, "win-old", {"spec": {"paused": True}})
        await cluster.until("win-old", Configured="Unknown/Paused")
        await cluster.put_key(second.reveal())
        await cluster.instance("win-late", late)
        await until_recorded(cluster, "win-late", second)
        assert opened_by(late, second)
        # the other one is still opened by it
        await until_kept(cluster, current=second, previous=first)


MACHINE_SETS = Resource(MACHINES.group, MACHINES.version, "MachineSet", "machinesets", True, UnstructuredObject)
MACHINES_WHOLE = Resource(MACHINES.group, MACHINES.version, MACHINES.kind, MACHINES.plural, True, UnstructuredObject)
API = "openshift-machine-api"


class MachineSet:
    """A MachineSet with the Machines that it made, in the part of the Machine API's controllers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._owner = cluster, ""

    async def make(self, replicas: int) -> None:
        selector = {"matchLabels": {"set": "win"}}
        value = {"metadata": {"name": "win", "namespace": API}, "spec": {"replicas": replicas, "selector": selector}}
        value |= {"apiVersion": MACHINE_SETS.api_version, "kind": "MachineSet"}
        self._owner = (await self._cluster.client.create(MACHINE_SETS, value, API)).metadata.uid or ""

    async def machine(self, name: str, host: Host, *, owned: bool = True) -> None:
        """A Machine with its Node, and the WindowsInstance that Transom has made of it, with the port of the test."""
        cluster = self._cluster
        owner = {"apiVersion": MACHINE_SETS.api_version, "kind": "MachineSet", "name": "win", "uid": self._owner}
        labels = {"machine.openshift.io/os-id": "Windows", "set": "win"}
        metadata: dict[str, Any] = {"name": name, "namespace": API, "labels": labels}
        if owned:
            metadata["ownerReferences"] = [owner | {"controller": True}]
        spec = {"providerSpec": {"value": {"userDataSecret": {"name": "windows-user-data"}}}}
        value = {"apiVersion": MACHINES.api_version, "kind": "Machine", "metadata": metadata, "spec": spec}
        made = await cluster.client.create(MACHINES_WHOLE, value, API)
        await cluster.put(NODES, name)
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        await cluster.merge(NODES, name, {"status": {"conditions": [ready]}}, "status")
        annotations = {"transom.dev/origin": f"{API}/{name}", "transom.dev/origin-uid": made.metadata.uid}
        marks = {"name": name, "namespace": cluster.namespace, "labels": {"transom.dev/source": "Machine"}}
        instance = {"address": host.address, "port": host.port, "username": host.username, "nodeName": name}
        await cluster.put(WINDOWS_INSTANCES, name, metadata={**marks, "annotations": annotations}, spec=instance)

    async def names(self) -> set[str]:
        return {item.metadata.name for item in (await self._cluster.client.list_objects(MACHINES_WHOLE, API)).items}


async def test_a_host_whose_move_was_cut_is_opened_whatever_the_secret_has_by_then(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, first, second, third = await cluster.simulator.add_host(), new_key(), new_key(), new_key()
    lock(host, first)
    await cluster.put_key(first.reveal())
    await cluster.instance("win-1", host)
    move = key_move.rotate_ssh_key

    async def cut(*moved: Any) -> None:
        await move(*moved)
        host.faults.refuses = True

    async with cluster.operator(controllers=ONLY, pace=QUICK):
        await until_recorded(cluster, "win-1", first)
        for after in (first, third):
            with monkeypatch.context() as patched:
                patched.setattr(key_move, "rotate_ssh_key", cut)
                await cluster.put_key(second.reveal())
                await cluster.until("win-1", Reachable="False/Unreachable")
            assert opened_by(host, second)
            await cluster.put_key(after.reveal())
            host.faults.refuses = False
            await until_recorded(cluster, "win-1", after)
            assert opened_by(host, after)
            await until_kept(cluster, current=after)


async def test_machines_that_no_key_opens_are_replaced_one_at_a_time(cluster: Cluster) -> None:
    plane = cluster.control_plane
    await asyncio.to_thread(openshift.define, plane, openshift.MACHINE_API)
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (API, "openshift-cluster-api")
    ]
    await asyncio.to_thread(plane.apply, namespaces)
    first, second, stranger = new_key(), new_key(), new_key()
    machines = MachineSet(cluster)
    await machines.make(3)
    hosts = {name: await cluster.simulator.add_host() for name in ("win-a", "win-b", "win-c", "win-mine")}
    await cluster.put_key(first.reveal())
    for name, host in hosts.items():
        lock(host, first)
        await machines.machine(f"{name}-{cluster.namespace}", host, owned=name != "win-mine")
    named = {name: f"{name}-{cluster.namespace}" for name in hosts}
    only = (*ONLY, "userdata")
    async with limited(cluster, *only, openshift=True) as client, cluster.operator(client, controllers=only, pace=QUICK):
        for name in named.values():
            await until_recorded(cluster, name, first)
        for name in ("win-a", "win-b", "win-mine"):
            lock(hosts[name], stranger)
        await cluster.put_key(second.reveal())
        for name in ("win-a", "win-b", "win-mine"):
            await cluster.until(named[name], Reachable="False/KeyRefused")
        await until_recorded(cluster, named["win-c"], second)
        async with asyncio.timeout(PATIENCE):
            while len(await machines.names()) == 4:
                await asyncio.sleep(0.05)
        (gone,) = {named["win-a"], named["win-b"]} - await machines.names()
        await cluster.delete(WINDOWS_INSTANCES, gone)
        # the next one waits until there is another in its place, and that is a Ready node
        await asyncio.sleep(1.5)
        assert len(await machines.names()) == 3
        replacement = await cluster.simulator.add_host()
        lock(replacement, second)
        await machines.machine(f"win-d-{cluster.namespace}", replacement)
        (left,) = {named["win-a"], named["win-b"]} - {gone}
        async with asyncio.timeout(PATIENCE):
            while left in await machines.names():
                await asyncio.sleep(0.05)
        assert await cluster.told(left, "MachineReplaced")
        assert named["win-mine"] in await machines.names()
        said = (await cluster.status(named["win-mine"]))["conditions"]
        assert any(format_public_key(second) in item["message"] for item in said)
    await asyncio.to_thread(openshift.forget, plane, openshift.MACHINE_API)
