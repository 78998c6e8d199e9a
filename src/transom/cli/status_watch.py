"""`transom status --watch`: each kind is listed once and then followed; a table on a terminal, else a line for each change."""

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from rich.console import Group
from rich.live import Live
from rich.text import Text

from transom import __version__
from transom.cli.cluster import place
from transom.cli.observation import LEASES, Asked, answers, kubernetes_version
from transom.cli.output import columns_of, print_lines
from transom.cli.status_table import Line, group, rows, screen
from transom.cli.terminal import Terminal
from transom.diagnosis import OWN_KINDS, Observed, Unread
from transom.diagnosis.overview import ObjectStatus, Overview, overview
from transom.kube.client import Client
from transom.kube.objects import Whole
from transom.kube.reflector import Reflector
from transom.kube.store import Store
from transom.shown import shown
from transom.sources.api_server import DefinitionsMissing
from transom.sources.objects import Objects

_EVERY: Final = 2.0
"""Seconds between two looks at what has changed: a rollout changes hundreds of hosts in a second."""
_AGEING: Final = 10.0
"""Seconds after which a table is drawn anew though nothing has changed: it says how long things are as they are."""
_FIRST: Final = 30.0
"""Seconds that a server has to answer the lists."""


class Followed:
    """The kinds that a status is made of, kept like the server."""

    def __init__(self, client: Client, asked: Sequence[Asked], namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._kinds = [(one, store := Store[Whole](), self._reflector(one, store)) for one in asked]
        self._unread: tuple[Unread, ...] = ()
        self.changed = asyncio.Event()
        for one, store, _ in self._kinds:
            # a lease is renewed all the time, and who holds it is looked at with everything else
            if one.resource != LEASES:
                store.subscribe(self._note)

    @property
    def reflectors(self) -> list[Reflector[Whole]]:
        """What follows them."""
        return [reflector for _, _, reflector in self._kinds]

    async def first(self) -> None:
        """Wait for the lists. Raises ApiError where the server does not answer, or does not know Transom's kinds."""
        await kubernetes_version(self._client)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST):
                for reflector in self.reflectors:
                    await reflector.synced.wait()
        absent = [one for one, _, reflector in self._kinds if not reflector.present]
        # a kind that is not there and one that may not be read look the same to who follows it
        if absent:
            found = await answers(self._client, absent, needed=len(absent) == len(self._kinds))
            if found.undefined:
                raise DefinitionsMissing(found.undefined, Objects())
            self._unread = found.unread

    def status(self, now: datetime) -> Overview:
        """What is where now."""
        known = {
            one.resource.kind: tuple(each.value for each in store.snapshot())
            for one, store, reflector in self._kinds
            if reflector.present or one.resource.kind in OWN_KINDS
        }
        seen = Observed(place(self._client.connection), self._namespace, now, known, self._unread)
        return overview(seen, version=__version__)

    def _reflector(self, asked: Asked, store: Store[Whole]) -> Reflector[Whole]:
        return Reflector(
            self._client,
            asked.resource,
            store,
            namespace=asked.namespace,
            labels=asked.labels,
            fields=asked.fields,
            optional=True,
        )

    def _note(self, *_: Any) -> None:
        self.changed.set()


async def follow(client: Client, asked: Sequence[Asked], namespace: str) -> None:
    """Until Ctrl-C. Raises ApiError where the cluster cannot be looked at to begin with."""
    followed = Followed(client, asked, namespace)
    tasks = [asyncio.ensure_future(reflector.run()) for reflector in followed.reflectors]
    try:
        await followed.first()
        await (_table(followed) if sys.stdout.isatty() else _lines(followed))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _table(followed: Followed) -> None:
    out = Terminal()
    with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            followed.changed.clear()
            now = datetime.now(UTC)
            drawn = list(screen(followed.status(now), now, out.width))
            live.update(Group(*_fitting(drawn, out.height)), refresh=True)
            await asyncio.sleep(_EVERY)
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGEING - _EVERY):
                    await followed.changed.wait()


def _fitting(drawn: Sequence[Line], height: int) -> list[Text]:
    """As many lines as a terminal has; the last says the time, and how many there was no room for."""
    room = max(height - 2, 1)
    left = len(drawn) - room
    more = f"; {left:,} more lines: enlarge the window, or -o json" if left > 0 else ""
    foot = Line(f"{time.strftime('%H:%M:%S')} Ctrl-C ends{more}", "dim")
    return [Text(shown(one.text), one.style, no_wrap=True, overflow="crop") for one in (*drawn[:room], foot)]


async def _lines(followed: Followed) -> None:
    told: dict[tuple[str, str | None, str], ObjectStatus] = {}
    while True:
        followed.changed.clear()
        moment = datetime.now(UTC)
        now = {(one.kind, one.namespace, one.name): one for one in followed.status(moment).objects}
        clock = time.strftime("%H:%M:%S ")
        changed = [one for key, one in now.items() if key not in told or _said(told[key]) != _said(one)]
        print_lines(*(line.text for line in rows(group(changed), moment, columns_of(sys.stdout), clock)))
        print_lines(*(f"{clock} {kind}/{name}: gone" for kind, _, name in sorted(told.keys() - now.keys(), key=str)))
        sys.stdout.flush()
        told = now
        await asyncio.sleep(_EVERY)
        await followed.changed.wait()


def _said(one: ObjectStatus) -> ObjectStatus:
    """What of an object is told when it changes."""
    return msgspec.structs.replace(one, since=None)
