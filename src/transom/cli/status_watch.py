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
from transom.cli.cluster import add_context_option, describe_server
from transom.cli.observation import LEASES, ListQuery, read_kubernetes_version, run_queries
from transom.cli.output import get_columns, print_lines
from transom.cli.status_table import StyledLine, group_objects, iter_object_lines, iter_status_lines
from transom.cli.terminal import Terminal
from transom.common.escaping import escape_unprintable
from transom.diagnosis.overview import ObjectStatus, Overview, build_overview, find_leader
from transom.diagnosis.snapshot import OWN_KINDS, ClusterSnapshot, ReadFailure
from transom.kube.client import Client
from transom.kube.objects import UnstructuredObject
from transom.kube.reflector import Reflector
from transom.kube.store import Store
from transom.sources.api_server import DefinitionsMissing
from transom.sources.objects import Objects

_EVERY: Final = 2.0
"""Seconds between two looks at what has changed: a rollout changes hundreds of hosts in a second."""
_AGEING: Final = 10.0
"""Seconds after which an unchanged table is drawn again, because it shows ages."""
_LEASE: Final = 15.0
"""Seconds after which a lease that is not renewed can be taken by another process (`transom run`)."""
_FIRST: Final = 30.0
"""Seconds that a server has to answer the lists."""


class WatchedStatus:
    """The kinds that a status is made of, kept like the server."""

    def __init__(self, client: Client, queries: Sequence[ListQuery], namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._kinds = [(item, store := Store[UnstructuredObject](), self._create_reflector(item, store)) for item in queries]
        self._unread: tuple[ReadFailure, ...] = ()
        self._renewed: str | None = None
        self._renewed_at, self._began = 0.0, 0.0
        """By this machine's monotonic clock: when the lease was last seen to change, and when it was first seen."""
        self.changed = asyncio.Event()
        for entry, store, _ in self._kinds:
            # a lease is renewed all the time, and who holds it is looked at with everything else
            if entry.resource != LEASES:
                store.subscribe(self._signal_change)

    @property
    def reflectors(self) -> list[Reflector[UnstructuredObject]]:
        """What follows them."""
        return [reflector for _, _, reflector in self._kinds]

    async def wait_for_lists(self) -> None:
        """Wait for the lists. Raises ApiError where the server does not answer, or does not know Transom's kinds."""
        await read_kubernetes_version(self._client)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST):
                for reflector in self.reflectors:
                    await reflector.synced.wait()
        absent = [item for item, _, reflector in self._kinds if not reflector.present]
        # a kind that is not there and one that may not be read look the same to who follows it
        if absent:
            absent_answers = await run_queries(self._client, absent, required=len(absent) == len(self._kinds))
            if absent_answers.undefined:
                raise DefinitionsMissing(absent_answers.undefined, Objects())
            self._unread = absent_answers.unread

    def build_overview(self, now: datetime) -> Overview:
        """Build the overview of the current state."""
        known = {
            item.resource.kind: tuple(each.value for each in store.take_snapshot())
            for item, store, reflector in self._kinds
            if reflector.present or item.resource.kind in OWN_KINDS
        }
        seen = ClusterSnapshot(describe_server(self._client.connection), self._namespace, now, known, self._unread)
        return build_overview(msgspec.structs.replace(seen, lease_renewing=self._is_renewing(seen)), version=__version__)

    def _is_renewing(self, snapshot: ClusterSnapshot) -> bool | None:
        """Return whether the lease was renewed while this command followed it; None while that cannot be known yet."""
        who, now = find_leader(snapshot), time.monotonic()
        if who is None:
            return None
        if self._renewed is None:
            self._renewed, self._began, self._renewed_at = who.renewed or "", now, 0.0
        elif (who.renewed or "") != self._renewed:
            self._renewed, self._renewed_at = who.renewed or "", now
        if self._renewed_at:
            return now - self._renewed_at < _LEASE
        return False if now - self._began >= _LEASE else None

    def _create_reflector(self, query: ListQuery, store: Store[UnstructuredObject]) -> Reflector[UnstructuredObject]:
        return Reflector(
            self._client,
            query.resource,
            store,
            namespace=query.namespace,
            labels=query.labels,
            fields=query.fields,
            optional=True,
        )

    def _signal_change(self, *_: Any) -> None:
        self.changed.set()


async def watch_status(client: Client, queries: Sequence[ListQuery], namespace: str, context: str | None = None) -> None:
    """Until Ctrl-C; hints name the `context`. Raises ApiError where the cluster cannot be looked at to begin with."""
    followed = WatchedStatus(client, queries, namespace)
    tasks = [asyncio.ensure_future(reflector.run()) for reflector in followed.reflectors]
    try:
        await followed.wait_for_lists()
        await (_show_table(followed, context) if sys.stdout.isatty() else _print_lines(followed, context))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _show_table(followed: WatchedStatus, context: str | None) -> None:
    out = Terminal()
    with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            followed.changed.clear()
            now = datetime.now(UTC)
            drawn = list(
                iter_status_lines(
                    followed.build_overview(now), now, out.width, hint=lambda text: add_context_option(text, context)
                )
            )
            live.update(Group(*_fit_lines(drawn, out.height)), refresh=True)
            await asyncio.sleep(_EVERY)
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGEING - _EVERY):
                    await followed.changed.wait()


def _fit_lines(drawn: Sequence[StyledLine], height: int) -> list[Text]:
    """As many lines as a terminal has; the last says the time, and how many there was no room for."""
    room = max(height - 2, 1)
    left = len(drawn) - room
    more = f"; {left:,} more lines: enlarge the window, or -o json" if left > 0 else ""
    foot = StyledLine(f"{time.strftime('%H:%M:%S')} Ctrl-C ends{more}", "dim")
    return [Text(escape_unprintable(item.text), item.style, no_wrap=True, overflow="crop") for item in (*drawn[:room], foot)]


async def _print_lines(followed: WatchedStatus, context: str | None) -> None:
    shown: dict[tuple[str, str | None, str], ObjectStatus] = {}
    while True:
        followed.changed.clear()
        moment = datetime.now(UTC)
        now = {(obj.kind, obj.namespace, obj.name): obj for obj in followed.build_overview(moment).objects}
        clock = time.strftime("%H:%M:%S ")
        changed = [item for key, item in now.items() if key not in shown or _without_since(shown[key]) != _without_since(item)]
        told_rows = iter_object_lines(
            group_objects(changed), moment, get_columns(sys.stdout), clock, lambda text: add_context_option(text, context)
        )
        print_lines(*(line.text for line in told_rows))
        print_lines(*(f"{clock} {kind}/{name}: gone" for kind, _, name in sorted(shown.keys() - now.keys(), key=str)))
        sys.stdout.flush()
        shown = now
        await asyncio.sleep(_EVERY)
        await followed.changed.wait()


def _without_since(status: ObjectStatus) -> ObjectStatus:
    """Return the fields of an object whose change is printed."""
    return msgspec.structs.replace(status, since=None)
