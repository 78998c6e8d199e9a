"""Whose turn it is: the operator's hosts, each change to them a rollout of its own, and what people are told of it."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final

import structlog

from transom.controllers.conditions import Verdict
from transom.controllers.reports import Reports
from transom.controllers.settings import Cluster
from transom.controllers.windows.hosts import Target
from transom.controllers.windows.rollout import change_of, stopped, verdict
from transom.hosts.passes import PassResult
from transom.kube.errors import ApiError
from transom.kube.lease import LeaseLost
from transom.kube.store import Name
from transom.proxy.layers import BASE
from transom.windows.rollout import Rollout
from transom.windows.rollout import Verdict as Outcome

_log: Final = structlog.get_logger("transom.rollout")
_CONDITION: Final = "RolloutHalted"


class _Change:
    """One change to the hosts of one cluster."""

    def __init__(self, what: Hashable, hosts: int) -> None:
        self.what = what
        self.rollout = Rollout(hosts)
        self.differs = False
        """Whether a host was found that has to be changed: the others will have to, too."""
        self.reading: set[Name] = set()
        """Hosts that are connected to, and may yet turn out to need the change."""
        self.waiting: dict[Name, None] = {}
        self.asked: set[Name] = set()
        """Hosts that were asked for after they had waited."""


class Rollouts:
    """Asked before a host is connected to and before it is changed; told what became of it."""

    def __init__(self, hosts: Callable[[Cluster], int], ask: Callable[[Name], None], reports: Reports) -> None:
        """`hosts` counts those of a cluster; `ask` puts one that has waited into the queue again."""
        self._hosts, self._ask, self._reports = hosts, ask, reports
        self._changes: dict[Cluster, _Change] = {}
        self._halted: dict[Cluster, str] = {}
        self._listening: set[asyncio.Future[None]] = set()

    def may_connect(self, key: Name, target: Target) -> bool:
        """Whether a host that is not known to be right may be read now; if not, it waits, and is asked for again."""
        change = self._change(target)
        if change.differs and not change.rollout.admits(target.instance.name):
            change.waiting[key] = None
            return False
        if change.differs and len(change.reading) >= change.rollout.slots:
            change.waiting[key] = None
            return False
        change.reading.add(key)
        return True

    def admit(self, key: Name, target: Target) -> bool:
        """Whether the host may be changed now."""
        change = self._change(target)
        change.differs = True
        change.reading.discard(key)
        if not change.rollout.admits(target.instance.name):
            change.waiting[key] = None
            return False
        change.rollout = change.rollout.begin(target.instance.name)
        return True

    def came_out(self, key: Name, target: Target, found: PassResult, heard: Coroutine[Any, Any, bool] | None = None) -> None:
        """What became of a host; it counts as well when `heard` says so of its Node. Those whose turn it is are asked for."""
        change = self._change(target)
        change.reading.discard(key)
        outcome = verdict(target.egress, found)
        if heard is not None and outcome == "passed":
            task = asyncio.ensure_future(self._listen(change, target, heard))
            self._listening.add(task)
            task.add_done_callback(self._listening.discard)
            return
        if heard is not None:
            heard.close()
        if not found.waiting:
            change.rollout = change.rollout.come_out(target.instance.name, outcome)
        self._next(change)
        self._report(target.instance.cluster, change)

    async def _listen(self, change: _Change, target: Target, heard: Coroutine[Any, Any, bool]) -> None:
        outcome: Outcome = "left"
        try:
            outcome = "passed" if await heard else "failed"
        except (ApiError, LeaseLost) as error:
            _log.warning("nothing is known of a Node since its kubelet was restarted", error=str(error))
        change.rollout = change.rollout.come_out(target.instance.name, outcome)
        self._next(change)
        if self._changes.get(target.instance.cluster) is change:
            self._report(target.instance.cluster, change)

    def done(self, key: Name) -> None:
        """The key was worked on, and be it that its host is gone: the turn that it had goes to the next one."""
        for change in self._changes.values():
            if key in change.asked:
                change.asked.discard(key)
                if change.rollout.stage != "halted":
                    self._next(change)

    def stopped(self, target: Target) -> str | None:
        """Why the host is not changed any more; None where it will be."""
        change = self._change(target)
        waits = change.rollout.stage == "halted" and not change.rollout.admits(target.instance.name)
        return stopped(change.rollout) if waits else None

    def _change(self, target: Target) -> _Change:
        cluster, what = target.instance.cluster, change_of(target.egress)
        held = self._changes.get(cluster)
        if held is None or held.what != what:
            held = self._changes[cluster] = _Change(what, self._hosts(cluster))
            self._report(cluster, held)
        return held

    def _next(self, change: _Change) -> None:
        stage = change.rollout.stage
        free = change.rollout.slots - len(change.reading) if stage != "halted" else 0
        # who waits when a rollout is halted is told so, once
        asked = list(change.waiting)[: None if stage in ("all", "halted") else max(0, int(free))]
        for key in asked:
            del change.waiting[key]
            change.asked.add(key)
            self._ask(key)

    def _report(self, cluster: Cluster, change: _Change) -> None:
        before = dict(self._halted)
        if change.rollout.stage == "halted":
            where = "" if cluster is None else f" of Cluster {'/'.join(cluster)}"
            failed = ", ".join(change.rollout.failed)
            self._halted[cluster] = (
                f"{len(change.rollout.failed)} hosts{where} failed with these settings ({failed}); "
                f"{len(change.rollout.passed)} are well. No further host is changed: edit the settings to go on"
            )
        else:
            self._halted.pop(cluster, None)
        if self._halted:
            said = Verdict("True", "TwoFailures", "; ".join(self._halted.values()))
        elif before:
            said = Verdict("False", "NotHalted", "the rollout goes on")
        else:
            return
        self._reports.put("rollout", {BASE: {_CONDITION: said}})
