"""Services that a container calls by a name which no client of NO_PROXY completes, so that the request goes to the proxy."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from transom.pods.environment import NO, PROXY_VARIABLES
from transom.proxy.no_proxy import ALL, split

_NAME: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOST: Final = re.compile(rf"{_NAME}(\.{_NAME})?")
_HOST_AND_PORT: Final = re.compile(rf"(?P<host>{_NAME}(\.{_NAME})?):(?P<port>[0-9]{{2,5}})")
_SCHEMES: Final = ("http", "https", "ws", "wss", "grpc")
_WORD: Final = re.compile(r"[\s,;=\"'`|()]+")
_LONGEST: Final = 8_192
"""Characters of one text that are looked at: a script of an argument can be of any length."""
NOT_HTTP: Final = frozenset(
    (
        *(22, 25, 53, 389, 465, 587, 636, 1433, 1521, 1883, 2181, 2379, 3306, 4222, 5432),
        *(5672, 6379, 9042, 9092, 11211, 26379, 27017),
    )
)
"""Ports of protocols whose clients read no HTTP proxy: SSH, mail, DNS, LDAP, databases, queues, caches, ZooKeeper, etcd."""


class ServiceReference(msgspec.Struct, frozen=True):
    """A container names a Service: `place` is `env NAME` or `args`, `name` is the host as the container writes it."""

    container: str
    place: str
    name: str
    namespace: str
    external_name: str = ""
    """The foreign host that a Service of type ExternalName leads to; empty for others."""

    @property
    def full_name(self) -> str:
        """The name to write: the shortest that NO_PROXY covers, or the foreign host, which the proxy can resolve."""
        return self.external_name or f"{self.name.partition('.')[0]}.{self.namespace}.svc"


def find_proxied_services(
    containers: Collection[Any], namespace: str, services: Mapping[tuple[str, str], str], no_proxy: str
) -> Iterator[ServiceReference]:
    """Yield what containers of a namespace name of the Services and NO_PROXY does not cover.

    `services` has the foreign host of each, or an empty string, by namespace and name.

    `containers` are objects in plain values; one with a proxy in its environment has its own NO_PROXY. A name counts with a
    scheme of HTTP or gRPC, or with a port that is none of `NOT_HTTP`: a word alone may be anything.
    """
    for container in containers:
        if not isinstance(container, Mapping):
            continue
        actual = _get_container_no_proxy(container, no_proxy)
        if actual is None or actual == ALL:
            continue
        covered = split(actual)
        reported: set[tuple[str, str]] = set()
        for place, text in _iter_strings(container):
            for host in _iter_hosts(text):
                name, _, where = host.partition(".")
                if (where or namespace, name) not in services or _is_covered(host, covered) or (place, host) in reported:
                    continue
                reported.add((place, host))
                external_name = services[where or namespace, name]
                yield ServiceReference(str(container.get("name", "")), place, host, where or namespace, external_name)


def _get_container_no_proxy(container: Mapping[str, Any], no_proxy: str) -> str | None:
    """Return NO_PROXY of a container, which is `no_proxy` where its environment has no proxy; None where it wants none."""
    own = {
        item.get("name"): item.get("value") if item.get("value") is not None else item.get("valueFrom")
        for item in _to_list(container.get("env"))
        if isinstance(item, Mapping) and item.get("name") in PROXY_VARIABLES
    }
    if not own:
        return no_proxy
    lists = [value for name, value in own.items() if str(name).upper() == NO]
    if not any(value for name, value in own.items() if str(name).upper() != NO):
        return None
    return next((value for value in lists if isinstance(value, str)), "")


def _iter_strings(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for field in ("command", "args"):
        for text in _to_list(container.get(field)):
            if isinstance(text, str):
                yield field, text[:_LONGEST]
    for variable in _to_list(container.get("env")):
        if not isinstance(variable, Mapping) or variable.get("name") in PROXY_VARIABLES:
            continue
        if isinstance(variable.get("value"), str):
            yield f"env {variable.get('name', '')}", variable["value"][:_LONGEST]


def _to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _iter_hosts(text: str) -> Iterator[str]:
    for word in _WORD.split(text):
        scheme, separator, _ = word.partition("://")
        if separator:
            if scheme.lower() in _SCHEMES and (host := _parse_host(word)) and _HOST.fullmatch(host):
                yield host
            continue
        match = _HOST_AND_PORT.match(word)
        if match and word[match.end() :][:1] in ("", "/") and int(match["port"]) not in NOT_HTTP:
            yield match["host"]


def _parse_host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _is_covered(host: str, items: Collection[str]) -> bool:
    """Return True if an item is the host or a domain above it, as all clients of names read it."""
    return any(host == item or host.endswith("." + item.lstrip(".")) for item in items if item)
