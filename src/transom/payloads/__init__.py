"""The payloads that Transom ships, as the files of a directory by name."""

import importlib.resources
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources.abc import Traversable
from typing import Final, Literal, get_args

import msgspec

from transom.sources.yaml_text import read_value

Kind = Literal["openshift", "kubeadm"]
Cni = Literal["calico", "flannel", "none"]
CNIS: Final = get_args(Cni)
_NETWORKS: Final = {"calico": "with Calico", "flannel": "with Flannel (VXLAN)", "none": "with a network of your own"}
_PLACE: Final = re.compile(r"^#@(\w+)\n", re.MULTILINE)
_NAME: Final = re.compile(r"@([A-Z_]+)@")


class UnknownVersion(ValueError):
    """A version of Kubernetes for which it is not known what fits; the message says which ones are."""


class Minor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What fits a minor version of Kubernetes: a version of containerd, and those of Calico."""

    minor: str
    containerd: str
    calico: str


class ShippedPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part, its version where that is the same for every version of Kubernetes, and where that is said."""

    name: str
    source: str
    version: str = ""


class Versions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`kubeadm/versions.yaml`."""

    kubernetes: tuple[Minor, ...]
    parts: tuple[ShippedPart, ...]


@cache
def versions() -> Versions:
    """The versions that fit each other."""
    return msgspec.convert(read_value(_text(_directory("kubeadm") / "versions.yaml")), Versions)


def openshift() -> Mapping[str, bytes]:
    """The one for OpenShift with OVN-Kubernetes."""
    return {file.name: file.read_bytes() for file in _directory("openshift").iterdir()}


def kubeadm(cni: Cni, kubernetes: str, *, csi_proxy: bool = False) -> Mapping[str, bytes]:
    """The one for a cluster that kubeadm made, for a version such as `v1.36.3`. Raises UnknownVersion."""
    texts = _directory("kubeadm")
    files = {"cluster.yaml": _text(texts / "cluster.yaml"), "payload.yaml": _text(texts / "payload.yaml")}
    parts = [_text(texts / f"{cni}.yaml"), *([_text(texts / "csi-proxy.yaml")] if csi_proxy else [])]
    names = _names(cni, kubernetes)
    files["payload.yaml"] = _NAME.sub(lambda found: names[found[1]], _joined(files["payload.yaml"], parts))
    if cni != "none":
        files["source-vip.ps1"] = _text(texts / f"source-vip-{cni}.ps1")
    return {name: text.encode() for name, text in files.items()}


def table() -> str:
    """The versions that fit each other as Markdown, for the page."""
    rows = [f"| {one.minor} | {one.containerd} | {one.calico} |\n" for one in versions().kubernetes]
    parts = [f"| {one.name} | {one.version or 'as above'} | {one.source} |\n" for one in versions().parts]
    head = "| Kubernetes | containerd | Calico |\n|---|---|---|\n"
    return head + "".join(rows) + "\n| part | version | source |\n|---|---|---|\n" + "".join(parts)


def _names(cni: Cni, kubernetes: str) -> dict[str, str]:
    minor = re.fullmatch(r"v(1\.\d+)\.\d+(?:-[a-z0-9.]+)?", kubernetes)
    fits = next((one for one in versions().kubernetes if minor and one.minor == minor[1]), None)
    if fits is None:
        known = ", ".join(f"v{one.minor}" for one in versions().kubernetes)
        raise UnknownVersion(f"{kubernetes!r} is no version of those for which it is known what fits, such as v1.36.3: {known}")
    names = {part.name.upper().replace("-", "_"): part.version for part in versions().parts}
    return names | {
        "KUBERNETES": kubernetes,
        "VERSION": kubernetes.removeprefix("v"),
        "CONTAINERD": fits.containerd,
        "NETWORK": _NETWORKS[cni],
    }


def _joined(text: str, parts: list[str]) -> str:
    """The text with what the parts have for each of its places."""
    more: dict[str, str] = {}
    for part in parts:
        _, *sections = _PLACE.split(part)
        for name, section in zip(sections[::2], sections[1::2], strict=True):
            more[name] = more.get(name, "") + section
    return _PLACE.sub(lambda found: more.get(found[1], ""), text)


def _directory(kind: Kind) -> Traversable:
    return importlib.resources.files("transom.payloads") / kind


def _text(file: Traversable) -> str:
    return file.read_text("utf-8")
