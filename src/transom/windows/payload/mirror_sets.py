"""Registries as OpenShift's objects ask for them: ImageDigestMirrorSet and ImageTagMirrorSet (config.openshift.io/v1), and CAs.

containerd knows mirrors of whole registries alone. A source with a path is taken where the mirror's path ends with that path:
the registry as a whole can be sent there. What cannot be expressed is named, and costs nothing but itself.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.proxy.trust import Certificate, parse_bundle, pem
from transom.windows.payload.pull_secret import Logins
from transom.windows.payload.registries import ImageRegistry, Mirror

LISTS: Final = {"imageDigestMirrors": False, "imageTagMirrors": True}
"""The lists of the two kinds, each with whether its mirrors are asked for tags."""
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?"
_REGISTRY: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::[0-9]{{1,5}})?")
_PATH: Final = re.compile(r"[A-Za-z0-9._/-]*")


class Registries(msgspec.Struct, frozen=True):
    """The registries, and what containerd cannot be told."""

    registries: tuple[ImageRegistry, ...] = ()
    problems: tuple[str, ...] = ()


class _Mirrored:
    """What the sets ask of one registry."""

    def __init__(self) -> None:
        self.mirrors: dict[str, bool] = {}
        self.fallback = True


def registries(
    sets: Iterable[Mapping[str, Any]], logins: Logins | None = None, authorities: Mapping[str, str] | None = None
) -> Registries:
    """Of mirror sets in the order of their names. `authorities` are PEM texts by registry (`read_authorities`).

    A source that one of them says never to contact is not contacted. A mirror that one of them asks for tags is asked for them.
    """
    logins, authorities = logins or Logins(), authorities or {}
    asked: dict[str, _Mirrored] = {}
    problems: list[str] = list(logins.problems)
    for name, entry, resolve in _entries(sets):
        source = _place(str(entry.get("source", "")))
        if source is None:
            problems.append(f"{name}: source {entry.get('source')!r}: {_unsaid(str(entry.get('source', '')))}")
            continue
        registry, _, path = source.partition("/")
        wanted = asked.setdefault(registry, _Mirrored())
        wanted.fallback &= entry.get("mirrorSourcePolicy") != "NeverContactSource"
        mirrors = entry.get("mirrors")
        for text in map(str, mirrors if isinstance(mirrors, list) else ()):
            place = _place(text)
            if place is None:
                problems.append(f"{name}: mirror {text!r} of {source}: {_unsaid(text)}")
            elif (whole := _whole(place, path)) is None:
                problems.append(
                    f"{name}: {place} for {source}: containerd mirrors whole registries, and this does not end with /{path}"
                )
            else:
                wanted.mirrors[whole] = wanted.mirrors.get(whole, False) or resolve
    found = [
        ImageRegistry(
            registry,
            tuple(Mirror(place, resolve, logins.of(place)) for place, resolve in one.mirrors.items()),
            one.fallback,
            authorities.get(registry, ""),
        )
        for registry, one in asked.items()
        if one.mirrors or not one.fallback
    ]
    named = {one.name for one in found}
    found += [ImageRegistry(name, authorities=text) for name, text in sorted(authorities.items()) if name not in named]
    return Registries(tuple(found), tuple(problems))


def read_authorities(texts: Iterable[tuple[str, str, str]]) -> tuple[dict[str, str], tuple[str, ...]]:
    """PEM texts by registry, and what is wrong: from triples of where it stands, the registry, the PEM text.

    A registry's port is behind two dots, as a key of a ConfigMap has no colon (OpenShift, "additionalTrustedCA").
    """
    found: dict[str, dict[Certificate, None]] = {}
    problems: list[str] = []
    for where, key, text in texts:
        name = _colon(key)
        if not _REGISTRY.fullmatch(name):
            problems.append(f"{where}: {key!r} is no registry: write host, or host..port")
            continue
        bundle = parse_bundle(text)
        problems += [f"{where}: {key}: {one}" for one in bundle.problems if one.severity == "error"]
        if bundle.certificates:
            found.setdefault(name, {}).update(dict.fromkeys(bundle.certificates))
        elif not bundle.problems:
            problems.append(f"{where}: {key}: there is no certificate")
    return {name: pem(certificates) for name, certificates in found.items()}, tuple(problems)


def _entries(sets: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """The name of the set, the entry, and whether its mirrors are asked for tags."""
    for one in sorted(sets, key=lambda one: str(_at(one, "metadata", "name"))):
        for field, resolve in LISTS.items():
            entries = _at(one, "spec", field)
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, Mapping):
                    yield str(_at(one, "metadata", "name")), entry, resolve


def _place(text: str) -> str | None:
    """Host, port and path of what may be written as a URL; None where containerd cannot be told."""
    place = _SCHEME.sub("", text, count=1).strip("/")
    host, _, path = place.partition("/")
    return place if _REGISTRY.fullmatch(host) and _PATH.fullmatch(path) else None


def _unsaid(text: str) -> str:
    if "*" in text:
        return "containerd has no wildcards; name each registry"
    return "is no registry, such as quay.io/team or registry.corp.example:5000"


def _whole(place: str, path: str) -> str | None:
    """Where the whole registry is mirrored, if `path` of it is mirrored at `place`."""
    host, _, below = place.partition("/")
    if not path:
        return place
    if below == path:
        return host
    return f"{host}/{below.removesuffix('/' + path)}" if below.endswith("/" + path) else None


def _colon(key: str) -> str:
    host, dots, port = key.rpartition("..")
    return f"{host}:{port}" if dots else key


def _at(value: Any, *path: str) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
