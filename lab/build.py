"""The programs of the lab, built from source where the cache does not have them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from image.progress import run_step

from lab import cache, golang, kubernetes
from lab.process import TIED

SOURCES = Path(__file__).parent
COMPILER = "x86_64-w64-mingw32-gcc"
CONTAINERD = "2.4.2"


class BuildError(Exception):
    """A program could not be built; the message holds the end of what the compiler said."""


@dataclass(frozen=True)
class Library:
    """A DLL of ``native/``, with the libraries it links."""

    name: str
    links: tuple[str, ...] = ()


LIBRARIES = (
    Library("bcryptprimitives", ("advapi32", "ntdll")),
    Library("vmcompute", ("ole32",)),
    Library("computenetwork", ("ole32",)),
    Library("pdh"),
)


@dataclass(frozen=True)
class Program:
    """A Go program: its module below ``go/``, the package to build, the version it is, linker flags, and for what it is."""

    name: str
    module: str
    package: str
    version: str
    linker_flags: str = ""
    system: str = "windows"

    @property
    def file(self) -> str:
        """What the file is called."""
        return f"{self.name}.exe" if self.system == "windows" else self.name


_CONTAINERD_VERSION = f"-X github.com/containerd/containerd/v2/version.Version=v{CONTAINERD}"
CRI_PULL = Program("cri-pull", "cri-pull", ".", "", system="linux")
# in two of three whole test runs a recorder's process ended unasked; without preemption by SuspendThread in none of two
_NOT_PREEMPTED = "-X runtime.godebugDefault=asyncpreemptoff=1"
RECORDER = Program("recorder", "recorder", ".", "", _NOT_PREEMPTED)
SCANNER = Program("scanner", "scanner", ".", "", _NOT_PREEMPTED)
RUNTIME = Program("runtime", "runtime", ".", "", _NOT_PREEMPTED)
LINUX_RUNTIME = Program("runtime", "runtime", ".", "", system="linux")
ACTIONLINT = Program("actionlint", "actionlint", "github.com/rhysd/actionlint/cmd/actionlint", "1.7.12", system="linux")
PACKER = Program("packer", "packer", "github.com/hashicorp/packer", "1.11.2", system="linux")
HELM = Program(
    "helm",
    "helm",
    "helm.sh/helm/v3/cmd/helm",
    "3.22.0",
    # as its Makefile stamps it: the Kubernetes of its client-go is what charts are held against
    "-X helm.sh/helm/v3/internal/version.version=v3.22.0 "
    "-X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=37 "
    "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=37",
    system="linux",
)
KUSTOMIZE = Program("kustomize", "kustomize", "sigs.k8s.io/kustomize/kustomize/v5", "5.8.2", system="linux")
KUBECONFORM = Program("kubeconform", "kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform", "0.8.0", system="linux")
CRDIFY = Program("crdify", "crdify", "sigs.k8s.io/crdify", "0.5.0", system="linux")
OLM = Program("olm", "olm", ".", "", system="linux")
CURL = Program("curl", "curl", ".", "")
CONTAINERD_PROGRAMS = (
    Program("containerd", "containerd", "github.com/containerd/containerd/v2/cmd/containerd", CONTAINERD, _CONTAINERD_VERSION),
    Program("ctr", "containerd", "github.com/containerd/containerd/v2/cmd/ctr", CONTAINERD, _CONTAINERD_VERSION),
    Program("cri-pull", "containerd", "./cri-pull", ""),
)


def list_node_programs() -> tuple[Program, ...]:
    """Return kubelet.exe, kube-proxy.exe and kube-log-runner.exe, which writes the log file that kubelet has no option for."""
    version = kubernetes.read_version()
    return (
        _get_stamped_program("kubelet"),
        _get_stamped_program("kube-proxy"),
        Program("kube-log-runner", "kubernetes", "k8s.io/component-base/logs/kube-log-runner", version),
    )


def get_kubeadm_program() -> Program:
    """Return kubeadm.exe, which takes the socket of a Windows node's containerd."""
    return _get_stamped_program("kubeadm")


def _get_stamped_program(name: str) -> Program:
    """Return a program of Kubernetes with linker flags that set its version."""
    version = kubernetes.read_version()
    major, minor = version.removeprefix("v").split(".")[:2]
    component = "k8s.io/component-base/version"
    stamped = f"-X {component}.gitVersion={version} -X {component}.gitMajor={major} -X {component}.gitMinor={minor}"
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", version, stamped)


def build_native() -> Path:
    """Return the directory of the DLLs that Wine lacks, and of boot.exe, shell.exe and tool.exe; build it if needed."""
    sources = SOURCES / "native"

    def make(target: Path) -> None:
        with run_step("building the DLLs for Wine"):
            for library in LIBRARIES:
                links = [f"-l{name}" for name in library.links]
                options = ["-O2", "-Wall", "-Wno-cast-function-type", "-s", "-shared"]
                _compile([*options, "-o", target / f"{library.name}.dll", sources / f"{library.name}.c", *links])
            program = ["-O2", "-Wall", "-s", "-municode"]
            for name in ("boot", "shell", "tool"):
                _compile([*program, "-o", target / f"{name}.exe", sources / f"{name}.c", "-lbcrypt"])

    return cache.get_entry("native", cache.digest([sources]), make)


def build_program(wanted: Program) -> Path:
    """Return the built file of a program; build it if needed."""
    module = SOURCES / "go" / wanted.module
    key = cache.digest([module, wanted.package, wanted.linker_flags])

    def make(target: Path) -> None:
        title = " ".join(filter(None, (f"building {wanted.file}", wanted.version)))
        with run_step(title):
            flags = f"-s -w {wanted.linker_flags}".strip()
            command: list[str | Path] = ["build", "-ldflags", flags, "-o", target / wanted.file, wanted.package]
            golang.run(module, command, GOOS=wanted.system, GOARCH="amd64", CGO_ENABLED="0", GOFLAGS="-buildvcs=false")

    return (
        cache.get_entry(wanted.name if wanted.system == "windows" else f"{wanted.name}-{wanted.system}", key, make)
        / wanted.file
    )


def _compile(command: Sequence[str | Path]) -> None:
    done = subprocess.run([*TIED, COMPILER, *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{COMPILER} failed:\n{(done.stderr or done.stdout)[-2000:]}")
