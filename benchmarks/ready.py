"""From the first connection to a Ready node in Wine, beside the kubelet's own time: `python -m benchmarks.ready`.

The kubelet's own time: the same services of the same machine, which has everything in place and no certificate yet, started by
hand until its Node is Ready.
"""

import asyncio
import base64
import json
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from urllib.error import HTTPError

import yaml
from lab.control_plane import ControlPlane
from lab.machine import Machine
from lab.network import Network

from lab import payload
from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.passes.configure import ConfigureResult, WorkerSpec, configure_worker
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Access
from transom.hosts.steps.delivery import PassProgress
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.proxy.secret import Secret
from transom.windows.payload.worker import Facts

NAME = "bench"
GROUP = "system:bootstrappers:bench"
SERVICES = ("containerd", "kubelet")
OWN = (r"C:\k\certs", r"C:\k\kubeconfig", r"C:\k\root", r"C:\k\containerd\root", r"C:\k\containerd\state")
"""What kubelet and containerd made themselves."""
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
LONGEST = 120


def kubeconfig(plane: ControlPlane) -> str:
    """Of a bootstrap token."""
    token_id, token = secrets.token_hex(3), secrets.token_hex(8)
    data = {"token-id": token_id, "token-secret": token, "usage-bootstrap-authentication": "true", "auth-extra-groups": GROUP}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": f"bootstrap-token-{token_id}", "namespace": "kube-system"},
        "stringData": data,
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "bench"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP}],
    }
    plane.apply([secret, binding])
    authority = base64.b64encode(plane.authority_file.read_bytes()).decode()
    entry = {"name": "x", "cluster": {"server": plane.url, "certificate-authority-data": authority}}
    user = {"name": "x", "user": {"token": f"{token_id}.{token}"}}
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    whole = {"apiVersion": "v1", "kind": "Config", "clusters": [entry], "users": [user], "contexts": [context]}
    return yaml.safe_dump({**whole, "current-context": "x"})


def until_ready(plane: ControlPlane) -> None:
    """Whatever asks for a certificate gets it, for either way alike."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        for request in json.loads(plane.request("GET", REQUESTS))["items"]:
            if not request["status"].get("conditions"):
                plane.run_kubectl("certificate", "approve", request["metadata"]["name"])
        try:
            node = json.loads(plane.request("GET", f"/api/v1/nodes/{NAME}"))
        except HTTPError:
            node = {}
        if any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node.get("status", {}).get("conditions", ())
        ):
            return
        time.sleep(0.05)
    raise SystemExit(f"Node {NAME} did not get Ready within {LONGEST} s")


def by_transom(plane: ControlPlane, machine: Machine, config: str) -> tuple[ConfigureResult, float, float]:
    """What the pass did, the seconds of its transfer, and those from its first connection to Ready."""
    sending: list[float] = []

    def report(progress: PassProgress) -> None:
        if progress.step == "send":
            sending.append(time.monotonic())

    variables = {
        "API_SERVER": plane.url,
        "CLUSTER_DNS": "10.96.0.10",
        "CLUSTER_DOMAIN": "cluster.local",
        "CLUSTER_CIDR": "10.244.0.0/16",
        "NODE_LABELS": "node.openshift.io/os_id=Windows",
        "PAUSE_IMAGE": "registry.corp.example/x:none",
    }
    provided: dict[str, Secret | None] = {
        "kubelet-ca": Secret(plane.authority_file.read_text()),
        "bootstrap-kubeconfig": Secret(config),
    }
    directory = PayloadDirectory.open(payload.build_directory())
    worker = WorkerSpec(directory, Facts(node_name=NAME, variables=variables, provided=provided))
    ssh, place = machine.ssh, machine.place
    access = Access(place.address, place.port, ssh.user, (Secret(ssh.key.read_text()),), ssh.host_key)
    begun = time.monotonic()
    done = asyncio.run(
        configure_worker(access, NoHostKeys(), PassSettings(Owner("bench@bench", "pid 1")), worker, report=report)
    )
    if done.error is not None:
        raise done.error
    until_ready(plane)
    return done, sending[-1] - sending[0], time.monotonic() - begun


def by_hand(plane: ControlPlane, machine: Machine, config: str) -> float:
    """Seconds from the start of containerd to Ready."""
    for service in reversed(SERVICES):
        machine.stop(service)
    plane.run_kubectl("delete", "node", NAME)
    for path in OWN:
        file = machine.find_path(path)
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
    machine.find_path(r"C:\k\bootstrap.kubeconfig").write_text(config)
    begun = time.monotonic()
    for service in SERVICES:
        machine.start(service)
    until_ready(plane)
    return time.monotonic() - begun


def main() -> None:
    with ExitStack() as stack:
        enter: Callable[[Any], Any] = stack.enter_context
        network = enter(Network())
        plane = enter(ControlPlane(controllers=True, address=network.address))
        machine = enter(Machine(NAME, place=network.add_place(NAME.upper()), bare=True))
        machine.boot()
        config = kubeconfig(plane)
        done, transfer, whole = by_transom(plane, machine, config)
        own = by_hand(plane, machine, config)
    print(f"channels: {done.channels}; sent {done.sent / 1e6:.0f} MB in {transfer:.1f} s")
    print(f"configured after {done.seconds:.1f} s; Ready after {whole:.1f} s; by hand {own:.1f} s")
    print(f"beyond the kubelet's own time and the transfer: {whole - own - transfer:.1f} s (goal: 15)", flush=True)


if __name__ == "__main__":
    main()
