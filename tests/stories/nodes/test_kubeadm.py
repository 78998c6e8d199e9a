"""A Wine host becomes a node of a cluster of kubeadm's shape, by `payload default` and `payload build` alone."""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.control_plane import ControlPlane
from lab.egress import Egress
from lab.machine import Machine
from lab.mirror import Mirror
from lab.network import Network
from tests.stories.nodes.conftest import SOURCE_VIP
from tests.stories.nodes.test_nodes import node, publish, until
from tests.support.operator.installation import Installation
from tests.support.workers.publishers import HOSTS, published
from tests.support.workers.shipped import shipped
from typer.testing import CliRunner

import transom
from lab import build, cache
from transom.cli.app import app
from transom.sources.payload import read_payload

pytestmark = pytest.mark.lab
PACKAGE = Path(transom.__file__).parent
CODE = ("payloads", "sources/payload_build.py", "downloads.py", "windows/payload/lock.py")
CLUSTER = """
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
networking: {dnsDomain: cluster.local, podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/16}
"""


def built(target: Path) -> None:
    """`payload default` and `payload build`, with the lab's programs for what the publishers have."""
    arguments = ("--kind", "kubeadm", "--cni", "calico", "--kubernetes-version", "v1.36.3")
    shipped("default", *arguments, "--output-dir", str(target))
    programs = {program.name: program.read_bytes() for program in programs_of_a_node()}
    served = published(read_payload((target / "payload.yaml").read_bytes()), programs)
    with Network(isolated=False) as network, Mirror(HOSTS) as mirror, Egress(network, mirror=mirror) as egress:
        mirror.files |= served
        authority = egress.directory / "trusted.pem"
        authority.write_text(egress.certificate)
        environment = {"HTTPS_PROXY": egress.url, "SSL_CERT_FILE": str(authority), "NO_PROXY": "", "no_proxy": ""}
        done = CliRunner().invoke(app, ["payload", "build", str(target)], env=environment)
        assert done.exit_code == 0, done.output
        assert mirror.asked and all("://dl.k8s.io/" in url or "://github.com/" in url for url in mirror.asked)


def programs_of_a_node() -> list[Path]:
    return [build.program(program) for program in (*build.CONTAINERD_PROGRAMS[:1], *build.node_programs())]


@pytest.fixture(scope="session")
def payload() -> Path:
    """Made once for the programs and the code that it is made by."""
    key = cache.digest([*map(str, programs_of_a_node()), *(PACKAGE / name for name in CODE), Path(__file__)])
    return cache.entry("kubeadm-payload", key, built)


async def test_from_bare_to_ready(
    control_plane: ControlPlane, bare_machine: Callable[[str], Machine], installed: Installation, payload: Path
) -> None:
    # what is built is what the lab has
    kubelet = hashlib.sha256(build.program(build.node_programs()[0]).read_bytes()).hexdigest()
    assert (payload / "downloads" / kubelet).exists()
    await publish(installed, control_plane.url)
    config = {"metadata": {"name": "kubeadm-config", "namespace": "kube-system"}, "data": {"ClusterConfiguration": CLUSTER}}
    await installed.apply({"apiVersion": "v1", "kind": "ConfigMap", **config})
    await installed.kubectl("apply", "-f", str(payload / "cluster.yaml"))
    machine = await asyncio.to_thread(bare_machine, "WORKER-K")
    powershell = machine.drive / "lab" / "powershell.out"
    powershell.write_text("")
    await installed.key(machine.ssh.key)
    async with installed.program(payload=str(payload)):
        await installed.instance(machine, "worker-k", lifecycle="Node")
        waiting = "jsonpath={.status.conditions[?(@.type=='Configured')].reason}=Waiting"
        await until(installed, "worker-k", waiting)
        await installed.kubectl("wait", "--for=create", "node/worker-k", "--timeout=240s")
        await installed.kubectl("wait", "--for=jsonpath={.spec.unschedulable}=true", "node/worker-k", "--timeout=240s")
        told = await installed.describe("windowsinstance", "worker-k")
        assert "the script source-vip.ps1 printed nothing on the host" in told
        # Calico's agent, a HostProcess pod, makes its network
        powershell.write_text(f"{SOURCE_VIP}\r\n")
        (machine.drive / "etc" / "cni" / "net.d" / "10-calico.conf").write_text(
            '{"cniVersion": "1.0.0", "name": "Calico", "type": "nop"}'
        )
        await until(installed, "worker-k", "condition=Ready")
        ready = await node(installed, "worker-k")
        assert "unschedulable" not in ready["spec"]
        assert ready["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"
        assert all(machine.state(name) == "RUNNING" for name in ("containerd", "kubelet", "kube-proxy"))
        # what kube-proxy has to list it may, by cluster.yaml
        as_node = ("--as=system:node:worker-k", "--as-group=system:nodes", "--as-group=system:authenticated")
        may = await installed.kubectl("auth", "can-i", "list", "endpointslices.discovery.k8s.io", *as_node)
        assert may.strip() == "yes"
        assert await installed.kubectl("get", "--raw", "/api/v1/nodes/worker-k/proxy/healthz") == "ok"
    await installed.kubectl("delete", "configmap", "kubeadm-config", "-n", "kube-system")
