"""`transom pause`, `resume`, `restart` and `reconcile`: a real API server, a working operator, and simulated hosts."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.programs import started, transom
from tests.support.command import run
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.rollouts import breaks_tls, halted
from tests.support.waiting import until

from transom.kube.resources import EGRESS_PROXIES, SECRETS, WINDOWS_INSTANCES
from winsim import Host
from winsim.computer import Invocation

pytestmark = pytest.mark.lab
OTHER = "http://other.corp.example:3128"
MANUAL: dict[str, Any] = {"windows": {"restart": "Manual"}}


@pytest.fixture(autouse=True)
async def at_this_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.control_plane.kubeconfig))
    monkeypatch.setenv("TRANSOM_NAMESPACE", cluster.namespace)
    yield
    await cluster.leave()


async def code(*arguments: str) -> int:
    """The exit code of a command in this process, which starts at once."""
    return (await asyncio.to_thread(run, *arguments)).code


async def hosts_of(cluster: Cluster, count: int, **spec: Any) -> list[Host]:
    found = [await cluster.simulator.add_host() for _ in range(count)]
    for number, host in enumerate(found):
        await cluster.instance(f"win-{number}", host, **spec)
    return found


async def instance(cluster: Cluster, name: str) -> dict[str, Any]:
    return (await cluster.client.get(WINDOWS_INSTANCES, name, cluster.namespace)).value


def works(_: Invocation) -> int:
    return 0


async def test_a_paused_host_is_left_alone_until_it_is_resumed(cluster: Cluster) -> None:
    first, second = await hosts_of(cluster, 2)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with cluster.operator():
        await cluster.wait_ready()
        paused = await transom("pause", "win-0", "--wait")
        assert (paused.code, paused.out) == (0, "win-0: paused\n"), paused.err
        assert cluster.control_plane.url in paused.err
        again = await transom("pause", "win-0,win-1", "-o", "json")
        assert [(host["name"], host["result"]) for host in again.json["hosts"]] == [
            ("win-0", "unchanged"),
            ("win-1", "changed"),
        ]
        assert await code("resume", "win-1", "--wait") == 0

        connections, registry = first.traffic.connections, list(first.registry)
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(second, "kubelet"))
        assert await code("reconcile", "win-1", "--wait") == 0
        assert (first.traffic.connections, list(first.registry)) == (connections, registry)
        refused = await transom("reconcile", "win-0", "--wait")
        assert refused.code == 1
        assert "transom resume win-0" in refused.out

        resumed = await transom("resume", "--all", "--wait", "-o", "json")
        assert resumed.code == 0, resumed.err
        came = {host["name"]: (host["result"], host["outcome"]) for host in resumed.json["hosts"]}
        assert came == {"win-0": ("changed", "done"), "win-1": ("unchanged", None)}
        assert f"HTTPS_PROXY={OTHER}" in environment(first, "kubelet")
        value = await instance(cluster, "win-0")
        # nothing of the pause is left: whoever applies the object meets no conflict
        assert value["spec"]["paused"] is False
        assert "transom-cli" not in {managed_field["manager"] for managed_field in value["metadata"]["managedFields"]}


async def test_services_are_restarted_once(cluster: Cluster) -> None:
    (host,) = await hosts_of(cluster, 1)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, **MANUAL)
    async with cluster.operator():
        await cluster.until("win-0", Configured="True", ProxyApplied="False/PendingRestart")
        starts = len(host.starts("kubelet"))
        done = await transom("restart", "win-0", "--wait", "-o", "json")
        assert (done.code, done.json["hosts"][0]["outcome"]) == (0, "done"), done.err
        assert len(host.starts("kubelet")) == starts + 1
        nothing = await transom("restart", "--all", "--wait", "-o", "json")
        assert (nothing.code, nothing.json["hosts"][0]["result"]) == (0, "unchanged")
        # a later change waits for a person again
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER, **MANUAL)
        await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet"))
        await cluster.until("win-0", Configured="True", ProxyApplied="False/PendingRestart")
        assert len(host.starts("kubelet")) == starts + 1


async def test_a_host_is_reconciled_now_and_its_failure_is_reported(cluster: Cluster) -> None:
    first, second = await hosts_of(cluster, 2)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with cluster.operator():
        await cluster.wait_ready()
        before = first.traffic.connections, second.traffic.connections
        second.faults.refuses = True
        done = await transom("reconcile", "win-*", "--wait", "-o", "json")
        assert done.code == 1
        came = {host["name"]: (host["outcome"], "Unreachable" in host["message"]) for host in done.json["hosts"]}
        assert came == {"win-0": ("done", False), "win-1": ("failed", True)}
        assert first.traffic.connections == before[0] + 1
        second.faults.refuses = False
        assert await code("reconcile", "win-1", "--wait") == 0


async def test_a_halted_rollout_goes_on(cluster: Cluster) -> None:
    hosts = await hosts_of(cluster, 3)
    for host in hosts:
        host.fetch = breaks_tls
    policy = {"readinessEndpoints": ["https://registry.corp.example/v2/"], "readinessPolicy": "Report"}
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, **policy)
    async with cluster.operator():
        await halted(cluster, "True")
        # the cause is there yet: it halts again, and the command says so
        again = await transom("resume", "--rollout", "--wait", "-o", "json")
        assert (again.code, again.json["rollout"]["outcome"]) == (1, "failed"), again.err
        for host in hosts:
            host.fetch = works
        resumed = await transom("resume", "--rollout", "--wait", "-o", "json")
        assert (resumed.code, resumed.json["rollout"]["outcome"]) == (0, "done"), resumed.out
        assert all(f"HTTPS_PROXY={PROXY}" in environment(host, "containerd") for host in hosts)
        nothing = await transom("resume", "--rollout")
        assert (nothing.code, "unchanged" in nothing.out) == (0, True)


async def test_without_an_operator_it_is_said(cluster: Cluster) -> None:
    await hosts_of(cluster, 1)
    asked = await transom("reconcile", "win-0", "-o", "json")
    assert (asked.code, asked.json["operator"]["working"], asked.json["hosts"][0]["result"]) == (0, False, "changed")
    assert "no operator runs" in asked.err
    waited = await transom("reconcile", "win-0", "--wait", "--timeout", "1s", "-o", "json")
    assert (waited.code, waited.json["hosts"][0]["outcome"]) == (1, "waiting")
    async with cluster.operator():
        done = await transom("reconcile", "win-0", "-o", "json")
        await until(lambda: _held(cluster))
        done = await transom("reconcile", "win-0", "-o", "json")
    assert done.json["operator"]["working"] is True


async def _held(cluster: Cluster) -> bool:
    lease = (await cluster.client.get_json(f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases"))["items"]
    return bool(lease and lease[0]["spec"].get("holderIdentity"))


async def test_names_that_are_nobodys_are_listed_and_nothing_is_done(cluster: Cluster) -> None:
    await hosts_of(cluster, 3)
    wrong = await transom("pause", "win-1", "wim-2", "lin-*")
    assert (wrong.code, wrong.out) == (1, "")
    assert "wim-2, lin-*" in wrong.err
    assert "did you mean win-2" in wrong.err
    for number in range(3):
        assert not (await instance(cluster, f"win-{number}"))["spec"]["paused"]
    for arguments in ((), ("win-1", "--all"), ("--all", "-l", "a=b")):
        assert await code("pause", *arguments) == 2
    assert await code("resume") == 2
    assert await code("resume", "win-1", "--rollout") == 2
    assert await code("pause", "win-1", "--timeout", "5") == 2
    assert await code("pause", "-l", "env=prod") == 1


async def test_hosts_are_selected_by_their_labels(cluster: Cluster) -> None:
    await hosts_of(cluster, 3)
    for name in ("win-0", "win-2"):
        await cluster.merge(WINDOWS_INSTANCES, name, {"metadata": {"labels": {"env": "test"}}})
    told = await transom("pause", "-l", "env=test")
    assert (told.code, told.out.splitlines()) == (0, ["win-0: paused", "win-2: paused"])
    told = await transom("resume", "win-2", "-l", "env=test")
    assert (told.code, told.out.splitlines()) == (0, ["win-2: resumed"])


async def test_the_owner_of_the_field_is_named(cluster: Cluster) -> None:
    """What Flux applies it applies again: server-side apply says who owns `spec.paused`."""
    (host,) = await hosts_of(cluster, 1)
    place = {"address": host.address, "port": host.port, "username": host.username}
    manifest: dict[str, Any] = {
        "apiVersion": WINDOWS_INSTANCES.api_version,
        "kind": "WindowsInstance",
        "metadata": {
            "name": "win-0",
            "labels": {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"},
        },
        "spec": {**place, "paused": False},
    }

    async def applied(manager: str) -> None:
        await cluster.client.apply(WINDOWS_INSTANCES, manifest, "win-0", cluster.namespace, manager=manager)

    await applied("kustomize-controller")
    told = await transom("pause", "win-0", "-o", "json")
    assert told.code == 0
    (warning,) = told.json["hosts"][0]["warnings"]
    assert "Flux (Kustomization flux-system/apps)" in warning
    assert "Flux" in told.err
    await applied("kustomize-controller")
    assert (await instance(cluster, "win-0"))["spec"]["paused"] is False
    # a manifest that does not have the field sets nothing back
    del manifest["spec"]["paused"]
    await applied("kustomize-controller")
    told = await transom("pause", "win-0", "-o", "json")
    assert (told.code, told.json["hosts"][0]["warnings"]) == (0, [])
    await applied("kustomize-controller")
    assert (await instance(cluster, "win-0"))["spec"]["paused"] is True


async def test_whoever_paused_a_host_it_is_resumed(cluster: Cluster) -> None:
    await hosts_of(cluster, 1)
    await cluster.merge(WINDOWS_INSTANCES, "win-0", {"spec": {"paused": True}})
    assert await code("resume", "win-0") == 0
    assert (await instance(cluster, "win-0"))["spec"]["paused"] is False


async def test_a_person_without_the_right_is_told(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may read, and not change: each host says so, and the others are no worse for it."""
    await hosts_of(cluster, 2)
    reader = await _person(cluster, [{"apiGroups": ["transom.dev"], "resources": ["windowsinstances"], "verbs": ["list"]}])
    monkeypatch.setenv("KUBECONFIG", reader)
    told = await transom("pause", "--all", "-o", "json")
    assert told.code == 1
    assert [(host["result"], "cannot patch resource" in host["message"]) for host in told.json["hosts"]] == [
        ("failed", True)
    ] * 2
    nobody = await _person(cluster, [])
    monkeypatch.setenv("KUBECONFIG", nobody)
    told = await transom("pause", "--all")
    assert (told.code, told.out) == (1, "")
    assert "cannot list resource" in told.err


async def _person(cluster: Cluster, rules: list[dict[str, Any]]) -> str:
    """The kubeconfig of somebody with these rights in the namespace."""
    name, group = f"person-{len(rules)}", "rbac.authorization.k8s.io"
    meta = {"name": name, "namespace": cluster.namespace}
    account = {"kind": "ServiceAccount", **meta}
    role = {"apiGroup": group, "kind": "Role", "name": name}
    objects = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": meta, "roleRef": role, "subjects": [account]},
    ]
    plane = cluster.control_plane
    await asyncio.to_thread(plane.apply, objects)
    token = await asyncio.to_thread(plane.create_service_account_token, cluster.namespace, name)
    return str(plane.write_kubeconfig(name, token))


async def test_ctrl_c_ends_the_wait_and_the_request_stays(cluster: Cluster) -> None:
    await hosts_of(cluster, 1)
    process = await started("reconcile", "win-0", "--wait", "-o", "json")
    assert process.stderr is not None
    while b"waiting for the operator" not in await process.stderr.readline():
        pass
    await asyncio.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert process.returncode == 130, err
    assert b'"stopped": true' in out
    assert "transom.dev/reconcile" in (await instance(cluster, "win-0"))["metadata"]["annotations"]


async def test_without_an_egress_proxy_the_namespace_holds_the_word(cluster: Cluster) -> None:
    """With OpenShift's Proxy alone there is no object of Transom's that a rollout is of."""
    await hosts_of(cluster, 1)
    left = {"type": "Configured", "status": "False", "reason": "RolloutHalted", "message": "stopped"}
    left |= {"lastTransitionTime": "2026-11-23T12:00:00Z"}
    await cluster.merge(WINDOWS_INSTANCES, "win-0", {"status": {"conditions": [left]}}, "status")
    told = await transom("resume", "--rollout")
    assert told.code == 0, told.err
    space = await cluster.client.get_json(f"/api/v1/namespaces/{cluster.namespace}")
    assert space["metadata"]["annotations"]["transom.dev/resume"]
    listing = await cluster.client.list_objects(EGRESS_PROXIES)
    assert not listing.items


async def test_a_recorded_host_key_is_forgotten(cluster: Cluster) -> None:
    """The machine was replaced: it shows another key, and nothing is sent to it until a person says so."""
    (host,) = await hosts_of(cluster, 1)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with cluster.operator():
        await cluster.wait_ready()
        known = (await cluster.status("win-0"))["hostKeyFingerprint"]
        await cluster.simulator.change_host_key(host)
        assert await code("reconcile", "win-0", "--wait") == 1
        await cluster.until("win-0", Ready="False/HostKeyChanged")
        done = await transom("forget", "win-0", "--host-key", "--wait", "-o", "json")
        assert (done.code, done.json["hosts"][0]["outcome"]) == (0, "done"), done.err
        assert (await cluster.status("win-0"))["hostKeyFingerprint"] != known
        await cluster.until("win-0", Ready="True")
    assert await code("forget", "win-0", "--host-key", "--node") == 2
    nothing = await transom("forget", "win-0", "--node", "-o", "json")
    assert (nothing.code, nothing.json["hosts"][0]["result"]) == (0, "unchanged")


async def test_a_host_of_another_operator_is_taken_over(cluster: Cluster) -> None:
    """The annotation goes again: who takes the host over later keeps it."""
    former = Cluster(cluster.control_plane, cluster.client, cluster.simulator)
    await former.prepare()
    (host,) = await hosts_of(cluster, 1)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await former.instance("theirs", host)
    async with former.operator():
        await former.until("theirs", Ready="True")
    async with cluster.operator():
        await cluster.until("win-0", Ready="False/ManagedByOther")
        shown = await transom("adopt", "win-0", "-o", "json")
        assert (shown.code, shown.json["hosts"][0]["result"]) == (0, "changed")
        assert await code("adopt", "win-0", "--yes") == 2
        assert (await cluster.conditions("win-0"))["Ready"] == ("False", "ManagedByOther")
        done = await transom("adopt", "win-0", "--yes", "--context", "lab", "-o", "json")
        assert (done.code, done.json["hosts"][0]["outcome"]) == (0, "done"), done.err
        await cluster.until("win-0", Ready="True")
    assert "transom.dev/adopt" not in (await instance(cluster, "win-0"))["metadata"]["annotations"]
    await former.leave()


async def test_an_object_is_taken_over(cluster: Cluster) -> None:
    await cluster.put(SECRETS, "prod-systemd-proxy", stringData={"a": "b"})
    shown = await transom("adopt", "secret/prod-systemd-proxy", "-n", cluster.namespace, "-o", "json")
    assert (shown.code, shown.json[0]["result"]) == (0, "to take over")
    done = await transom("adopt", "secret/prod-systemd-proxy", "-n", cluster.namespace, "--context", "lab", "--yes")
    assert (done.code, "taken over" in done.out) == (0, True), done.err
    value = (await cluster.client.get(SECRETS, "prod-systemd-proxy", cluster.namespace)).metadata
    assert (value.annotations or {})["transom.dev/adopt"] == "true"
    assert await code("adopt", "secret/nobodys", "-n", cluster.namespace) == 1
    assert await code("adopt", "pod/web", "-n", cluster.namespace) == 2
    assert await code("adopt", "secret/a", "win-0", "-n", cluster.namespace) == 2


async def test_the_names_of_hosts_are_completed(cluster: Cluster) -> None:
    await hosts_of(cluster, 2)
    program = str(Path(sys.executable).parent / "kubectl_complete-transom")

    async def completed(*words: str) -> list[str]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(program, *words, stdout=pipe)
        out, _ = await process.communicate()
        return [line.partition("\t")[0] for line in out.decode().splitlines()]

    assert await completed("pause", "win-") == ["win-0", "win-1"]
    assert await completed("status", "--wait", "--for", "ho") == ["hosts"]
