"""A Linux machine of a cluster in a network namespace: kubeadm, kubelet, and a runtime whose containers are processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lab import build, kubernetes
from lab.place import Place
from lab.process import Process
from lab.root import Root

CRI_SOCKET = "unix:///run/cri.sock"
MANIFESTS = "/etc/kubernetes/manifests"
_KUBELET_SETTINGS = "/var/lib/kubelet/config.yaml"


class LinuxMachineError(Exception):
    """A command of the machine failed; the message has what it said."""


class LinuxMachine:
    """A machine below ``directory``. A context manager: what was started there ends with the block."""

    def __init__(self, name: str, place: Place, directory: Path) -> None:
        self.name, self.place = name, place
        self.root = Root(directory)
        programs = [kubernetes.build_binaries() / name for name in ("etcd", "kube-apiserver", "kubectl")]
        for program in (
            *programs,
            kubernetes.build_kubeadm(),
            kubernetes.build_kubelet(),
            build.build_program(build.LINUX_RUNTIME),
        ):
            self.root.install(program)
        self._logs = directory.with_name(f"{directory.name}-logs")
        self._logs.mkdir()
        self._processes: list[Process] = []

    def __enter__(self) -> LinuxMachine:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.stop()

    def run(self, *words: str, environment: Mapping[str, str] | None = None) -> str:
        """Run a command and return its output. Raises LinuxMachineError if it fails."""
        full_words = ("env", *(f"{name}={value}" for name, value in environment.items()), *words) if environment else words
        command = self.root.build_command(full_words, self.place)
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise LinuxMachineError(f"{self.name}: {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def start(self, *words: str, environment: Mapping[str, str] | None = None, ending: str = "KILL") -> None:
        """Start a command that runs until a signal at the end; its output is in the log of its name."""
        full_words = ("env", *(f"{name}={value}" for name, value in (environment or {}).items()), *words)
        log = self._logs / f"{words[0]}-{len(self._processes)}.log"
        self._processes.append(
            Process(self.root.build_command(full_words, self.place), log, {"PATH": os.environ["PATH"]}, ending)
        )

    def start_kubelet(self, environment: Mapping[str, str]) -> None:
        """Start the runtime and the kubelet, which runs the pods of ``MANIFESTS`` and reports them to the API server.

        It needs what kubeadm writes: the cluster's CA and ``kubelet.conf``.
        """
        # it ends what it runs
        self.start("runtime", CRI_SOCKET.removeprefix("unix://"), "/var/lib/cri.json", ending="TERM")
        self.put_yaml(_KUBELET_SETTINGS, _build_kubelet_settings())
        options = (f"--config={_KUBELET_SETTINGS}", "--kubeconfig=/etc/kubernetes/kubelet.conf")
        names = (f"--hostname-override={self.name}", f"--node-ip={self.place.address}")
        self.start("kubelet", *options, *names, environment=environment)

    def put_yaml(self, path: str, *documents: Mapping[str, Any]) -> None:
        """Write a file of YAML documents."""
        self.root.put(path, yaml.safe_dump_all(map(dict, documents)).encode(), 0o600)

    def read_static_pod(self, name: str) -> dict[str, Any]:
        """Return a static pod as kubeadm wrote it."""
        pod: dict[str, Any] = yaml.safe_load(self.root.get_host_path(f"{MANIFESTS}/{name}.yaml").read_text())
        return pod

    def read_logs(self) -> str:
        """Return the end of the log of every started program."""
        return "\n".join(
            f"== {file.name}\n{file.read_text(errors='replace')[-1500:]}" for file in sorted(self._logs.glob("*.log"))
        )


def _build_kubelet_settings() -> dict[str, Any]:
    """Build the settings of a kubelet that changes nothing in the kernel and creates no control groups."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": CRI_SOCKET,
        "staticPodPath": MANIFESTS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "featureGates": {"KubeletInUserNamespace": True},
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "evictionHard": {f"{item}.available": "0%" for item in ("memory", "nodefs", "imagefs")},
    }
