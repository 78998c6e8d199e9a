"""The payload that comes with Transom, on a simulated host: every service is made, and started when what it needs is there."""

import json
import re
from pathlib import Path

import msgspec
import pytest
import yaml
from tests.support.workers.hosts import VIP, Simulated
from tests.support.workers.publishers import completed
from tests.support.workers.shipped import FACTS, KUBEADM, PROVIDED, complete, shipped

from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.passes.configure import ConfigureResult, WorkerSpec, configure_worker
from transom.hosts.passes.removal import restore_host_state
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.payload.worker import Facts
from winsim import Simulator
from winsim.computer import Invocation

PROXY = Secret("http://alice:hunter2%25@proxy.x:3128")
NODE = {"metadata": {"annotations": {"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.1.0/24"}}}
CNI = r"C:\k\cni\config\cni.conf"


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
            return call.write_output(f"{VIP}\r\n") or 0 if asked[-1] else 0

        host.host.powershell = source_vip

        async def configured(facts: Facts) -> ConfigureResult:
            worker = WorkerSpec(payload, facts, Egress(PROXY, PROXY, ".svc"))
            settings = PassSettings(Owner("transom", "test"), patience=ServiceTimeouts(stop=60, start=20, steady=2))
            found = await configure_worker(host.access, NoHostKeys(), settings, worker)
            assert found.error is None, found.error
            return found

        common = {"node_ip": "10.0.0.7", "network": "OVNKubernetes", "platform": "AWS", "variables": FACTS}
        first = await configured(Facts(**common, provided=PROVIDED))
        assert [wait.service for wait in first.waits] == ["kube-proxy"]
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


@pytest.mark.parametrize("cni", ["calico", "flannel", "none"])
async def test_a_worker_of_kubeadm(tmp_path: Path, cni: str) -> None:
    """kube-proxy comes when the network is there; nothing is left when the host is given back."""
    shipped(
        "default", "--kind", "kubeadm", "--cni", cni, "--kubernetes-version", "v1.36.3", "--output-dir", str(tmp_path / "p")
    )
    payload = completed(tmp_path / "p")
    network = {"none": {"HNS_NETWORK": "mine", "SOURCE_VIP": VIP}}.get(cni, {})
    async with Simulator() as simulator:
        host = Simulated(simulator, await simulator.add_host("WIN-B", services={}))
        before = host.everything()
        there: list[bool] = []
        host.host.powershell = lambda call: call.write_output(f"{VIP}\r\n") or 0 if there else 0
        settings = PassSettings(Owner("transom", "test"), patience=ServiceTimeouts(stop=60, start=20, steady=2))

        async def configured(facts: Facts) -> ConfigureResult:
            found = await configure_worker(host.access, NoHostKeys(), settings, WorkerSpec(payload, facts))
            assert found.error is None, found.error
            return found

        facts = Facts(node_ip="10.0.0.7", variables=KUBEADM, provided=PROVIDED)
        first = await configured(facts)
        assert [wait.service for wait in first.waits] == ["kube-proxy"]
        running = [host.host.services.get(name).state.name for name in ("containerd", "kubelet", "windows_exporter")]
        assert running == ["RUNNING"] * 3
        there.append(True)
        last = await configured(msgspec.structs.replace(facts, variables={**KUBEADM, **network}))
        assert last.waits == ()
        config = yaml.safe_load(host.content(r"C:\k\kube-proxy.conf") or b"")
        names = {"calico": "Calico", "flannel": "flannel.4096", "none": "mine"}
        assert config["winkernel"] == {"enableDSR": True, "networkName": names[cni], "sourceVip": VIP}
        assert host.host.services.get("kube-proxy").state.name == "RUNNING"
        kubelet = yaml.safe_load(host.content(r"C:\var\lib\kubelet\config.yaml") or b"")
        assert kubelet["clusterDNS"] == ["10.96.0.10"] and kubelet["serverTLSBootstrap"] is True
        # what a node and its network leave behind
        for path in (r"C:\var\lib\cni\networks\x\10.1.2.3", r"C:\etc\cni\net.d\10-x.conflist", r"C:\opt\cni\bin\x.exe"):
            host.put(path, b"x")
        assert (await restore_host_state(host.access, NoHostKeys(), settings)).error is None
        assert host.host.unknown == []
        after = host.everything()
        assert (sorted(after[0] ^ before[0]), sorted(after[1] ^ before[1])) == ([], [])
