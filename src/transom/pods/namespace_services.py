"""The short names by which pods call the Services of their own namespace, for NO_PROXY: `NAME` and `NAME.NAMESPACE`.

A resolver completes such a name, and clients of NO_PROXY do not. Most of them read an item also as a domain, and some as the
end of any name (apt, pip, gRPC for Node.js): a name that would exempt public hosts is left out.
"""

import importlib.resources
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

import msgspec

from transom.common.counting import format_first
from transom.pods.environment import NO, PodEgress, build_pair
from transom.proxy.no_proxy import ALL, MAX_LENGTH, split

EXTERNAL_NAME: Final = "ExternalName"
"""The type of Service whose name leads to a foreign host (kubernetes.io, "Service"): it keeps going to the proxy."""
MAX_CHARACTERS: Final = 8_192
"""Of the names in one list. A container has the list twice, and each process in it has a copy."""
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS-1035 label. Kubernetes can be set to accept names that begin with a digit: clients may take those for addresses."""
_SHOWN: Final = 5


class ShortNames(msgspec.Struct, frozen=True):
    """Items for NO_PROXY, in order; `public` are names that would exempt public hosts, `excess` those that have no room."""

    items: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    excess: tuple[str, ...] = ()

    def iter_warnings(self) -> Iterator[str]:
        """Yield what the creator of a pod must know: the names that are left out, and why."""
        if self.public:
            yield (
                f"NO_PROXY has no {format_first(self.public, _SHOWN)}: clients would send requests to public domains with this "
                "end past the proxy; call these Services by NAME.NAMESPACE.svc"
            )
        if self.excess:
            yield (
                f"NO_PROXY has no {format_first(self.excess, _SHOWN)}: the names of Services take {MAX_CHARACTERS:,} "
                "characters at most; call these Services by NAME.NAMESPACE.svc"
            )


def group_names(services: Mapping[tuple[str, str], str]) -> dict[str, list[str]]:
    """Return the names that can be in NO_PROXY, by namespace. `services`: as for `find_proxied_services`."""
    names: dict[str, list[str]] = {}
    for (namespace, name), external_name in services.items():
        if not external_name:
            names.setdefault(namespace, []).append(name)
    return names


def build_short_names(namespace: str, services: Iterable[str], no_proxy: str = "") -> ShortNames:
    """Build the items for the Services of a namespace; `no_proxy` is the list that they come after.

    The names alone come first, so that those have room that are used most.
    """
    existing = frozenset(split(no_proxy))
    names = sorted(name for name in services if _NAME.fullmatch(name))
    items: list[str] = []
    public: list[str] = []
    excess: list[str] = []
    room = min(MAX_CHARACTERS, MAX_LENGTH - len(no_proxy))
    for item in (*names, *(f"{name}.{namespace}" for name in names)):
        if item in existing:
            continue
        if is_public_suffix(item):
            public.append(item)
        elif len(item) + 1 > room:
            excess.append(item)
        else:
            room -= len(item) + 1
            items.append(item)
    return ShortNames(tuple(items), tuple(public), tuple(excess))


def is_public_suffix(item: str) -> bool:
    """Return True if names of the Internet end with an item, whether a client reads it as a domain or as the end of a name.

    `app` and `web.dev` are domains there, and `om` is the end of `.com`.
    """
    name, dot, parent = item.partition(".")
    domains = _read_top_level_domains()
    return f"\n{parent}\n" in domains if dot else f"{name}\n" in domains


def add_service_names(egress: PodEgress, namespace: str, services: Iterable[str]) -> PodEgress:
    """Return what pods of a namespace get of settings with `service_names`. Those without are returned unchanged.

    The digest stays: pods keep the list of their creation, and a new Service makes none of them older than the settings.
    """
    if not egress.service_names or egress.no_proxy in ("", ALL):
        return egress
    short = build_short_names(namespace, services, egress.no_proxy)
    pair = build_pair(NO, {"value": ",".join((egress.no_proxy, *short.items))})
    return msgspec.structs.replace(
        egress,
        pairs=tuple(pair if other.name == NO else other for other in egress.pairs),
        no_proxy_warnings=(*egress.no_proxy_warnings, *short.iter_warnings()),
    )


def with_missing_names_warning(egress: PodEgress, reason: str) -> PodEgress:
    """Return the settings for pods of whose Services not all are known, with the reason as a warning."""
    if not egress.service_names or egress.no_proxy in ("", ALL):
        return egress
    warning = f"NO_PROXY can lack names of Services: {reason}"
    return msgspec.structs.replace(egress, no_proxy_warnings=(*egress.no_proxy_warnings, warning))


@cache
def _read_top_level_domains() -> str:
    """Read the domains, each between two line breaks."""
    text = (importlib.resources.files("transom.pods") / "top_level_domains.txt").read_text("ascii")
    return "\n".join(("", *(line for line in text.splitlines() if not line.startswith("#")), ""))
