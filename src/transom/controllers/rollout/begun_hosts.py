"""Which hosts were begun in rollouts in which each host counts, in one object, so that the next leader takes no further ones.

ConfigMap `transom-rollouts` in Transom's namespace has a key for each change that is under way, named as in a mark. Its value
has a word for each host that was begun: the name of the host and, after an `@`, the last heartbeat of its kubelet. What the
status of a host says of the change is newer than what this says of it.
"""

import asyncio
import time
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import datetime
from typing import Final, Protocol

from transom.capi.identity import MANAGED_BY, TRANSOM
from transom.controllers.runtime.conditions import moment
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.kube import Conflict, NotFound
from transom.kube.objects import Whole
from transom.kube.resources import CONFIG_MAPS
from transom.windows.nodes.rollout import ROLLOUTS

Begun = Mapping[str, datetime | None]
"""Hosts that were begun, with what their kubelets had last said before."""


class Beginner(Protocol):
    """Begins hosts."""

    def begun(self) -> Iterable[tuple[str, Begun]]:
        """The changes that are under way, as `kind.name`, and their hosts that the next leader has to know."""
        ...

    def forget(self) -> None:
        """Begin with what the objects say: another process may have led meanwhile."""
        ...


PAUSE: Final = 0.5
"""Seconds between two requests at least: hosts that begin meanwhile share the second one."""


class BegunHosts:
    """Written before a host is begun. Those that begin at about the same time share one request."""

    def __init__(self, informers: Informers, pause: float = PAUSE) -> None:
        self._informers, self._pause = informers, pause
        self._next = 0.0
        """When a request may be sent again (time.monotonic)."""
        self._beginners: list[Beginner] = []
        self._told: dict[str, Begun] | None = None
        """What stands in the object, without what holds no longer; None: as the store has it."""
        self._version: str | None = None
        self._writing = asyncio.Lock()

    def follow(self, beginner: Beginner) -> None:
        """Have the hosts written that this one begins, too."""
        self._beginners.append(beginner)

    def of(self, change: str) -> Begun:
        """The hosts that were begun with a change, by this process or one before it."""
        return self._known().get(change, {})

    def drop(self, changes: Callable[[str], bool], hosts: Container[str]) -> None:
        """These hosts have another change now than those: what a process before this one began of them does not hold."""
        for change, begun in self._known().items():
            if changes(change):
                self._known()[change] = {host: beat for host, beat in begun.items() if host not in hosts}

    def forget(self) -> None:
        """This process leads from now on: another one may have led before, and have written since."""
        self._told = self._version = None
        for beginner in self._beginners:
            beginner.forget()

    async def note(self, leadership: Leadership) -> None:
        """Have everything that is under way written, unless it is. Raises ApiError, and LeaseLost where another leads.

        What a process before this one has begun stays until the rollout is known here.
        """
        async with self._writing:
            if self._begun() == self._known():
                return
            if (wait := self._next - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            found = self._begun()
            self._version = await self._write({change: _written(begun) for change, begun in found.items()}, leadership)
            self._told, self._next = found, time.monotonic() + self._pause

    def _begun(self) -> dict[str, Begun]:
        listed: dict[str, Begun] = {}
        for change, begun in (one for beginner in self._beginners for one in beginner.begun()):
            # clusters with the same settings have rollouts of their own
            listed[change] = {**listed.get(change, {}), **begun}
        return {change: begun for change, begun in {**self._known(), **listed}.items() if change and begun}

    def _known(self) -> dict[str, Begun]:
        if self._told is None:
            cached = self._cached()
            data = (cached.value.get("data") or {}) if cached is not None else {}
            self._told = {change: dict(_read(word) for word in text.split()) for change, text in data.items()}
        return self._told

    def _cached(self) -> Whole | None:
        return self._informers.config_maps.snapshot().named(ROLLOUTS, self._informers.namespace)

    async def _write(self, data: Mapping[str, str], leadership: Leadership) -> str | None:
        """Gives the version that stands then. What a process sent that leads no longer replaces nothing of the next one's."""
        version = self._version
        if version is None and (cached := self._cached()) is not None:
            version = cached.metadata.resource_version
        namespace = self._informers.namespace
        metadata = {"name": ROLLOUTS, "namespace": namespace, "labels": {MANAGED_BY: TRANSOM}}
        value = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": metadata, "data": data}
        try:
            if version is None:
                stored = await leadership.client.create(CONFIG_MAPS, value, namespace)
            else:
                value["metadata"] = metadata | {"resourceVersion": version}
                stored = await leadership.client.replace(CONFIG_MAPS, value, ROLLOUTS, namespace)
        except (Conflict, NotFound):
            # what stands now comes with the watch; until then no host is begun
            self._told = self._version = None
            raise
        return stored.metadata.resource_version


def _written(begun: Begun) -> str:
    return " ".join(f"{host}@{beat.isoformat()}" if beat is not None else host for host, beat in sorted(begun.items()))


def _read(word: str) -> tuple[str, datetime | None]:
    host, _, beat = word.partition("@")
    return host, moment(beat)
