"""A Wine host becomes a node of a cluster of kubeadm's shape, by `payload default` and `payload build` alone."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab.control_plane import ControlPlane
from lab.egress import Egress
from lab.machine import Machine
from lab.mirror import Mirror
from lab.network import Network
from tests.stories.nodes.conftest import SOURCE_VIP
from tests.stories.nodes.test_nodes import node, publish, until
from tests.support.operator.installation import Installation, followed
from tests.support.workers.publishers import HOSTS, published
from tests.support.workers.shipped import shipped
from typer.testing import CliRunner

import transom
from lab import build, cache
from transom.cli.program import build_program
from transom.sources.payload import parse_payload

pytestmark = pytest.mark.lab
PACKAGE = Path(transom.__file__).parent
CODE = ("payloads", "sources/payload_build.py", "http/downloads.py", "windows/payload/lock.py")
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
    served = published(parse_payload((target / "payload.yaml").read_bytes()), programs)
    with Network(isolated=False) as network, Mirror(HOSTS) as mirror, Egress(network, mirror=mirror) as egress:
        mirror.files |= served
        authority = egress.directory / "trusted.pem"
        authority.write_text(egress.certificate)
        environment = {"HTTPS_PROXY": egress.url, "SSL_CERT_FILE": str(authority), "NO_PROXY": "", "no_proxy": ""}
        done = CliRunner().invoke(build_program(), ["payload", "build", str(target)], env=environment)
        assert done.exit_code == 0, done.output
        assert mirror.asked and all("://dl.k8s.io/" in url or "://github.com/" in url for url in mirror.asked)


def programs_of_a_node() -> list[Path]:
    return [build.build_program(program) for program in (*build.CONTAINERD_PROGRAMS[:1], *build.list_node_programs())]


def _by_overlay(event: dict[str, Any]) -> bool:
    return event["user"]["username"] == "system:anonymous" and event.get("userAgent", "").startswith("kube-proxy.exe/")


@pytest.fixture(scope="session")
def payload() -> Path:
    """Made once for the programs and the code that it is made by."""
    key = cache.digest([*map(str, programs_of_a_node()), *(PACKAGE / name for name in CODE), Path(__file__)])
    return cache.get_entry("kubeadm-payload", key, built)


OVERLAY = r"""
- {path: 'C:\k\overlay\api-server.crt', provided: api-server-ca, services: [overlay]}
- path: C:\k\overlay\kubeconfig
  services: [overlay]
  content: |
    apiVersion: v1
    kind: Config
    clusters: [{name: x, cluster: {server: "${API_SERVER}", certificate-authority: 'C:\k\overlay\api-server.crt'}}]
    contexts: [{name: x, context: {cluster: x, user: nobody}}]
    current-context: x
services:
- name: overlay
  order: 3
  command: >-
    C:\k\kube-proxy.exe --windows-service --kubeconfig=C:\k\overlay\kubeconfig --hostname-override=overlay
    --proxy-mode=kernelspace --network-name=wine --source-vip=10.9.9.9
  dependsOn: [kubelet]"""


def with_overlay(payload: Path, path: Path) -> Path:
    """The payload and one program more, in the place of an overlay's: all that it has is the API server's CA."""
    shutil.copytree(payload, path, copy_function=os.link)
    text = (path / "payload.yaml").read_text()
    (path / "payload.yaml").unlink()
    (path / "payload.yaml").write_text(text.replace("\nservices:", OVERLAY, 1))
    return path


async def test_from_bare_to_ready(
    control_plane: ControlPlane,
    bare_machine: Callable[[str], Machine],
    installed: Installation,
    payload: Path,
    tmp_path: Path,
) -> None:
    """The API server and its clients have CAs of their own, as on OpenShift."""
    assert control_plane.authority_file.read_text() != control_plane.client_authority_file.read_text()
    # what is built is what the lab has
    kubelet = hashlib.sha256(build.build_program(build.list_node_programs()[0]).read_bytes()).hexdigest()
    assert (payload / "downloads" / kubelet).exists()
    await publish(installed, control_plane.url)
    config = {"metadata": {"name": "kubeadm-config", "namespace": "kube-system"}, "data": {"ClusterConfiguration": CLUSTER}}
    await installed.apply({"apiVersion": "v1", "kind": "ConfigMap", **config})
    await installed.kubectl("apply", "-f", str(payload / "cluster.yaml"))
    machine = await asyncio.to_thread(bare_machine, "WORKER-K")
    powershell = machine.drive / "lab" / "powershell.out"
    powershell.write_text("")
    await installed.key(machine.ssh.key)
    async with installed.program(payload=str(with_overlay(payload, tmp_path / "payload"))):
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
        assert all(machine.read_state(name) == "RUNNING" for name in ("containerd", "kubelet", "kube-proxy"))
        # what kube-proxy has to list it may, by cluster.yaml
        as_node = ("--as=system:node:worker-k", "--as-group=system:nodes", "--as-group=system:authenticated")
        may = await installed.kubectl("auth", "can-i", "list", "endpointslices.discovery.k8s.io", *as_node)
        assert may.strip() == "yes"
        assert await installed.kubectl("get", "--raw", "/api/v1/nodes/worker-k/proxy/healthz") == "ok"
        # who trusts the file with the server's CA alone was heard by the API server
        await followed(lambda: any(map(_by_overlay, control_plane.read_audit())))
    await installed.kubectl("delete", "configmap", "kubeadm-config", "-n", "kube-system")
