"""The record of hosts in progress, so that the next leader starts no further ones.

ConfigMap `transom-rollouts` in Transom's namespace has a key for each open change. Its value has a word for each host that was
started: the host's name and, after an `@`, the last heartbeat of its kubelet. The status of a host is newer than this record.
"""

import asyncio
import time
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import datetime
from typing import Final, Protocol

from transom.capi.values.cluster_identity import MANAGED_BY, TRANSOM
from transom.common.timestamps import parse_timestamp
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.kube.errors import Conflict, NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS
from transom.rollout.markers import InFlight
from transom.rollout.state import CONFIG_MAP_NAME

_ABSENT: Final = ""
"""The version of an object that the server does not have."""
MIN_PAUSE: Final = 0.5
"""The least number of seconds between two requests: hosts that start meanwhile share the second one."""


class HostStarter(Protocol):
    """Starts hosts."""

    def iter_in_flight(self) -> Iterable[tuple[str, InFlight]]:
        """Yield each open change, as `kind.name`, with the hosts that the next leader must know."""
        ...

    def reset(self) -> None:
        """Forget everything: another process may have led meanwhile."""
        ...


class InFlightHosts:
    """Written before a host is started. Hosts that start at about the same time share one request."""

    def __init__(self, informers: Informers, pause: float = MIN_PAUSE) -> None:
        self._informers, self._pause = informers, pause
        self._next_request = 0.0
        """When a request may be sent again (time.monotonic)."""
        self._starters: list[HostStarter] = []
        self._recorded: dict[str, InFlight] | None = None
        """The content of the object without what no longer holds; None: as the store has it."""
        self._version: str | None = None
        self._lock = asyncio.Lock()

    def register(self, starter: HostStarter) -> None:
        """Record the hosts of this starter, too."""
        self._starters.append(starter)

    def get_hosts_for_change(self, change: str) -> InFlight:
        """Return the hosts that this process, or an earlier one, has started with a change."""
        return self._read_recorded().get(change, {})

    def forget_hosts(self, changes: Callable[[str], bool], hosts: Container[str]) -> None:
        """Forget hosts under the changes that `changes` selects: they have another change now."""
        recorded = self._read_recorded()
        for change, in_flight in recorded.items():
            if changes(change):
                recorded[change] = {host: heartbeat for host, heartbeat in in_flight.items() if host not in hosts}

    def reset(self) -> None:
        """Start as the new leader: another process may have led, and have written, meanwhile."""
        self._recorded = self._version = None
        for starter in self._starters:
            starter.reset()

    async def record_hosts(self, leadership: Leadership) -> None:
        """Write all hosts in progress, unless they are written. Raises ApiError, and LeaseLost if another process leads.

        What an earlier process has started stays until its rollout is open here.
        """
        async with self._lock:
            if self._list_in_flight() == self._read_recorded():
                return
            if (pause := self._next_request - time.monotonic()) > 0:
                await asyncio.sleep(pause)
            in_flight = self._list_in_flight()
            data = {change: _format_hosts(hosts) for change, hosts in in_flight.items()}
            self._version = await self._write(data, leadership)
            self._recorded, self._next_request = in_flight, time.monotonic() + self._pause

    def _list_in_flight(self) -> dict[str, InFlight]:
        listed: dict[str, InFlight] = {}
        for change, hosts in (pair for starter in self._starters for pair in starter.iter_in_flight()):
            # clusters with the same settings have rollouts of their own
            listed[change] = {**listed.get(change, {}), **hosts}
        return {change: hosts for change, hosts in {**self._read_recorded(), **listed}.items() if change and hosts}

    def _read_recorded(self) -> dict[str, InFlight]:
        if self._recorded is None:
            self._recorded = _parse_data(self._find_stored())
        return self._recorded

    def _find_stored(self) -> UnstructuredObject | None:
        return self._informers.config_maps.take_snapshot().find_named(CONFIG_MAP_NAME, self._informers.namespace)

    async def _write(self, data: Mapping[str, str], leadership: Leadership) -> str | None:
        """Write the object and return its version. A former leader's write replaces nothing of the next one's."""
        version = self._version
        if version is None and (stored := self._find_stored()) is not None:
            version = stored.metadata.resource_version
        namespace = self._informers.namespace
        metadata = {"name": CONFIG_MAP_NAME, "namespace": namespace, "labels": {MANAGED_BY: TRANSOM}}
        value = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": metadata, "data": data}
        try:
            if version in (None, _ABSENT):
                written = await leadership.client.create(CONFIG_MAPS, value, namespace)
            else:
                value["metadata"] = metadata | {"resourceVersion": version}
                written = await leadership.client.replace(CONFIG_MAPS, value, CONFIG_MAP_NAME, namespace)
        except (Conflict, NotFound):
            await self._read_again(leadership)
            raise
        return written.metadata.resource_version

    async def _read_again(self, leadership: Leadership) -> None:
        """Read the object from the server: the store can be behind it for long, and ahead of it after a restore of etcd."""
        self._recorded = self._version = None
        listing = await leadership.client.list_objects(
            CONFIG_MAPS, self._informers.namespace, fields=f"metadata.name={CONFIG_MAP_NAME}"
        )
        current = next(iter(listing.items), None)
        self._recorded = _parse_data(current)
        self._version = current.metadata.resource_version if current is not None else _ABSENT


def _parse_data(stored: UnstructuredObject | None) -> dict[str, InFlight]:
    data: Mapping[str, str] = (stored.value.get("data") or {}) if stored is not None else {}
    return {change: dict(_parse_host(word) for word in text.split()) for change, text in data.items()}


def _format_hosts(hosts: InFlight) -> str:
    words = (f"{host}@{heartbeat.isoformat()}" if heartbeat is not None else host for host, heartbeat in sorted(hosts.items()))
    return " ".join(words)


def _parse_host(word: str) -> tuple[str, datetime | None]:
    host, _, heartbeat = word.partition("@")
    return host, parse_timestamp(heartbeat)
