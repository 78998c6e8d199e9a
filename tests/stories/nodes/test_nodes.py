"""Three Wine hosts become nodes by their own kubelet.exe, from SSH and nothing else, under Transom as people install it."""

import asyncio
import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import yaml
from lab.control_plane import ControlPlane
from lab.egress import Egress
from lab.kubernetes import ControlPlaneError
from lab.machine import Machine
from lab.operator_image import Images
from tests.stories.nodes.conftest import API_NAME, PASSWORD
from tests.support.operator.containers import Contained
from tests.support.operator.installation import Installation, environment, followed, roots
from tests.support.repository import DOCS
from tests.support.workers.hosts import everything
from tests.support.workers.workloads import RECORDED, RECORDER, RUNNER, VERSIONS, Workloads, raised, with_pods
from tests.support.workers.workloads import SERVICES as WITH_PODS

from lab import openshift, operator_image
from transom.cli.verification_record import parse_record
from transom.hosts.ssh.ssh_client import compute_public_hash
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.proxy.secret import Secret
from transom.proxy.trust import parse_bundle
from transom.verification.cluster_verification import VerificationTimeouts, create_namespace_name, verify_cluster
from transom.verification.objects import AGNHOST_IMAGE, VerificationRequest

pytestmark = pytest.mark.lab
NAMES = ("WORKER-A", "WORKER-B", "WORKER-C")
SUBNET = "k8s.ovn.org/hybrid-overlay-node-subnet"
FOURTH = "WORKER-D"
OTHER = "http://other.corp.example:3128"
SERVICES = ("containerd", "kubelet", "kube-proxy")
NETWORKS = {"serviceNetwork": ["10.96.0.0/16"], "podNetwork": ["10.244.0.0/16"]}
PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
MakeMachine = Callable[[str], Machine]
Starts = tuple[int, int]
"""Of a machine's kubelet, and of its recorder."""


async def publish(installed: Installation, server: str, **more: str) -> None:
    """What kubeadm says of a cluster to those that join; the machines' sandbox image besides."""
    authority = base64.b64encode(installed.control_plane.authority_file.read_bytes()).decode()
    cluster = {"server": server, "certificate-authority-data": authority, "tls-server-name": "kubernetes.default.svc"}
    config = yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]})
    variables = {"metadata": {"name": "windows-worker", "namespace": installed.namespace}, "data": more}
    info = {"metadata": {"name": "cluster-info", "namespace": "kube-public"}, "data": {"kubeconfig": config}}
    await installed.apply(*({"apiVersion": "v1", "kind": "ConfigMap", **item} for item in (info, variables)))


async def three(installed: Installation, make: MakeMachine) -> dict[str, Machine]:
    """One by a Machine, one by the ConfigMap, one made by hand: machines by the names of their WindowsInstances."""
    machines = [await asyncio.to_thread(make, name) for name in NAMES]
    first, second, third = machines
    await installed.key(first.ssh.key)
    for machine in (second, third):
        machine.ssh.share_key(first.ssh.key)
        await asyncio.to_thread(machine.ssh.restart)
    await asyncio.to_thread(openshift.define, installed.control_plane, openshift.MACHINE_API)
    await openshift_machine(installed, first)
    data = {second.place.address: f"username={second.ssh.user}"}
    metadata = {"name": "windows-instances", "namespace": installed.namespace}
    await installed.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    await installed.instance(third, "by-hand", lifecycle="Node")
    return {"worker-a": first, second.place.address: second, "by-hand": third}


async def openshift_machine(installed: Installation, machine: Machine) -> None:
    """A Machine of vSphere, as OpenShift's own definition takes it, and its status, as the provider writes it."""
    metadata = {"name": "worker-a", "namespace": "default", "labels": {"machine.openshift.io/os-id": "Windows"}}
    value = {"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": metadata}
    provider = {"apiVersion": "machine.openshift.io/v1beta1", "kind": "VSphereMachineProviderSpec"}
    await installed.apply({**value, "spec": {"providerSpec": {"value": provider}}})
    status = {"phase": "Provisioned", "addresses": [{"type": "InternalIP", "address": machine.place.address}]}
    patch = ("patch", "machines.machine.openshift.io", "worker-a", "-n", "default", "--subresource=status", "--type=merge")
    await installed.kubectl(*patch, "-p", json.dumps({"status": status}))


async def node(installed: Installation, name: str) -> dict[str, Any]:
    found: dict[str, Any] = await installed.get(f"/api/v1/nodes/{name}")
    return found


async def joined(installed: Installation, instances: dict[str, Machine]) -> None:
    """Until each is a Ready node whose services run; the test is OVN-Kubernetes, which gives nodes their subnets."""
    for name in instances:
        await until(installed, name, "create")
        await until(installed, name, "condition=NodeReady")
    for number, name in enumerate(NAMES):
        await installed.kubectl("annotate", "node", name.lower(), f"{SUBNET}=10.132.{number}.0/24")
    for name in instances:
        await until(installed, name, "condition=Configured")
        await until(installed, name, "condition=NodeReady")


async def until(installed: Installation, name: str, what: str) -> None:
    """Wait for a condition of an instance, as people do."""
    try:
        await installed.kubectl("wait", f"--for={what}", f"windowsinstance/{name}", "-n", installed.namespace, "--timeout=480s")
    except ControlPlaneError as error:
        raise AssertionError(f"{error}\n{await installed.describe('windowsinstance', name)}") from None


async def fourth(installed: Installation, make: MakeMachine, like: Machine) -> Machine:
    """One more machine, made an instance by hand."""
    machine = await asyncio.to_thread(make, FOURTH)
    machine.ssh.share_key(like.ssh.key)
    await asyncio.to_thread(machine.ssh.restart)
    await installed.instance(machine, "also-by-hand", lifecycle="Node")
    return machine


async def draining(installed: Installation, instances: dict[str, Machine], count: int) -> list[str]:
    """The instances that wait for a pod to go, as soon as there are so many; the others wait for them."""
    async with asyncio.timeout(480):
        while True:
            listed = (await installed.get(installed.instances))["items"]
            configured = {
                item["metadata"]["name"]: condition
                for item in listed
                for condition in item["status"]["conditions"]
                if condition["type"] == "Configured"
            }
            found = [name for name in instances if "disruption budget" in configured[name]["message"]]
            if len(found) == count:
                return found
            await asyncio.sleep(0.3)


async def upgraded(
    installed: Installation, instances: dict[str, Machine], workloads: Workloads, started: dict[str, Starts]
) -> None:
    """Of four nodes with pods one has the other programs, then two at a time, and never three; then they are left.

    Budgets are respected, what a drain leaves stays, and the proxy that is changed meanwhile costs no second restart.
    """
    nodes = dict(zip(instances, workloads.nodes, strict=True))

    def gained() -> dict[str, Starts]:
        """How often the kubelet and the recorder of each were started since."""
        found = {name: starts(machine) for name, machine in instances.items()}
        return {name: (found[name][0] - before[0], found[name][1] - before[1]) for name, before in started.items()}

    (first,) = await draining(installed, instances, 1)
    held = f"default/held-{nodes[first]}: Cannot evict pod as it would violate the pod's disruption budget."
    told = await installed.told("windowsinstance", first, held)
    # Configured, Ready, and an event
    assert told.count(held) == 3, told
    assert re.search(rf"Draining .* {held} The disruption budget held needs 4 healthy pods and has 4 currently", told)
    assert gained()[first] == (0, 0)
    await workloads.hold(3)
    pair = await draining(installed, instances, 2)
    (last,) = instances.keys() - {first, *pair}
    await has(installed, first, VERSIONS[1])
    await until(installed, last, "jsonpath={.status.conditions[?(@.type=='Configured')].reason}=UpgradePending")
    assert gained() == {first: (1, 1), **dict.fromkeys((*pair, last), (0, 0))}
    # who is not being drained does not wait for the proxy
    await installed.proxy(httpProxy=OTHER, httpsProxy=OTHER, networks=inside(installed))
    for name in (first, last):
        await followed(lambda name=name: proxies(instances[name])[-1] == OTHER)
    assert gained() == {first: (2, 2), last: (1, 1), **dict.fromkeys(pair, (0, 0))}
    # the fourth has shown that it waits, and need not go on
    right(await node(installed, nodes[last]), last)
    await left(installed, last)
    await workloads.hold(0)
    for name in pair:
        await has(installed, name, VERSIONS[1])
    assert gained() == {first: (2, 2), last: (1, 1), **dict.fromkeys(pair, (1, 1))}
    assert {name for name in await workloads.pods() if name.startswith("held-")} == {f"held-{nodes[last]}"}
    cordoned, unready = workloads.away()
    assert {nodes[name] for name in pair} in cordoned
    assert max(map(len, cordoned)) == 2
    assert max(map(len, unready)) <= 2
    for name in (first, *pair):
        right(await node(installed, nodes[name]), name, VERSIONS[1])
        assert proxies(instances[name])[-1] == OTHER
        assert f"HTTPS_PROXY={OTHER}" in environment(instances[name], "kubelet")
        for program in (RUNNER, RECORDER):
            assert (instances[name].drive / "k" / program).read_bytes().endswith(VERSIONS[1].encode())
        await installed.told("windowsinstance", name, "Cordoned", "Drained", "Uncordoned")
        await left(installed, name)


async def left(installed: Installation, name: str) -> None:
    """Nobody looks after a host any more, and it stays a node."""
    await installed.kubectl("annotate", "windowsinstance", name, "-n", installed.namespace, "transom.dev/leave-host=true")
    if name == "worker-a":
        await installed.kubectl("delete", "machine.machine.openshift.io", name, "-n", "default")
    elif name.endswith("by-hand"):
        await installed.kubectl("delete", "windowsinstance", name, "-n", installed.namespace)
    else:
        await installed.kubectl("delete", "configmap", "windows-instances", "-n", installed.namespace)
    await gone(installed, "windowsinstance", name)


def inside(installed: Installation) -> dict[str, Any]:
    """Networks of the cluster, so that nodes reach the API server without a proxy."""
    return NETWORKS | {"internalAPIHost": installed.control_plane.address}


async def has(installed: Installation, name: str, version: str) -> None:
    """Wait until a host has a payload, and its Node takes pods."""
    await until(installed, name, "create")
    await until(installed, name, f"jsonpath={{.status.payloadVersion}}={version}")
    for condition in ("Configured", "NodeReady"):
        await until(installed, name, f"condition={condition}")


def starts(machine: Machine) -> Starts:
    return kubelet_starts(machine), len(proxies(machine))


def proxies(machine: Machine) -> list[str | None]:
    """The proxy for HTTPS that the recorder of a machine had, at each of its starts."""
    return [
        item.get_variable("HTTPS_PROXY")
        for item in machine.read_recorded_file(machine.find_path(RECORDED))
        if item.event == "start"
    ]


def kubelet_starts(machine: Machine) -> int:
    """How often the kubelet of a machine was started."""
    return (machine.drive / "k" / "logs" / "kubelet.log").read_text(errors="replace").count('"Kubelet version"')


def right(found: dict[str, Any], instance: str, version: str = "1.36.3-1") -> None:
    """A Windows worker as selectors and charts look for one, marked as Transom's."""
    labels, marks = found["metadata"]["labels"], found["metadata"]["annotations"]
    assert labels["node.openshift.io/os_id"] == "Windows"
    assert labels["kubernetes.io/os"] == "windows"
    assert labels["node-role.kubernetes.io/worker"] == ""
    assert {"key": "os", "value": "Windows", "effect": "NoSchedule"} in found["spec"]["taints"]
    assert marks["transom.dev/payload-version"] == version
    assert not found["spec"].get("unschedulable")
    assert not {"transom.dev/cordoned", "transom.dev/drain", "transom.dev/drained"} & marks.keys()
    assert marks["transom.dev/instance"] == f"transom-system/{instance}"
    assert marks["transom.dev/state-hash"]
    assert found["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"
    ready = next(condition for condition in found["status"]["conditions"] if condition["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "KubeletReady")


def keys_of(machine: Machine) -> Path:
    """The file of the keys that open a machine."""
    return machine.drive / "ProgramData" / "ssh" / "administrators_authorized_keys"


def opened_by(machine: Machine, key: Path) -> None:
    """Let the holder of a key in, as the first boot does."""
    keys_of(machine).parent.mkdir(parents=True, exist_ok=True)
    keys_of(machine).write_bytes(asyncssh.read_private_key(str(key)).export_public_key())


async def moved_to_another_key(installed: Installation, instances: dict[str, Machine], path: Path) -> None:
    """The key is changed: each machine is opened by the new one alone, and no kubelet is started for that."""
    new = asyncssh.generate_private_key("ssh-ed25519")
    new.write_private_key(str(path))
    logs = [machine.drive / "k" / "logs" / "kubelet.log" for machine in instances.values()]
    starts = [log.read_text(errors="replace").count('"Kubelet version"') for log in logs]
    data = {"private-key.pem": base64.b64encode(path.read_bytes()).decode()}
    metadata = {"name": "cloud-private-key", "namespace": installed.namespace}
    await installed.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    for name, machine in instances.items():
        await until(installed, name, f"jsonpath={{.status.keyHash}}={compute_public_hash(Secret(path.read_text()))}")
        assert keys_of(machine).read_text().split()[:2] == new.export_public_key().decode().split()[:2]
        assert len(keys_of(machine).read_text().splitlines()) == 1
    assert [log.read_text(errors="replace").count('"Kubelet version"') for log in logs] == starts


def waiting_pod(name: str, node_name: str, image: str = "registry.corp.example/none") -> dict[str, Any]:
    """A pod on a node. No container ever runs there: it waits for its image."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": node_name,
            "hostNetwork": True,
            "os": {"name": "windows"},
            "securityContext": {"windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": image}],
        },
    }


async def pulled(installed: Installation, egress: Egress, name: str) -> None:
    """A pod brings containerd to its first pull: the sandbox image, over the proxy."""
    await installed.apply(waiting_pod("first", name, egress.format_image("none")))
    await followed(lambda: any("/manifests/" in request.url and request.user == "alice" for request in egress.list_requests()))
    await installed.kubectl("delete", "pod", "first", "--force", "--grace-period=0")


def began(log: str, said: str) -> str:
    """The time of day of the line in which a program says something; containerd and kubelet write it alike."""
    line = next(line for line in log.splitlines() if said in line)
    found = re.search(r"[T ](\d\d:\d\d:\d\d\.\d+)", line)
    assert found is not None, line
    return found[1]


def lived_in(machine: Machine) -> tuple[set[str], set[str]]:
    """A machine with a directory and a service of somebody else's; everything on it."""
    (machine.drive / "var" / "log").mkdir(parents=True)
    (machine.drive / "var" / "log" / "theirs.log").write_text("theirs")
    machine.run("sc", "create", "theirs", "binPath=", r"C:\theirs\theirs.exe", "start=", "demand")
    return everything(machine)


async def gone(installed: Installation, kind: str, name: str) -> None:
    try:
        await installed.kubectl("wait", "--for=delete", f"{kind}/{name}", "-n", installed.namespace, "--timeout=480s")
    except ControlPlaneError as error:
        raise AssertionError(f"{error}\n{await installed.describe(kind, name)}") from None


async def test_three_hosts_behind_a_proxy(
    control_plane: ControlPlane,
    egress: Egress,
    bare_machine: MakeMachine,
    installed: Installation,
    tmp_path: Path,
    images: Images,
    image: str,
) -> None:
    """The operator runs out of its image, and its payload comes out of another one."""
    workers = await asyncio.to_thread(egress.registry.push, operator_image.build_payload_layout(), "payload")
    contained = ("--image", image, "--payload-image", workers)
    await publish(installed, f"https://{API_NAME}:{control_plane.port}", PAUSE_IMAGE=egress.format_image("none"))
    await installed.bundle(egress.certificate)
    credentials = {"username": "alice", "password": PASSWORD}
    metadata = {"name": "egress", "namespace": installed.namespace}
    await installed.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": credentials})
    await installed.proxy(
        httpProxy=egress.url,
        httpsProxy=egress.url,
        credentialsSecret={"name": "egress"},
        trustedCA={"name": "corp-ca"},
        networks=NETWORKS | {"internalAPIHost": "api-int.corp.example"},
    )
    before: dict[str, tuple[set[str], set[str]]] = {}

    keys: list[Path] = []

    def make(name: str) -> Machine:
        machine = bare_machine(name)
        keys.append(machine.ssh.key)
        opened_by(machine, keys[0])
        if name == "WORKER-B":
            before[name] = lived_in(machine)
        return machine

    async with await asyncio.to_thread(Contained, installed, images, tmp_path / "pod", contained) as program:
        instances = await three(installed, make)
        await joined(installed, instances)
        for name, host in zip(instances, NAMES, strict=True):
            right(await node(installed, host.lower()), name)
            # its serving certificate was approved, too: the API server reaches it on port 10250
            assert await installed.kubectl("get", "--raw", f"/api/v1/nodes/{host.lower()}/proxy/healthz") == "ok"
        await installed.told("windowsinstance", "by-hand", "Sending", "Changing", "CertificateApproved", "Applied")
        assert "KubeletReady" in await installed.describe("windowsinstance", "by-hand")
        for machine in instances.values():
            assert all(machine.read_state(service) == "RUNNING" for service in SERVICES)
            for service in ("containerd", "kubelet"):
                items = dict(item.split("=", 1) for item in environment(machine, service))
                assert set(items) >= set(PROXY_NAMES)
                assert API_NAME not in items["NO_PROXY"].split(",")
            logs = {name: (machine.drive / "k" / "logs" / f"{name}.log").read_text(errors="replace") for name in SERVICES[:2]}
            # the first start had the proxy: there was no second, and nothing else leads to the API server
            assert logs["kubelet"].count('"Kubelet version"') == 1
            assert logs["containerd"].count('"starting containerd"') == 1
            assert began(logs["containerd"], '"starting containerd"') < began(logs["kubelet"], '"Kubelet version"')
            assert "hunter2" not in "".join(logs.values())
        tunnels = {
            request.user
            for request in egress.list_requests()
            if request.method == "CONNECT" and request.url.startswith(API_NAME)
        }
        assert "alice" in tunnels
        await pulled(installed, egress, "worker-b")
        await moved_to_another_key(installed, instances, tmp_path / "new_key")
        # the entry of the ConfigMap is taken out: its host is as it was before Transom came
        first, second = list(instances.values())[:2]
        await installed.kubectl("delete", "configmap", "windows-instances", "-n", installed.namespace)
        await gone(installed, "windowsinstance", second.place.address)
        assert "worker-b" not in await installed.kubectl("get", "nodes", "-o", "name")
        files, values = await asyncio.to_thread(everything, second)
        assert (sorted(files - before["WORKER-B"][0]), sorted(before["WORKER-B"][0] - files)) == ([], [])
        assert (sorted(values - before["WORKER-B"][1]), sorted(before["WORKER-B"][1] - values)) == ([], [])
        (authority,) = parse_bundle(egress.certificate).certificates
        assert authority.sha1 in roots(first) and authority.sha1 not in roots(second)
        said = await installed.kubectl("get", "windowsinstances,events", "-A", "-o", "yaml") + program.log()
        assert "hunter2" not in said
        # without --openshift nothing may be written into OpenShift's own namespaces
        refused = [line for line in program.log().splitlines() if "forbidden" in line and "windows-user-data" not in line]
        assert refused == []


async def test_the_same_without_a_proxy_and_what_somebody_else_joined(
    control_plane: ControlPlane, egress: Egress, bare_machine: MakeMachine, installed: Installation, tmp_path: Path
) -> None:
    """Not one variable, not one certificate; an upgrade; then a node as somebody else's: proxy and trust, and nothing else."""
    await publish(installed, control_plane.url)
    await installed.proxy(networks=inside(installed))
    before = with_pods(tmp_path / "payload")
    trusted: dict[str, str] = {}

    def make(name: str) -> Machine:
        machine = bare_machine(name)
        trusted[name] = roots(machine)
        return machine

    async with installed.program(payload=str(before)):
        instances = await three(installed, make)
        instances["also-by-hand"] = await fourth(installed, make, instances["worker-a"])
        hosts = dict(zip(instances, (*NAMES, FOURTH), strict=True))
        for name in instances:
            await has(installed, name, VERSIONS[0])
        for name, host in hosts.items():
            right(await node(installed, host.lower()), name)
        await verified_as_written_down(installed)

    def untouched(host: str, machine: Machine) -> bool:
        everything = machine.export("HKLM").upper()
        return roots(machine) == trusted[host] and not [name for name in PROXY_NAMES if name in everything]

    checks = [
        asyncio.to_thread(untouched, host, machine) for host, machine in zip(hosts.values(), instances.values(), strict=True)
    ]
    assert all(await asyncio.gather(*checks))
    newer = raised(tmp_path / "newer", before)
    workloads = Workloads(installed, tuple(host.lower() for host in hosts.values()), tmp_path)
    started = {name: starts(machine) for name, machine in instances.items()}
    async with workloads.there(), installed.program(payload=str(newer), **{"max-unavailable": "2"}):
        await upgraded(installed, instances, workloads, started)

    theirs = instances["by-hand"]
    marks = [f"transom.dev/{name}-" for name in ("payload-version", "instance", "state-hash")]
    await installed.kubectl("annotate", "node", "worker-c", *marks)
    theirs.run("reg", "delete", r"HKLM\SOFTWARE\Transom", "/f")
    before, commands = await node(installed, "worker-c"), {name: image_path(theirs, name) for name in WITH_PODS}
    await installed.bundle(egress.certificate)
    await installed.proxy(
        httpProxy=egress.url, trustedCA={"name": "corp-ca"}, networks=NETWORKS, windows={"services": ["runtime", "kubelet"]}
    )
    async with installed.program(payload=str(newer)):
        await installed.instance(theirs, "theirs")
        for condition in ("ProxyApplied", "TrustApplied", "Configured", "NodeReady"):
            await until(installed, "theirs", f"condition={condition}")
        assert f"HTTP_PROXY={egress.url}" in environment(theirs, "kubelet")
        assert roots(theirs) != trusted["WORKER-C"]
    after = await node(installed, "worker-c")
    for field in ("labels", "annotations"):
        assert after["metadata"][field] == before["metadata"][field]
    assert after["spec"] == before["spec"]
    assert {name: image_path(theirs, name) for name in WITH_PODS} == commands


async def verified_as_written_down(installed: Installation) -> None:
    """`transom verify cluster` on real kubelets, with a runtime that starts nothing: so no probe of theirs is ever answered."""
    connection = connect(str(installed.control_plane.kubeconfig))
    try:
        found = await verify_cluster(
            Client(connection),
            VerificationRequest(create_namespace_name(), AGNHOST_IMAGE, AGNHOST_IMAGE),
            timeouts=VerificationTimeouts(starting=25),
        )
    finally:
        await connection.close()
    seen = parse_record((DOCS / "verified-cluster.yaml").read_bytes())["kubelets in Wine"].checks
    assert {item.id: item.verdict for item in found} == seen, found


def image_path(machine: Machine, service: str) -> str:
    """The command of a service, as the registry has it."""
    shown = machine.run("reg", "query", rf"HKLM\SYSTEM\CurrentControlSet\Services\{service}", "/v", "ImagePath")
    return shown.stdout.decode(errors="replace")
