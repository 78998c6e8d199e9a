"""Registry mirrors as OpenShift's objects ask for them: ImageDigestMirrorSet and ImageTagMirrorSet (config.openshift.io/v1).

containerd knows mirrors of whole registries alone. A source with a path is taken where the mirror's path ends with that path:
the registry as a whole can be sent there. What cannot be said so is named.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from transom.proxy.secret import Secret
from transom.windows.mirrors import Mirror

LISTS = ("imageDigestMirrors", "imageTagMirrors")


class Mirrors(msgspec.Struct, frozen=True):
    """The mirrors by registry, and what containerd cannot be told."""

    mirrors: tuple[Mirror, ...] = ()
    problems: tuple[str, ...] = ()


def mirrors(sets: Iterable[Mapping[str, Any]], pull_secret: Secret | None = None) -> Mirrors:
    """Of mirror sets in the order of their names; `pull_secret` is a `.dockerconfigjson` with what the mirrors want."""
    places: dict[str, list[str]] = {}
    never: dict[str, bool] = {}
    problems: list[str] = []
    for one in sorted(sets, key=lambda one: str(_at(one, "metadata", "name"))):
        for entry in (entry for name in LISTS for entry in _at(one, "spec", name) or () if isinstance(entry, Mapping)):
            registry, _, path = str(entry.get("source", "")).partition("/")
            found = places.setdefault(registry, [])
            never[registry] = never.get(registry, True) and entry.get("mirrorSourcePolicy") == "NeverContactSource"
            for mirror in map(str, entry.get("mirrors") or ()):
                place = _place(mirror, path)
                if place is None:
                    problems.append(
                        f"{_at(one, 'metadata', 'name')}: {mirror} for {registry}/{path}: containerd mirrors registries"
                    )
                elif place not in found:
                    found.append(place)
    logins = credentials(pull_secret)
    return Mirrors(
        tuple(
            Mirror(
                registry,
                tuple(found),
                not never[registry],
                {one: logins[host] for one in found if (host := _host(one)) in logins},
            )
            for registry, found in places.items()
            if registry and found
        ),
        tuple(problems),
    )


def credentials(pull_secret: Secret | None) -> dict[str, Secret]:
    """`user:password` by host, of a `.dockerconfigjson`; none where it cannot be read."""
    try:
        auths = _at(json.loads(pull_secret.reveal()), "auths") if pull_secret else None
        return {
            _host(str(name)): Secret(base64.b64decode(str(_at(held, "auth")), validate=True).decode())
            for name, held in (auths or {}).items()
            if _at(held, "auth")
        }
    except (ValueError, AttributeError, binascii.Error):
        return {}


def _place(mirror: str, path: str) -> str | None:
    """Where the whole registry is mirrored, if `path` of it is mirrored at `mirror`."""
    host, _, below = mirror.partition("/")
    if not path:
        return mirror
    if below == path:
        return host
    return f"{host}/{below.removesuffix('/' + path)}" if below.endswith("/" + path) else None


def _host(place: str) -> str:
    return place.removeprefix("https://").partition("/")[0]


def _at(value: Any, *path: str) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
