"""Kubernetes' own objects: Secrets, ConfigMaps, and what kubeadm keeps in them."""

import binascii
from typing import Any

from transom.common.escaping import escape_secret_key
from transom.proxy.finding import Finding, Path, Place
from transom.proxy.objects import ClusterInfo, ConfigMap, KubeadmConfig, Meta, SecretObject
from transom.proxy.placeholders import find_placeholder, is_encrypted
from transom.proxy.secret import Secret
from transom.sources.decoding import INVALID, Decoder
from transom.sources.yaml_text import InvalidText, parse_value


def get_value_at(value: Any, path: Path) -> Any:
    """Return the value at a path of mappings, None if there is none."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def read_string(value: Any, path: Path, decoder: Decoder) -> str | None:
    """Return the string at a path, None if there is none or it is empty; a finding for any other value."""
    value_at_path = get_value_at(value, path)
    if value_at_path is None:
        return None
    read = decoder.read(value_at_path, str, path)
    return None if read is INVALID or read == "" else read


def read_number(value: Any, path: Path, decoder: Decoder) -> int | None:
    """Return the number at a path, None if there is none; a finding for any other value."""
    value_at_path = get_value_at(value, path)
    read = None if value_at_path is None else decoder.read(value_at_path, int, path)
    return None if read is INVALID else read


def read_strings(value: Any, path: Path, decoder: Decoder) -> tuple[str, ...]:
    """Return the strings of the list at a path; a finding for any other value."""
    value_at_path = get_value_at(value, path)
    read = () if value_at_path is None else decoder.read(value_at_path, tuple[str, ...], path)
    return () if read is INVALID else read


def read_secret(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> SecretObject:
    """Read a Secret: `data` decoded, overridden by `stringData`."""
    place = _with_string_data(place, value)
    if is_encrypted(value):
        return SecretObject(meta, place, encrypted=True)
    data: dict[str, Secret | None] = {}
    faulty: set[str] = set()
    placeholders: dict[str, str] = {}
    for field in ("data", "stringData"):
        entries = value.get(field)
        if entries is not None and not isinstance(entries, dict):
            findings.append(place.build_error((field,), "must be a mapping of names to strings"))
            continue
        for key, entry in (entries or {}).items():
            fault = None
            placeholders.pop(key, None)
            if not isinstance(entry, str):
                data[key], fault = None, "must be a string: put it in quotes"
            elif message := find_placeholder(entry, secret=True):
                data[key], placeholders[key] = None, message
            elif field == "stringData":
                data[key] = Secret(entry)
            elif (raw := _decode_base64(entry)) is None:
                data[key], fault = None, "must be base64; `stringData` takes the text itself"
            else:
                data[key] = read = _to_secret(raw)
                if read is not None and (message := find_placeholder(read.reveal(), secret=True)):
                    placeholders[key] = message
            if fault:
                faulty.add(key)
                findings.append(place.build_error((field, escape_secret_key(key)), fault))
    return SecretObject(meta, place, data, frozenset(faulty), placeholders)


def _with_string_data(place: Place, value: dict[str, Any]) -> Place:
    """Return the place that finds a key under `data` also where the file has it under `stringData`."""
    texts = value.get("stringData")
    if not isinstance(texts, dict):
        return place

    def locate(path: Path) -> tuple[int, int]:
        moved = len(path) > 1 and path[0] == "data" and path[1] in texts
        return place.locate(("stringData", *path[1:]) if moved else path)

    return Place(place.file, place.object, locate)


def _decode_base64(encoded: str) -> bytes | None:
    try:
        return binascii.a2b_base64("".join(encoded.split()), strict_mode=True)
    except ValueError:
        return None


def decode_string(encoded: str) -> str | None:
    """Decode a value of a Secret's `data`; return None if it is not base64 or not text."""
    raw = _decode_base64(encoded)
    text = _to_secret(raw) if raw is not None else None
    return text.reveal() if text is not None else None


def _to_secret(raw: bytes) -> Secret | None:
    """Return the value as text; None for binary values such as key stores, which Transom does not read."""
    try:
        return Secret(raw.decode())
    except UnicodeDecodeError:
        return None


def read_config_map(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> ConfigMap:
    """Read a ConfigMap; of `binaryData` only the keys."""
    if is_encrypted(value):
        return ConfigMap(meta, place, encrypted=True)
    data, binary = value.get("data"), value.get("binaryData")
    read = {} if data is None else decoder.read(data, dict[str, str], ("data",))
    return ConfigMap(meta, place, {} if read is INVALID else read, frozenset(binary if isinstance(binary, dict) else ()))


def read_kubeadm_config(source: ConfigMap, findings: list[Finding]) -> KubeadmConfig:
    """Read the cluster's networks from kubeadm's configuration (kubeadm-config.v1beta3 and v1beta4, ClusterConfiguration)."""
    networking = get_value_at(_parse_yaml_key(source, "ClusterConfiguration", findings), ("networking",))
    decoder = Decoder(source.place, findings, strict=False)
    subnets = [read_string(networking, (name,), decoder) for name in ("podSubnet", "serviceSubnet", "dnsDomain")]
    return KubeadmConfig(source.place, *subnets)


def read_cluster_info(source: ConfigMap, findings: list[Finding]) -> ClusterInfo:
    """Read the server of the kubeconfig that kubeadm publishes for joining nodes."""
    clusters = get_value_at(_parse_yaml_key(source, "kubeconfig", findings), ("clusters",))
    first = clusters[0] if isinstance(clusters, list) and clusters else None
    server = get_value_at(first, ("cluster", "server"))
    return ClusterInfo(source.place, server if isinstance(server, str) else None)


def _parse_yaml_key(source: ConfigMap, key: str, findings: list[Finding]) -> Any:
    """Parse the YAML in a key of a ConfigMap."""
    if key not in source.data:
        findings.append(source.place.build_warning(("data", key), "the key is missing: nothing of it is known"))
        return None
    try:
        return parse_value(source.data[key])
    except InvalidText as error:
        where = f" (its line {error.line})" if error.line else ""
        findings.append(source.place.build_warning(("data", key), f"{error.reason}{where}: nothing of it is known"))
        return None
