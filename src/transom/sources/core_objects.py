"""Kubernetes' own objects: Secrets, ConfigMaps, and what kubeadm keeps in them."""

import binascii
from typing import Any

from transom.proxy.finding import Finding, Path, Place
from transom.proxy.objects import ClusterInfo, ConfigMap, KubeadmConfig, Meta, SecretObject
from transom.proxy.secret import Secret
from transom.shown import shown_secret_key
from transom.sources.decoding import INVALID, Decoder
from transom.sources.yaml_text import InvalidText, read_value


def at(value: Any, path: Path) -> Any:
    """The value at a path of mappings, None where there is none."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def text(value: Any, path: Path, decoder: Decoder) -> str | None:
    """The text at a path, None where there is none or an empty one; a finding where it is something else."""
    given = at(value, path)
    if given is None:
        return None
    read = decoder.read(given, str, path)
    return None if read is INVALID or read == "" else read


def number(value: Any, path: Path, decoder: Decoder) -> int | None:
    """The number at a path, None where there is none; a finding where it is something else."""
    given = at(value, path)
    read = None if given is None else decoder.read(given, int, path)
    return None if read is INVALID else read


def texts(value: Any, path: Path, decoder: Decoder) -> tuple[str, ...]:
    """The texts of the list at a path; a finding where it is something else."""
    given = at(value, path)
    read = () if given is None else decoder.read(given, tuple[str, ...], path)
    return () if read is INVALID else read


def secret(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> SecretObject:
    """A Secret: `data` decoded, `stringData` over it."""
    data: dict[str, Secret | None] = {}
    faulty: set[str] = set()
    for field in ("data", "stringData"):
        entries = value.get(field)
        if entries is not None and not isinstance(entries, dict):
            findings.append(place.error((field,), "must be a mapping of names to texts"))
            continue
        for key, given in (entries or {}).items():
            fault = None
            if not isinstance(given, str):
                data[key], fault = None, "must be a text: put it in quotes"
            elif field == "stringData":
                data[key] = Secret(given)
            elif (raw := _decoded(given)) is None:
                data[key], fault = None, "must be base64; `stringData` takes the text itself"
            else:
                data[key] = _text_of(raw)
            if fault:
                faulty.add(key)
                findings.append(place.error((field, shown_secret_key(key)), fault))
    return SecretObject(meta, place, data, frozenset(faulty))


def _decoded(given: str) -> bytes | None:
    try:
        return binascii.a2b_base64("".join(given.split()), strict_mode=True)
    except ValueError:
        return None


def decoded_text(given: str) -> str | None:
    """A value of a Secret's `data` as text; None where it is not base64 or no text."""
    raw = _decoded(given)
    text = _text_of(raw) if raw is not None else None
    return text.reveal() if text is not None else None


def _text_of(raw: bytes) -> Secret | None:
    """The value as text; None for what is binary, such as a key store, which nobody here reads."""
    try:
        return Secret(raw.decode())
    except UnicodeDecodeError:
        return None


def config_map(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> ConfigMap:
    """A ConfigMap; `binaryData` is not read."""
    given = value.get("data")
    read = {} if given is None else decoder.read(given, dict[str, str], ("data",))
    return ConfigMap(meta, place, {} if read is INVALID else read)


def kubeadm_config(source: ConfigMap, findings: list[Finding]) -> KubeadmConfig:
    """What kubeadm noted of the cluster's networks (kubeadm-config.v1beta3 and v1beta4, ClusterConfiguration)."""
    networking = at(_inner(source, "ClusterConfiguration", findings), ("networking",))
    decoder = Decoder(source.place, findings, strict=False)
    subnets = [text(networking, (name,), decoder) for name in ("podSubnet", "serviceSubnet", "dnsDomain")]
    return KubeadmConfig(source.place, *subnets)


def cluster_info(source: ConfigMap, findings: list[Finding]) -> ClusterInfo:
    """The server of the kubeconfig that kubeadm publishes for joining nodes."""
    clusters = at(_inner(source, "kubeconfig", findings), ("clusters",))
    first = clusters[0] if isinstance(clusters, list) and clusters else None
    server = at(first, ("cluster", "server"))
    return ClusterInfo(source.place, server if isinstance(server, str) else None)


def _inner(source: ConfigMap, key: str, findings: list[Finding]) -> Any:
    """The YAML that stands in a key of a ConfigMap."""
    if key not in source.data:
        findings.append(source.place.warning(("data", key), "the key is missing: nothing of it is known"))
        return None
    try:
        return read_value(source.data[key])
    except InvalidText as error:
        where = f" (its line {error.line})" if error.line else ""
        findings.append(source.place.warning(("data", key), f"{error.reason}{where}: nothing of it is known"))
        return None
