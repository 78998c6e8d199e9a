"""The payload that comes with Transom, on a simulated host: every service is made, and started when what it needs is there."""

import json
import re
from pathlib import Path

import yaml
from tests.support.workers.hosts import VIP, Simulated
from tests.support.workers.shipped import FACTS, PROVIDED, shipped

from transom.hosts.owner import Owner
from transom.hosts.passes.configure import Configured, Worker, configure
from transom.hosts.passes.passes import PassSettings
from transom.hosts.scripts.script import Patience
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.simulator import Simulator
from transom.simulator.processes import Invocation
from transom.windows.payload.worker import Facts

PROXY = Secret("http://alice:hunter2%25@proxy.x:3128")
NODE = {"metadata": {"annotations": {"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.1.0/24"}}}
CNI = r"C:\k\cni\config\cni.conf"


def complete(path: Path) -> PayloadDirectory:
    """The shipped payload with programs that a simulated host starts."""
    shipped("default", "--output-dir", str(path))
    for file in yaml.safe_load((path / "payload.yaml").read_text())["files"]:
        if source := file.get("source"):
            (path / source).parent.mkdir(parents=True, exist_ok=True)
            (path / source).write_bytes(b"MZ " + source.encode())
    return PayloadDirectory.open(path)


async def test_the_order_of_the_hybrid_overlay(tmp_path: Path) -> None:
    """containerd, kubelet, hybrid-overlay-node; with the subnet of the Node the CNI configuration, and then kube-proxy."""
    payload = complete(tmp_path / "payload")
    async with Simulator() as simulator:
        host = Simulated(simulator, await simulator.add_host("WIN-B", services={}))
        asked: list[bool] = []

        def source_vip(call: Invocation) -> int:
            overlay = host.host.services.find("hybrid-overlay-node")
            asked.append(overlay is not None and overlay.state.name == "RUNNING")
            # there is no endpoint before hybrid-overlay-node has made its network
            return call.out(f"{VIP}\r\n") or 0 if asked[-1] else 0

        host.host.powershell = source_vip

        async def configured(facts: Facts) -> Configured:
            worker = Worker(payload, facts, Egress(PROXY, PROXY, ".svc"))
            settings = PassSettings(Owner("transom", "test"), patience=Patience(stop=10, start=10, steady=2))
            found = await configure(host.access, NoHostKeys(), settings, worker)
            assert found.error is None, found.error
            return found

        common = {"node_ip": "10.0.0.7", "network": "OVNKubernetes", "platform": "AWS", "variables": FACTS}
        first = await configured(Facts(**common, provided=PROVIDED))
        assert [one.service for one in first.waits] == ["kube-proxy"]
        assert not host.host.files.exists(CNI)
        await configured(Facts(**common, provided=PROVIDED, node=NODE))
        last = await configured(Facts(**common, provided=PROVIDED | {"bootstrap-kubeconfig": None}, node=NODE))
        assert last.waits == ()
        started = re.findall(r'sc\.exe start "?([\w-]+)', "\n".join(host.host.processes))
        order = [name for name in dict.fromkeys(started) if name != "TransomRestart"]
        names = ["containerd", "kubelet", "hybrid-overlay-node", "kube-proxy"]
        assert [name for name in order if name in names] == names
        assert set(order) == {*names, "csi-proxy", "windows_exporter"}
        assert all(host.host.services.get(name).state.name == "RUNNING" for name in order)
        assert asked[-1]
        assert json.loads(host.content(CNI) or b"")["ipam"]["subnet"] == "10.132.1.0/24"
        assert yaml.safe_load(host.content(r"C:\k\kube-proxy.conf") or b"")["winkernel"]["sourceVip"] == VIP
        proxied = {name for name in order if "HTTPS_PROXY" in host.environments(name)[0]}
        assert proxied == {"containerd", "kubelet"}
        assert host.host.unknown == []
