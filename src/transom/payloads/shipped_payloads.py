"""The payloads that Transom ships, as the files of a directory by name."""

import importlib.resources
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources.abc import Traversable
from typing import Final, Literal, get_args

import msgspec

from transom.sources.yaml_text import parse_value
from transom.windows.nodes.scheduling import iter_runtime_classes

Kind = Literal["openshift", "kubeadm"]
Cni = Literal["calico", "flannel", "none"]
CNIS: Final = get_args(Cni)
_NETWORKS: Final = {"calico": "with Calico", "flannel": "with Flannel (VXLAN)", "none": "with a network of your own"}
_PLACE: Final = re.compile(r"^#@(\w+)\n", re.MULTILINE)
_NAME: Final = re.compile(r"@([A-Z_]+)@")


class UnknownVersion(ValueError):
    """A version of Kubernetes for which it is not known what fits; the message says which ones are."""


class CompatibleVersions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What fits a minor version of Kubernetes: a version of containerd, and those of Calico."""

    minor: str
    containerd: str
    calico: str


class ShippedPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part, its version where that is the same for every version of Kubernetes, and where that is said."""

    name: str
    source: str
    version: str = ""


class ShippedVersions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`kubeadm/versions.yaml`."""

    kubernetes: tuple[CompatibleVersions, ...]
    parts: tuple[ShippedPart, ...]


@cache
def read_versions() -> ShippedVersions:
    """Read the versions that are compatible with each other."""
    return msgspec.convert(parse_value(_read_text(_get_directory("kubeadm") / "versions.yaml")), ShippedVersions)


def build_openshift_payload() -> Mapping[str, bytes]:
    """Build the payload for OpenShift with OVN-Kubernetes."""
    files = {file.name: file.read_bytes() for file in _get_directory("openshift").iterdir()}
    return {**files, "cluster.yaml": _render_runtime_classes().encode()}


def build_kubeadm_payload(cni: Cni, kubernetes: str, *, csi_proxy: bool = False) -> Mapping[str, bytes]:
    """Build the payload for a kubeadm cluster of a version such as `v1.36.3`. Raises UnknownVersion."""
    texts = _get_directory("kubeadm")
    rights = _read_text(texts / "cluster.yaml")
    files = {"cluster.yaml": f"{rights}---\n{_render_runtime_classes()}", "payload.yaml": _read_text(texts / "payload.yaml")}
    parts = [_read_text(texts / f"{cni}.yaml"), *([_read_text(texts / "csi-proxy.yaml")] if csi_proxy else [])]
    names = _build_placeholder_values(cni, kubernetes)
    files["payload.yaml"] = _NAME.sub(lambda item: names[item[1]], _fill_placeholders(files["payload.yaml"], parts))
    if cni != "none":
        files["source-vip.ps1"] = _read_text(texts / f"source-vip-{cni}.ps1")
    return {name: text.encode() for name, text in files.items()}


def render_version_table() -> str:
    """Render the compatible versions as Markdown for the page."""
    rows = [
        f"| {kubernete.minor} | {kubernete.containerd} | {kubernete.calico} |\n" for kubernete in read_versions().kubernetes
    ]
    parts = [f"| {part.name} | {part.version or 'as above'} | {part.source} |\n" for part in read_versions().parts]
    head = "| Kubernetes | containerd | Calico |\n|---|---|---|\n"
    return head + "".join(rows) + "\n| part | version | source |\n|---|---|---|\n" + "".join(parts)


def _build_placeholder_values(cni: Cni, kubernetes: str) -> dict[str, str]:
    minor = re.fullmatch(r"v(1\.\d+)\.\d+(?:-[a-z0-9.]+)?", kubernetes)
    fits = next((kubernete for kubernete in read_versions().kubernetes if minor and kubernete.minor == minor[1]), None)
    if fits is None:
        known = ", ".join(f"v{kubernete.minor}" for kubernete in read_versions().kubernetes)
        raise UnknownVersion(
            f"{kubernetes!r} is not a supported Kubernetes version: write one of {known} with its patch, such as v1.36.3"
        )
    names = {part.name.upper().replace("-", "_"): part.version for part in read_versions().parts}
    return names | {
        "KUBERNETES": kubernetes,
        "VERSION": kubernetes.removeprefix("v"),
        "CONTAINERD": fits.containerd,
        "NETWORK": _NETWORKS[cni],
    }


def _fill_placeholders(text: str, parts: list[str]) -> str:
    """Return the text with each placeholder replaced by the parts for it."""
    more: dict[str, str] = {}
    for part in parts:
        _, *sections = _PLACE.split(part)
        for name, section in zip(sections[::2], sections[1::2], strict=True):
            more[name] = more.get(name, "") + section
    return _PLACE.sub(lambda item: more.get(item[1], ""), text)


def _render_runtime_classes() -> str:
    """Return the RuntimeClasses of Windows pods, for the cluster."""
    import yaml

    text: str = yaml.safe_dump_all(iter_runtime_classes(), sort_keys=False)
    return f"# A pod that names one of these lands on a Windows node of that build.\n{text}"


def _get_directory(kind: Kind) -> Traversable:
    return importlib.resources.files("transom.payloads") / kind


def _read_text(file: Traversable) -> str:
    return file.read_text("utf-8")
