"""`transom status --wait`: until everything, or what was named, is as the settings ask for."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from transom import __version__
from transom.cli.cluster import describe_server
from transom.cli.messages import print_to_stderr
from transom.cli.observation import ListQuery, build_observed, run_queries
from transom.cli.tables import format_names
from transom.common.counting import format_first
from transom.diagnosis.overview import Overview, build_overview
from transom.diagnosis.snapshot import ClusterSnapshot
from transom.diagnosis.unready_items import (
    Part,
    UnreadyItem,
    WaitCriteria,
    explain_halt,
    find_unready,
    list_unread_parts,
    list_waited_hosts,
)
from transom.kube.client import Client
from transom.kube.errors import ConnectionFailed, StatusError
from transom.pods.outdated_pods import OutdatedWorkload
from transom.sources.api_server import DefinitionsMissing, HashKeyUnread, list_outdated_pods
from transom.sources.objects import Objects

_STEP: Final = 2.0
"""Seconds between two looks. Two in a row have to find nothing missing: an edited Secret or ConfigMap has no generation."""
_HALTED: Final = 10.0
"""Seconds after which a halted rollout ends the wait: a rollout that was just resumed stays halted for a moment."""
_SUMMARY: Final = 15.0
"""Seconds after which it is said again what is waited for."""
_LISTED: Final = 10


class WaitResult(msgspec.Struct, frozen=True):
    """How a wait has ended: with the last status, what was missing then, and why it ended where that was not the time."""

    status: Overview | None
    missing: tuple[UnreadyItem, ...]
    why: str = ""
    stopped: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether nothing is missing."""
        return self.status is not None and not self.missing and not self.stopped and not self.why


class StatusWait:
    """Looks at a cluster until nothing that is `wanted` is missing."""

    def __init__(self, client: Client, queries: Sequence[ListQuery], namespace: str, wanted: WaitCriteria) -> None:
        self._client, self._asked, self._namespace, self._wanted = client, queries, namespace, wanted
        self._status: Overview | None = None
        self._missing: tuple[UnreadyItem, ...] = ()
        self._unread = ""
        self._known: dict[str, None] = {}
        self._announced: set[str] | None = None
        """What was ready at the last look, hosts and what was missing before; None before the first one."""

    async def run(self, seconds: float) -> WaitResult:
        """Wait for `seconds` at most. Raises ApiError where the cluster cannot be looked at to begin with."""
        clock = asyncio.get_running_loop().time
        deadline, summary = clock() + seconds, clock() + _SUMMARY
        halted: float | None = None
        well = 0
        try:
            while True:
                problem, why = "", ""
                try:
                    why = await self._update_status()
                    well = 0 if self._missing else well + 1
                except (ConnectionFailed, StatusError) as error:
                    if self._announced is None:
                        raise
                    problem, well = str(error), 0
                if self._unread:
                    return self._build_result(self._unread)
                if well > 1:
                    return self._build_result()
                halted = (halted or clock()) if why else None
                if halted is not None and clock() - halted >= _HALTED:
                    return self._build_result(f"the rollout is halted: {why}")
                if clock() >= deadline:
                    return self._build_result(problem or f"not ready after {seconds:g} s")
                if clock() >= summary:
                    summary = clock() + _SUMMARY
                    print_to_stderr(f"transom: {problem or describe_missing(self._missing)}")
                await asyncio.sleep(_STEP)
        except asyncio.CancelledError:
            return WaitResult(self._status, self._missing, stopped=True)

    def _build_result(self, why: str = "") -> WaitResult:
        return WaitResult(self._status, self._missing, why)

    async def _update_status(self) -> str:
        """Read what there is. Returns why a rollout is halted, where something is missing. Raises ApiError."""
        cluster_answers = await run_queries(self._client, self._asked)
        if cluster_answers.undefined:
            raise DefinitionsMissing(cluster_answers.undefined, Objects())
        now = datetime.now(UTC)
        seen = build_observed(cluster_answers, describe_server(self._client.connection), self._namespace, now)
        unread = [f"{part}: {_format_reasons(seen)}" for part in list_unread_parts(seen, self._wanted.parts)]
        pods: tuple[OutdatedWorkload, ...] | None = None
        if Part.PODS in self._wanted.parts:
            try:
                pods = tuple(await list_outdated_pods(self._client, self._namespace, now))
            except (StatusError, HashKeyUnread) as error:
                unread.append(f"{Part.PODS}: {error}")
        self._unread = f"could not be read: {'; '.join(unread)}" if unread else ""
        self._status = build_overview(seen, pods, version=__version__)
        self._missing = find_unready(seen, self._status, self._wanted, pods)
        self._print_newly_ready(seen)
        return explain_halt(seen) if self._missing else ""

    def _print_newly_ready(self, snapshot: ClusterSnapshot) -> None:
        """Print a line for each host, and each other object that was missing, that is ready since the last look."""
        waits = {item.display_name for item in self._missing}
        hosts = list_waited_hosts(snapshot, self._wanted.patterns) if Part.HOSTS in self._wanted.parts else []
        self._known = {**self._known, **dict.fromkeys((*hosts, *sorted(waits)))}
        ready = {name for name in self._known if name not in waits}
        if self._announced is None:
            if self._missing:
                print_to_stderr(f"transom: {describe_missing(self._missing)}")
        else:
            for name in (item for item in self._known if item in ready - self._announced):
                print_to_stderr(f"{name}: ready")
        self._announced = ready


def describe_missing(missing: Sequence[UnreadyItem]) -> str:
    """Return what is waited for, hosts with the same reason together."""
    groups: dict[tuple[Part, str], list[str]] = {}
    for item in missing:
        groups.setdefault((item.part, item.reason), []).append(item.display_name)
    parts = [f"{format_names(names, 3)} ({reason})" for (_, reason), names in groups.items()]
    return f"waiting for {format_first(parts, _LISTED)}"


def iter_missing_lines(missing: Sequence[UnreadyItem]) -> Iterator[str]:
    """Yield a line for each reason why something is missing, with what it is about."""
    groups: dict[tuple[Part, str], list[UnreadyItem]] = {}
    for entry in missing:
        groups.setdefault((entry.part, entry.detail), []).append(entry)
    for (_, detail), group in groups.items():
        yield f"{format_names([item.display_name for item in group])}: {detail}"


def _format_reasons(snapshot: ClusterSnapshot) -> str:
    return "; ".join(f"{item.what}: {item.why}" for item in snapshot.unread)
