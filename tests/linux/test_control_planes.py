"""The list of a workload cluster on its control plane: real machines with no way but each other and the proxy.

The API server reaches kubelets, and kubeadm the etcd of another machine, at the machines' addresses. kube-apiserver has what
kubeadm copies from its own environment, kubeadm what `/etc/transom/proxy.env` says.
"""

import asyncio
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.linux_machine import CRI_SOCKET, LinuxMachine, LinuxMachineError
from lab.network import Network
from lab.place import Place
from lab.process import Process
from tests.support.management.manifests import base, cluster, egress_proxy, rendered
from tests.support.waiting import until

from lab import kubernetes, systemd
from transom.capi.bootstrap.machine_files import ENV_FILE, READ_ENV
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import NotFound

pytestmark = pytest.mark.lab
ENDPOINT = "api.prod.example"
ADMIN = "--kubeconfig=/etc/kubernetes/super-admin.conf"
CONFIG = "/etc/kubeadm.yaml"
IMPATIENT = "/etc/impatient.yaml"
CONSUMERS = ["Nodes", "StaticPods"]
HEALTH = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:2381/health').read().decode())"
AUTHORITIES = ("ca", "front-proxy-ca", "etcd/ca")
WAIT = 240
"""Seconds: a kubelet that was paused waits for half a minute before it starts a pod again."""


class Squid:
    """A proxy in a namespace of its own, which opens tunnels to port 443 alone, as squid does that nobody has configured."""

    def __init__(self, place: Place) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="transom-squid-"))
        shutil.chown(self._directory, "proxy")
        self.url, self._access = f"http://{place.address}:3128", self._directory / "access.log"
        settings = self._directory / "squid.conf"
        settings.write_text(
            "visible_hostname egress.lab.example\nhttp_port 3128\nacl tls port 443\n"
            "http_access deny CONNECT !tls\nhttp_access allow all\ncache deny all\npinger_enable off\n"
            f"access_log stdio:{self._access}\ncache_log {self._directory}/cache.log\npid_filename none\n"
            f"coredump_dir {self._directory}\ncache_effective_user proxy\nshutdown_lifetime 0 seconds\n"
        )
        # squid shares memory by this name
        command: list[str | Path] = [*place.inside, "squid", "-N", "-n", f"machines{time.monotonic_ns()}", "-f", settings]
        self._process = Process(command, self._directory / "squid.log", ending="INT")
        asyncio.run(until(lambda: self._answers(place)))

    def _answers(self, place: Place) -> bool:
        assert not self._process.has_ended(), self._process.log.read_text()
        try:
            socket.create_connection((place.address, 3128), 5).close()
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._process.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def tunnels(self) -> list[str]:
        """Where it was asked for tunnels to."""
        lines = self._access.read_text().splitlines() if self._access.exists() else []
        return [line.split("CONNECT ")[1].split()[0] for line in lines if "CONNECT " in line]

    def asked(self, target: str) -> bool:
        """Whether it was asked for a tunnel there."""
        return target in self.tunnels()


class Cluster:
    """Two control plane machines and a proxy, and the settings that Transom makes for them."""

    def __init__(self, network: Network, directory: Path) -> None:
        self.first, self.second = (LinuxMachine(f"cp-{n}", network.add_place(), directory / f"cp-{n}") for n in (1, 2))
        self.squid = Squid(network.add_place())
        self.network = f"{network.address.rpartition('.')[0]}.0/24"
        # without it the cluster's list has no item for its machines
        self.without, self.given = self._settings(), self._settings(self.network)
        for machine in (self.first, self.second):
            machine.root.put("/etc/hosts", f"127.0.0.1 localhost\n{self.first.place.address} {ENDPOINT}\n".encode())

    def _settings(self, *machines: str) -> dict[str, str]:
        layer = egress_proxy("machines", networks={"machineNetwork": list(machines)}) if machines else None
        settings = base(httpProxy=self.squid.url, httpsProxy=self.squid.url, noProxy="corp.example", consumers=CONSUMERS)
        del settings["spec"]["credentialsSecret"]
        one = cluster(services=("10.96.0.0/16",), pods=("10.244.0.0/16",), host=ENDPOINT)
        return rendered(settings, one, *([layer] if layer else []))["Secret", "mycluster-systemd-proxy"]

    def kubeadm(self, machine: LinuxMachine, *words: str, settings: dict[str, str] | None = None) -> None:
        """As the first of `preKubeadmCommands` and the command after it: one shell."""
        machine.root.put(ENV_FILE, (settings or self.given)["env"].encode(), 0o600)
        machine.run("sh", "-c", f'{READ_ENV}\nexec kubeadm "$@"', "sh", *words)

    def kubelet_environment(self) -> dict[str, str]:
        return systemd.read_environment("kubelet.service", self.given["containerdProxy"])

    def kubectl(self, *words: str, server: str = ENDPOINT + ":6443") -> str:
        return self.first.run("kubectl", ADMIN, f"--server=https://{server}", *words)


def configuration(machine: LinuxMachine, kind: str, **spec: Any) -> dict[str, Any]:
    node = {"name": machine.name, "criSocket": CRI_SOCKET}
    return {"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": kind, "nodeRegistration": node, **spec}


@pytest.fixture(scope="module")
def prod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The first machine is initialised; the second has the cluster's CAs, as Cluster API hands them on, and a kubelet."""
    directory = tmp_path_factory.mktemp("machines")
    with Network(isolated=True) as network:
        made = Cluster(network, directory)
        with made.first, made.second:
            try:
                _initialise(made)
                _prepare_second(made)
                yield made
            finally:
                made.squid.close()
    shutil.rmtree(directory, ignore_errors=True)


def _initialise(made: Cluster) -> None:
    first = made.first
    local = {"advertiseAddress": first.place.address, "bindPort": 6443}
    whole = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "kubernetesVersion": kubernetes.read_version(),
        "controlPlaneEndpoint": f"{ENDPOINT}:6443",
        "encryptionAlgorithm": "ECDSA-P256",
        "networking": {"serviceSubnet": "10.96.0.0/16"},
        "etcd": {"local": {"extraArgs": [{"name": "unsafe-no-fsync", "value": "true"}]}},
    }
    first.put_yaml(CONFIG, configuration(first, "InitConfiguration", localAPIEndpoint=local), whole)
    for phase in ("certs all", "kubeconfig all", "etcd local", "control-plane apiserver"):
        made.kubeadm(first, "init", "phase", *phase.split(), f"--config={CONFIG}")
    first.start_kubelet(made.kubelet_environment())
    _wait(first, lambda: made.kubectl("get", "--raw=/readyz"))
    # `kubeadm init` as a whole does so, with admin.conf's group
    admins = "kubeadm:cluster-admins"
    made.kubectl("create", "clusterrolebinding", admins, "--clusterrole=cluster-admin", f"--group={admins}")
    for phase in ("upload-config all", "bootstrap-token"):
        made.kubeadm(first, "init", "phase", *phase.split(), ADMIN, f"--config={CONFIG}")


def _prepare_second(made: Cluster) -> None:
    first, second = made.first, made.second
    files = [f"/etc/kubernetes/pki/{name}.{suffix}" for name in AUTHORITIES for suffix in ("crt", "key")]
    for path in (*files, *(f"/etc/kubernetes/pki/sa.{suffix}" for suffix in ("pub", "key")), ADMIN.partition("=")[2]):
        second.root.put(path, first.root.get_host_path(path).read_bytes(), 0o600)
    second.root.put(CONFIG, first.root.get_host_path(CONFIG).read_bytes().replace(b"cp-1", b"cp-2"))
    made.kubeadm(second, "init", "phase", "kubeconfig", "kubelet", f"--config={CONFIG}")
    local = {"advertiseAddress": second.place.address, "bindPort": 6443}
    joining = configuration(
        second,
        "JoinConfiguration",
        discovery={"file": {"kubeConfigPath": ADMIN.partition("=")[2]}},
        controlPlane={"localAPIEndpoint": local},
    )
    second.put_yaml(CONFIG, joining)
    second.put_yaml(IMPATIENT, joining | {"timeouts": {"etcdAPICall": "20s"}})
    made.kubeadm(second, "join", "phase", "control-plane-prepare", "certs", f"--config={CONFIG}")
    made.kubeadm(second, "join", "phase", "control-plane-prepare", "kubeconfig", f"--config={CONFIG}")
    second.start_kubelet(made.kubelet_environment())
    _wait(second, lambda: made.kubectl("get", "node", second.name))


def _wait(machine: LinuxMachine, ask: Callable[[], str]) -> str:
    """The answer, as soon as there is one."""

    def answer() -> str | None:
        try:
            return ask()
        except LinuxMachineError:
            return None

    try:
        found: str = asyncio.run(until(answer, WAIT, every=1))
    except AssertionError as error:
        raise AssertionError(f"{error}\n{machine.read_logs()}") from None
    return found


@pytest.fixture(scope="module")
def joined(prod: Cluster) -> list[str]:
    """The second machine's etcd is a member: the tunnels that were asked for meanwhile."""
    before = len(prod.squid.tunnels())
    prod.kubeadm(prod.second, "join", "phase", "etcd-join", f"--config={CONFIG}")
    return prod.squid.tunnels()[before:]


def test_static_pods_have_the_list_that_transom_made(prod: Cluster) -> None:
    (container,) = prod.first.read_static_pod("kube-apiserver")["spec"]["containers"]
    found = {item["name"]: item["value"] for item in container["env"]}
    assert (found["HTTPS_PROXY"], found["NO_PROXY"].endswith(f"localhost,{prod.network}")) == (prod.squid.url, True)
    # a machine has no way but to its network
    assert prod.first.run("ip", "route").split()[0] == prod.network


def test_etcd_of_a_second_machine_is_not_reached_without_the_machines_addresses(prod: Cluster) -> None:
    join = ("join", "phase", "etcd-join", f"--config={IMPATIENT}")
    with pytest.raises(LinuxMachineError, match="etcd: context deadline exceeded"):
        prod.kubeadm(prod.second, *join, settings=prod.without)
    assert prod.squid.asked(f"{prod.first.place.address}:2379")


def test_etcd_of_a_second_machine_joins(prod: Cluster, joined: list[str]) -> None:
    assert (second := prod.second.read_static_pod("etcd")["spec"]["containers"][0]).get("env") is None
    assert f"cp-1=https://{prod.first.place.address}:2380" in str(second["command"])
    pod = ("-n", "kube-system", "exec", "etcd-cp-2", "--")
    assert '"health":"true"' in _wait(prod.second, lambda: prod.kubectl(*pod, "python3", "-c", HEALTH))
    assert joined == []


def test_logs_and_exec_of_another_machines_pod_work(prod: Cluster, joined: list[str]) -> None:
    pod, kubelet = ("-n", "kube-system", "etcd-cp-2"), f"{prod.second.place.address}:10250"
    assert _wait(prod.second, lambda: prod.kubectl("logs", *pod, "--tail=1"))
    assert prod.kubectl("exec", *pod, "--", "echo", "seen there") == "seen there\n"
    # the lab's runtime tells that a command failed, and no code
    assert asyncio.run(_executed(prod, "sh", "-c", "echo seen; echo lost >&2; exit 3")) == (-1, "seen\n", "lost\n")
    assert asyncio.run(_executed(prod, "echo", "a b")) == (0, "a b\n", "")
    with pytest.raises(NotFound):
        asyncio.run(_executed(prod, "echo", pod="none"))
    assert asyncio.run(_executed(prod, "/no/such/program"))[0] == -1
    assert not prod.squid.asked(kubelet)

    # the same API server with the list that lacks the machines' addresses
    (container,) = prod.first.read_static_pod("kube-apiserver")["spec"]["containers"]
    environment = {item["name"]: item["value"].replace(f",{prod.network}", "") for item in container["env"]}
    command = [word.replace("--secure-port=6443", "--secure-port=7443") for word in container["command"]]
    prod.first.start(*command, environment=environment)
    other = f"{prod.first.place.address}:7443"
    _wait(prod.first, lambda: prod.kubectl("get", "--raw=/readyz", server=other))
    with pytest.raises(LinuxMachineError, match="Forbidden"):
        prod.kubectl("logs", *pod, "--tail=1", server=other)
    assert prod.squid.asked(kubelet)
    # of exec the API server asks no proxy: apimachinery v0.36.3, pkg/util/proxy/dial.go
    assert prod.kubectl("exec", *pod, "--", "echo", "seen there", server=other) == "seen there\n"


async def _executed(prod: Cluster, *command: str, pod: str = "etcd-cp-2") -> tuple[int, str, str]:
    """By the client of Transom itself."""
    config = yaml.safe_load(prod.first.root.get_host_path(ADMIN.partition("=")[2]).read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://{prod.first.place.address}:6443"
    prod.first.root.put("/etc/kubernetes/outside.conf", yaml.safe_dump(config).encode(), 0o600)
    connection = connect(str(prod.first.root.get_host_path("/etc/kubernetes/outside.conf")))
    try:
        found = await Client(connection).execute("kube-system", pod, command)
    finally:
        await connection.close()
    return found.code, found.out, found.err
