"""Bare hosts on which payloads of small programs are tried: a simulated one, and Wine."""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from lab.machine import Machine, RecordedEvent
from lab.sshd.fault import Fault as LabFault
from lab.sshd.journal import sum_traffic
from tests.support.workers.payloads import VARIABLES, write

from lab import build, wine
from transom.hosts.ssh.ssh_client import Access
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.proxy.secret import Secret
from transom.windows.registry.registry import NamedValue
from transom.windows.registry.values import Value
from winsim import Fault, Host, Simulator
from winsim.filesystem import SimulatedDirectory, SimulatedFile, list_entries

SMALL = (
    r"""
apiVersion: transom.dev/v1alpha1
kind: Payload
version: VERSION
kubernetes: v1.36.3
ports: [10250]
directories: ['C:\k\logs']
"""
    + VARIABLES
    + r"""files:
- {path: 'C:\k\containerd.exe', source: bin/containerd.exe, services: [containerd]}
- {path: 'C:\k\kubelet.exe', source: bin/kubelet.exe, services: [kubelet]}
- {path: 'C:\k\hybrid-overlay-node.exe', source: bin/hybrid-overlay-node.exe, services: [hybrid-overlay-node]}
- {path: 'C:\k\kube-proxy.exe', source: bin/kube-proxy.exe, services: [kube-proxy]}
- {path: 'C:\k\tool.exe', source: bin/tool.exe}
- {path: 'C:\k\bootstrap.kubeconfig', provided: bootstrap-kubeconfig, services: [kubelet]}
- {path: 'C:\k\kubelet.yaml', content: 'nodeIP: ${NODE_IP}', services: [kubelet]}
- {path: 'C:\k\cni.conf', content: 'subnet: ${SUBNET}', services: [kube-proxy]}
services:
- name: kube-proxy
  order: 4
  command: C:\k\kube-proxy.exe kube-proxy C:\k\logs\${SOURCE_VIP}.jsonl
  dependsOn: [hybrid-overlay-node]
- name: hybrid-overlay-node
  order: 3
  command: C:\k\hybrid-overlay-node.exe hybrid-overlay-node C:\k\logs\hybrid-overlay-node.jsonl
  dependsOn: [kubelet]
  hnsNetworks: [Overlay, External]
- {name: kubelet, order: 2, command: 'C:\k\kubelet.exe kubelet C:\k\logs\kubelet.jsonl', dependsOn: [containerd], egress: true}
- name: containerd
  order: 1
  command: C:\k\containerd.exe containerd "C:\k\logs\containerd.jsonl"
  environment: {CONTAINERD_X: "VERSION"}
  egress: true
"""
)
SERVICES = ("containerd", "kubelet", "hybrid-overlay-node", "kube-proxy")
JOINING = frozenset(SERVICES[:3])
"""What runs before the Node has its subnet."""
VIP = "10.1.2.3"


class BareHost(Protocol):
    """A host with SSH and nothing else."""

    access: Access

    def payload(self, path: Path, version: str = "1.0.0", kubelet: bytes = b"", program: bytes = b"") -> PayloadDirectory:
        """The payload for this host; `kubelet` makes kubelet.exe another file, and `program` is what it is instead."""

    def content(self, path: str) -> bytes | None:
        """A file's content; None where there is none."""

    def put(self, path: str, content: bytes) -> None:
        """Write a file, as somebody at the console might."""

    def everything(self) -> tuple[set[str], set[str]]:
        """The paths of all files and directories, and every registry value, for a comparison."""

    def hold(self, path: str) -> Callable[[], None]:
        """Use a program, so that it cannot be removed and can be renamed, until the function is called."""

    def scan(self, seconds: float) -> None:
        """Let a virus scanner read each file that was written for so long, and keep others from removing or renaming it."""

    def names(self, directory: str) -> set[str]:
        """What lies in a directory."""

    def running(self) -> set[str]:
        """Which services of the payload run."""

    def environments(self, service: str) -> Sequence[Mapping[str, str]]:
        """The environment of each start of a service."""

    def fail(self, at: int, action: str) -> None:
        """Let request `at` of the next connection go wrong."""

    def came(self) -> bool:
        """Whether the fault has happened; it is taken back otherwise."""

    def mark(self) -> None:
        """Count from here."""

    def counted(self) -> tuple[int, int, int]:
        """Since then: connections, channels, requests."""

    def asked(self) -> str:
        """Everything that was ever run or named in a request."""


class Simulated:
    """`winsim.Host`."""

    def __init__(self, simulator: Simulator, host: Host) -> None:
        self.host = host
        key = simulator.client_key.export_private_key().decode()
        self.access = Access(host.address, host.port, host.username, (Secret(key),), simulator.format_host_key(host))
        host.powershell = lambda call: call.write_output(f"{VIP}\r\n") or 0

    def payload(self, path: Path, version: str = "1.0.0", kubelet: bytes = b"", program: bytes = b"") -> PayloadDirectory:
        programs = {name: b"MZservice " + name.encode() for name in SERVICES}
        kubelet = kubelet and programs["kubelet"] + kubelet
        return _payload(path, version, programs | {"tool": b"MZtool " + version.encode()}, program or kubelet)

    def content(self, path: str) -> bytes | None:
        node = self.host.files.find(path)
        return bytes(node.data) if isinstance(node, SimulatedFile) else None

    def everything(self) -> tuple[set[str], set[str]]:
        return everything_of(self.host)

    def hold(self, path: str) -> Callable[[], None]:
        # the simulated host does not tell a program that runs from another open file: nobody holds it
        return lambda: None

    def scan(self, seconds: float) -> None:
        self.host.scan(seconds)

    def names(self, directory: str) -> set[str]:
        return {node.name for node in list_entries(self.host.files.get_directory(directory))}

    def put(self, path: str, content: bytes) -> None:
        self.host.files.make_directories(path.rpartition("\\")[0])
        self.host.files.write(path, content)

    def running(self) -> set[str]:
        services = [self.host.services.find(name) for name in SERVICES]
        return {service.name for service in services if service is not None and service.state.name == "RUNNING"}

    def environments(self, service: str) -> Sequence[Mapping[str, str]]:
        return [start.environment for start in self.host.starts(service)]

    def fail(self, at: int, action: str) -> None:
        self.host.faults.schedule_fault(
            Fault(at, "before" if action != "after" else "after", "hang" if action == "hang" else "cut")
        )

    def came(self) -> bool:
        came = self.host.faults.ordered is None
        self.host.faults.cancel_fault()
        return came

    def mark(self) -> None:
        self.host.traffic.clear()

    def counted(self) -> tuple[int, int, int]:
        traffic = self.host.traffic
        return traffic.connections, traffic.channels, len(traffic.requests)

    def asked(self) -> str:
        return "\n".join((*self.host.processes, *self.host.traffic.requests))


class OnWine:
    """`lab.machine.Machine`, bare; recorders stand for the programs."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        ssh, place = machine.ssh, machine.place
        self.access = Access(place.address, place.port, ssh.user, (Secret(ssh.key.read_text()),), ssh.host_key)
        (machine.drive / "lab" / "powershell.out").write_text(f"{VIP}\r\n")
        self._seen = 0

    def payload(self, path: Path, version: str = "1.0.0", kubelet: bytes = b"", program: bytes = b"") -> PayloadDirectory:
        recorder = build.build_program(build.RECORDER).read_bytes()
        # boot.exe stays when it is started
        tool = (build.build_native() / "boot.exe").read_bytes() + version.encode()
        kubelet = kubelet and recorder + kubelet
        return _payload(path, version, dict.fromkeys(SERVICES, recorder) | {"tool": tool}, program or kubelet)

    def content(self, path: str) -> bytes | None:
        file = self.machine.find_path(path)
        return file.read_bytes() if file.is_file() else None

    def everything(self) -> tuple[set[str], set[str]]:
        return everything(self.machine)

    def hold(self, path: str) -> Callable[[], None]:
        command = [*self.machine.place.inside, *wine.find_loader(), path]
        environment = wine.build_environment(self.machine.prefix)
        using = subprocess.Popen(command, cwd=self.machine.drive, env=environment, stdout=subprocess.PIPE)
        assert using.stdout is not None and using.stdout.readline().strip() == b"ready"

        def let_go() -> None:
            using.kill()
            using.wait()
            assert using.stdout is not None
            using.stdout.close()

        return let_go

    def scan(self, seconds: float) -> None:
        # what a script writes it does read for as long in `benchmarks.scanner`, where each pass takes a minute
        self.machine.ssh.scan(seconds)
        self.machine.scan(seconds / 20)

    def names(self, directory: str) -> set[str]:
        return {file.name for file in self.machine.find_path(directory).iterdir()}

    def put(self, path: str, content: bytes) -> None:
        file = self.machine.find_path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def running(self) -> set[str]:
        return {name for name in SERVICES if self.machine.read_state(name) == "RUNNING"}

    def environments(self, service: str) -> Sequence[Mapping[str, str]]:
        starts = self.starts(service)
        return [dict(item.split("=", 1) for item in start.environment if "=" in item[1:]) for start in starts]

    def starts(self, service: str) -> Sequence[RecordedEvent]:
        """What the recorder that stands for a service wrote at each of its starts."""
        log = self.machine.find_path(rf"C:\k\logs\{VIP if service == 'kube-proxy' else service}.jsonl")
        return [event for event in self.machine.read_recorded_file(log) if event.event == "start"]

    def fail(self, at: int, action: str) -> None:
        self.machine.ssh.schedule_fault(
            LabFault(at, "before" if action != "after" else "after", "hang" if action == "hang" else "cut")
        )

    def came(self) -> bool:
        came = not self.machine.ssh.armed
        self.machine.ssh.cancel_fault()
        return came

    def mark(self) -> None:
        self._seen = len(self.machine.ssh.read_entries())

    def counted(self) -> tuple[int, int, int]:
        entries = self.machine.ssh.read_entries()[self._seen :]
        seen = sum_traffic(entries)
        return seen.connections, seen.channels, sum(entry.event == "request" for entry in entries)

    def asked(self) -> str:
        return "\n".join((*self.machine.read_calls(), *(entry.detail or "" for entry in self.machine.ssh.read_entries())))


_OWN = ("lab/", "users/", "windows/temp")
"""What of a machine of the lab is the lab's, or a profile's."""
_COUNTED = (
    r"\Control\ServiceCurrent",
    r"\Memory Management\PrefetchParameters",
    r"\SystemCertificates",
    r"\Control\Video",
)
"""Where Windows counts services and boots, and what Wine writes by itself."""


def everything(machine: Machine) -> tuple[set[str], set[str]]:
    """The paths of all files and directories of a machine, and each line of its registry's export with its key."""
    # the first program in a boot that asks for a desktop has Wine write the display into the registry
    machine.run("schtasks", "/query")
    files = {str(path.relative_to(machine.drive)) for path in machine.drive.rglob("*")}
    return {path for path in files if not path.startswith(_OWN)}, set(_values(machine.export("HKLM")))


def everything_of(host: Host) -> tuple[set[str], set[str]]:
    """The same of a simulated host."""
    values = {
        f"{key.path} {named.name} {named.value.type} {named.value.data.hex()}"
        for key in host.registry
        for named in ((key.values or {}).values() or [NamedValue("", Value(0, b""))])
    }
    return set(_paths(host.files.get_directory("C:\\"), "C:")), values


def _values(exported: str) -> Iterator[str]:
    key = ""
    for line in exported.replace("\\\n  ", "").splitlines():
        key = line if line.startswith("[") else key
        if not any(item in key for item in _COUNTED):
            yield f"{key} {line}"


def _paths(directory: SimulatedDirectory, path: str) -> Iterator[str]:
    for node in list_entries(directory):
        yield f"{path}\\{node.name}"
        if isinstance(node, SimulatedDirectory):
            yield from _paths(node, f"{path}\\{node.name}")


def _payload(path: Path, version: str, programs: Mapping[str, bytes], kubelet: bytes) -> PayloadDirectory:
    write(path, SMALL.replace("VERSION", version))
    for name, program in (programs | ({"kubelet": kubelet} if kubelet else {})).items():
        (path / "bin" / f"{name}.exe").write_bytes(program)
    return PayloadDirectory.open(path)
