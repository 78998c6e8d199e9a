"""Registries from OpenShift's objects: ImageDigestMirrorSet and ImageTagMirrorSet (config.openshift.io/v1), and CAs.

containerd knows mirrors of whole registries alone. A source with a path is taken where the mirror's path ends with that path:
the registry as a whole can be sent there. What cannot be expressed is named, and costs nothing but itself.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.proxy.trust import Certificate, format_pem, parse_bundle
from transom.windows.payload.pull_secret import Logins
from transom.windows.payload.registries import ImageRegistry, Mirror, get_registry_name

LISTS: Final = {"imageDigestMirrors": False, "imageTagMirrors": True}
"""The lists of the two kinds, each with whether its mirrors are asked for tags."""
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?"
_REGISTRY: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::[0-9]{{1,5}})?")
_PATH: Final = re.compile(r"[A-Za-z0-9._/-]*")


class Registries(msgspec.Struct, frozen=True):
    """The registries, and settings that containerd does not support."""

    registries: tuple[ImageRegistry, ...] = ()
    problems: tuple[str, ...] = ()


class _RegistryMirrors:
    """What the sets ask of one registry."""

    def __init__(self) -> None:
        self.mirrors: dict[str, bool] = {}
        self.fallback = True


def build_registries(
    sets: Iterable[Mapping[str, Any]], logins: Logins | None = None, authorities: Mapping[str, str] | None = None
) -> Registries:
    """Build the registries from mirror sets, in the order of their names.

    `authorities` are PEM texts by registry (`read_authorities`). A source is not contacted if a set has NeverContactSource
    for it. A mirror serves tags if a set requests it.
    """
    logins, authorities = logins or Logins(), authorities or {}
    mirrored_by_registry: dict[str, _RegistryMirrors] = {}
    problems: list[str] = list(logins.problems)
    for name, entry, resolve in _iter_entries(sets):
        source = _normalize_registry(str(entry.get("source", "")))
        if source is None:
            problems.append(
                f"{name}: source {entry.get('source')!r}: {_describe_unsupported_registry(str(entry.get('source', '')))}"
            )
            continue
        host, _, path = source.partition("/")
        registry = get_registry_name(host)
        wanted = mirrored_by_registry.setdefault(registry, _RegistryMirrors())
        wanted.fallback &= entry.get("mirrorSourcePolicy") != "NeverContactSource"
        mirrors = entry.get("mirrors")
        for text in map(str, mirrors if isinstance(mirrors, list) else ()):
            place = _normalize_registry(text)
            if place is None:
                problems.append(f"{name}: mirror {text!r} of {source}: {_describe_unsupported_registry(text)}")
            elif (whole := _find_registry_mirror(place, path)) is None:
                problems.append(
                    f"{name}: {place} for {source}: containerd mirrors whole registries, and this does not end with /{path}"
                )
            else:
                wanted.mirrors[whole] = wanted.mirrors.get(whole, False) or resolve
    image_registries = [
        ImageRegistry(
            registry,
            tuple(Mirror(place, resolve, logins.find_login(place)) for place, resolve in item.mirrors.items()),
            item.fallback,
            authorities.get(registry, ""),
        )
        for registry, item in mirrored_by_registry.items()
        if item.mirrors or not item.fallback
    ]
    named = {item.name for item in image_registries}
    image_registries += [
        ImageRegistry(name, authorities=text) for name, text in sorted(authorities.items()) if name not in named
    ]
    return Registries(tuple(image_registries), tuple(problems))


def read_authorities(texts: Iterable[tuple[str, str, str]]) -> tuple[dict[str, str], tuple[str, ...]]:
    """PEM texts by registry, and what is wrong: from triples of where it stands, the registry, the PEM text.

    A registry's port is behind two dots, as a key of a ConfigMap has no colon (OpenShift, "additionalTrustedCA").
    """
    certificates_by_registry: dict[str, dict[Certificate, None]] = {}
    problems: list[str] = []
    for where, key, text in texts:
        name = get_registry_name(_parse_registry_key(key))
        if not _REGISTRY.fullmatch(name):
            problems.append(f"{where}: {key!r} is not a registry: use host, or host..port")
            continue
        bundle = parse_bundle(text)
        problems += [f"{where}: {key}: {problem}" for problem in bundle.problems if problem.severity == "error"]
        if bundle.certificates:
            certificates_by_registry.setdefault(name, {}).update(dict.fromkeys(bundle.certificates))
        elif not bundle.problems:
            problems.append(f"{where}: {key}: no certificate found")
    return {name: format_pem(certificates) for name, certificates in certificates_by_registry.items()}, tuple(problems)


def _iter_entries(sets: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Yield the name of the set, the entry, and whether its mirrors serve tags."""
    for element in sorted(sets, key=lambda item: str(_get_path(item, "metadata", "name"))):
        for field, resolve in LISTS.items():
            entries = _get_path(element, "spec", field)
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, Mapping):
                    yield str(_get_path(element, "metadata", "name")), entry, resolve


def _normalize_registry(text: str) -> str | None:
    """Host, port and path of a registry, also if written as a URL; None if containerd does not support it."""
    place = _SCHEME.sub("", text, count=1).strip("/")
    host, _, path = place.partition("/")
    return place if _REGISTRY.fullmatch(host) and _PATH.fullmatch(path) else None


def _describe_unsupported_registry(text: str) -> str:
    if "*" in text:
        return "containerd has no wildcards; name each registry"
    return "is not a valid registry, such as quay.io/team or registry.corp.example:5000"


def _find_registry_mirror(place: str, path: str) -> str | None:
    """Return where the whole registry is mirrored, if its `path` is mirrored at `place`; otherwise None."""
    host, _, below = place.partition("/")
    if not path:
        return place
    if below == path:
        return host
    return f"{host}/{below.removesuffix('/' + path)}" if below.endswith("/" + path) else None


def _parse_registry_key(key: str) -> str:
    host, dots, port = key.rpartition("..")
    return f"{host}:{port}" if dots else key


def _get_path(value: Any, *path: str) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
