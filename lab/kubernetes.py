"""The programs of a Kubernetes control plane, built from their Go modules where neither the cache nor the caller has them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from image.progress import run_step

from lab import cache, golang

MODULE = Path(__file__).parent / "go" / "kubernetes"
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
KUBEADM = "k8s.io/kubernetes/cmd/kubeadm"
KUBELET = "k8s.io/kubernetes/cmd/kubelet"
NEEDED = ("etcd", "kube-apiserver", "kubectl")
"""What a directory of ``KUBEBUILDER_ASSETS`` has to have: the three that its customary archives hold."""


class ControlPlaneError(Exception):
    """The control plane could not be built, found or started; the message says what is missing or what the program said."""


def read_version() -> str:
    """Return the version of Kubernetes that is built, as ``v1.36.3``."""
    match = re.search(r"^\s*(?:require )?k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if not match:
        raise ControlPlaneError(f"{MODULE / 'go.mod'} does not require k8s.io/kubernetes")
    return match[1]


def build_binaries() -> Path:
    """Return the directory with ``etcd``, ``kube-apiserver``, ``kubectl`` and ``kube-controller-manager``.

    ``KUBEBUILDER_ASSETS`` names a directory that has them (``kube-controller-manager`` can be missing there); otherwise they
    are built once (8 minutes on two cores) into the cache. Raises GoError if the build fails.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        missing = [name for name in NEEDED if not os.access(Path(assets) / name, os.X_OK)]
        if missing:
            raise ControlPlaneError(f"KUBEBUILDER_ASSETS={assets} has no {', '.join(missing)}")
        return Path(assets)
    key = cache.digest([MODULE / "go.mod", MODULE / "go.sum", *PACKAGES])
    return cache.get_entry("kubernetes", key, lambda target: _build(target, PACKAGES))


def build_kubeadm() -> Path:
    """Return the program ``kubeadm`` of the same version, built once into its own entry: usual archives do not have it."""
    key = cache.digest([MODULE / "go.mod", MODULE / "go.sum", KUBEADM])
    return cache.get_entry("kubeadm", key, lambda target: _build(target, {"kubeadm": KUBEADM})) / "kubeadm"


def build_kubelet() -> Path:
    """Return the program ``kubelet`` of the same version, for Linux.

    It is built once (2 minutes on two cores after the control plane).
    """
    key = cache.digest([MODULE / "go.mod", MODULE / "go.sum", KUBELET])
    return cache.get_entry("kubelet-linux", key, lambda target: _build(target, {"kubelet": KUBELET})) / "kubelet"


def _build(target: Path, packages: Mapping[str, str]) -> None:
    major, minor = read_version().removeprefix("v").split(".")[:2]
    component = "k8s.io/component-base/version"
    linker = f"-s -w -X {component}.gitVersion={read_version()} -X {component}.gitMajor={major} -X {component}.gitMinor={minor}"
    for name, package in packages.items():
        with run_step(f"building {name} {read_version()}"):
            command: list[str | Path] = ["build", "-trimpath", "-ldflags", linker, "-o", target / name, package]
            golang.run(MODULE, command, CGO_ENABLED="0", GOFLAGS="-mod=readonly")
