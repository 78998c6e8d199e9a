"""Whose turn it is: the operator's hosts, each change to them a rollout of its own, and what people are told of it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final

import msgspec
import structlog

from transom.controllers.conditions import Verdict
from transom.controllers.kept import HeldInstance
from transom.controllers.reports import Reports
from transom.controllers.settings import Cluster
from transom.controllers.watched import Watched, cluster_index
from transom.controllers.windows.hosts import Target
from transom.controllers.windows.rollout import change_of, change_text, stopped, verdict
from transom.hosts.passes import PassResult
from transom.kube.errors import ApiError
from transom.kube.lease import LeaseLost
from transom.kube.store import Name
from transom.proxy.layers import BASE
from transom.proxy.settings import Egress
from transom.windows.rollout import Rollout
from transom.windows.rollout import Verdict as Outcome

_log: Final = structlog.get_logger("transom.rollout")
_CONDITION: Final = "RolloutHalted"
_REFUTED: Final = ":refuted"
FAILED_CHANGES: Final = "failedChanges"
"""The field of an instance's status that names the changes with which the host failed."""
Digest = Callable[[str], Awaitable[str | None]]
"""The keyed hash of a text that may hold credentials. Raises ApiError."""
Recall = Callable[[Cluster, str], tuple[str, ...]]
"""The hosts of a cluster that are known to have failed with the change of this name, and with `_REFUTED` if that stopped it."""


class Subject(msgspec.Struct, frozen=True):
    """What is rolled out: how changes are told apart, and how people are told of one that was stopped."""

    name: str
    what: Callable[[Target], Hashable]
    text: Callable[[Target], str]
    """All that makes a change another one; it may hold credentials."""
    failed_with: Callable[[], str]
    way_out: str
    refutable: bool = False
    """Whether a host that does not get out speaks against the change, and not against that host."""


SETTINGS: Final = Subject(
    "rollout",
    lambda target: change_of(target.egress),
    lambda target: change_text(target.egress),
    lambda: "these settings",
    "edit the settings to go on",
    refutable=True,
)


class _Change:
    """One change to the hosts of one cluster."""

    def __init__(self, what: Hashable, hosts: int, name: str | None = None, known: tuple[str, ...] = ()) -> None:
        """`known` are the hosts that failed with it before this process."""
        self.what = what
        self.name = name
        """By which it is known again after a restart."""
        refuted = any(host.endswith(_REFUTED) for host in known)
        self.rollout = Rollout(hosts, failed=tuple(host.removesuffix(_REFUTED) for host in known), refuted=refuted)
        self.recalled = bool(known)
        """Whether an earlier process began it: hosts that this one has not read may have been changed."""
        self.differs = False
        """Whether a host was found that has to be changed: the others will have to, too."""
        self.reading: set[Name] = set()
        """Hosts that are connected to, and may yet turn out to need the change."""
        self.waiting: dict[Name, None] = {}
        self.asked: set[Name] = set()
        """Hosts that were asked for after they had waited."""


class Rollouts:
    """Asked before a host is connected to and before it is changed; told what became of it.

    What is remembered over a restart stands with the hosts that failed, in the field `FAILED_CHANGES`.
    """

    def __init__(
        self,
        hosts: Callable[[Cluster], int],
        reports: Reports,
        subject: Subject = SETTINGS,
        recall: Recall = lambda *_: (),
    ) -> None:
        """`hosts` counts those of a cluster."""
        self._hosts, self._reports, self._subject, self._recall = hosts, reports, subject, recall
        self._asking: list[Callable[[Name], None]] = []
        self._changes: dict[Cluster, _Change] = {}
        self._halted: dict[Cluster, str] = {}
        self._listening: set[asyncio.Future[None]] = set()

    def join(self, ask: Callable[[Name], None]) -> None:
        """Have hosts that have waited put into one's queue again; a key may be another's."""
        self._asking.append(ask)

    async def meet(self, target: Target, digest: Digest) -> None:
        """Get to know the change that a host is about to see, and what an earlier process learned of it. Raises ApiError."""
        cluster, what = target.instance.cluster, self._subject.what(target)
        held = self._changes.get(cluster)
        if held is None or held.what != what:
            name = await digest(f"{self._subject.name} {self._subject.text(target)}")
            if self._changes.get(cluster) is held:
                self._begin(cluster, _Change(what, self._hosts(cluster), name, self._recall(cluster, name) if name else ()))

    def may_connect(self, key: Name, target: Target, done: Egress | None = None, *, due: bool = False) -> bool:
        """Whether a host that is not known to be right may be read now; if not, it waits, and is asked for again.

        `done` is what the host was brought to before: where that is something else, hosts have to be changed. `due`: it is time
        to look at it again, also where a rollout was stopped before it came to it.
        """
        change = self._change(target)
        known_to_differ = done is not None and change_of(done) != change_of(target.egress)
        change.differs |= known_to_differ
        # to read a host harms nobody
        read_alone = change.rollout.stage == "halted" and (due or (change.recalled and not known_to_differ))
        full = len(change.reading) >= change.rollout.slots
        if change.differs and not read_alone and (full or not change.rollout.admits(target.instance.name)):
            self._put_off(change, key)
            return False
        change.reading.add(key)
        return True

    def admit(self, key: Name, target: Target) -> bool:
        """Whether the host may be changed now."""
        change = self._change(target)
        change.differs = True
        change.reading.discard(key)
        if not change.rollout.admits(target.instance.name):
            self._put_off(change, key)
            return False
        change.rollout = change.rollout.begin(target.instance.name)
        return True

    def resume(self, target: Target) -> None:
        """The host was begun before, by another process or in vain: it goes on, whoever's turn it is."""
        change = self._change(target)
        change.differs = True
        change.rollout = change.rollout.resume(target.instance.name)

    def leave(self, target: Target) -> None:
        """The host stays as it was, for now: the turn goes to the next one."""
        change = self._change(target)
        change.rollout = change.rollout.come_out(target.instance.name, "left")
        self._next(change)

    def drop(self, host: str) -> None:
        """The host is to go: nobody waits for what becomes of it."""
        for change in self._changes.values():
            if host in change.rollout.working:
                change.rollout = change.rollout.come_out(host, "left")
                self._next(change)

    def came_out(self, key: Name, target: Target, found: PassResult, heard: Coroutine[Any, Any, bool] | None = None) -> None:
        """What became of a host; it counts as well when `heard` says so of its Node. Those whose turn it is are asked for."""
        change = self._change(target)
        change.reading.discard(key)
        outcome = verdict(target.egress, found)
        if outcome == "refuted" and not self._subject.refutable:
            outcome = "failed"
        if heard is not None and outcome == "passed":
            task = asyncio.ensure_future(self._listen(key, change, target, heard))
            self._listening.add(task)
            task.add_done_callback(self._listening.discard)
            return
        if heard is not None:
            heard.close()
        if not found.waiting:
            change.rollout = change.rollout.come_out(target.instance.name, outcome)
        self._next(change)
        self._report(target.instance.cluster, change)

    async def _listen(self, key: Name, change: _Change, target: Target, heard: Coroutine[Any, Any, bool]) -> None:
        outcome: Outcome = "left"
        try:
            outcome = "passed" if await heard else "failed"
        except (ApiError, LeaseLost) as error:
            _log.warning("nothing is known of a Node since its kubelet was restarted", error=str(error))
        change.rollout = change.rollout.come_out(target.instance.name, outcome)
        self._next(change)
        if self._changes.get(target.instance.cluster) is change:
            self._report(target.instance.cluster, change)
        if outcome == "failed":
            # it is noted in the host's status with its next pass
            self._ask(key)

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

    def halted(self, target: Target) -> str | None:
        """Why no host is changed, those that failed included; None where the rollout goes on."""
        change = self._change(target)
        return stopped(change.rollout) if change.rollout.stage == "halted" else None

    def failed_change(self, target: Target) -> str | None:
        """The name of the change with which the host failed; None where it did not."""
        change = self._changes.get(target.instance.cluster)
        if change is None or change.name is None or target.instance.name not in change.rollout.failed:
            return None
        return change.name + (_REFUTED if change.rollout.refuted else "")

    def _ask(self, key: Name) -> None:
        for ask in self._asking:
            ask(key)

    def _change(self, target: Target) -> _Change:
        cluster, what = target.instance.cluster, self._subject.what(target)
        held = self._changes.get(cluster)
        if held is None or held.what != what:
            held = _Change(what, self._hosts(cluster))
            self._begin(cluster, held)
        return held

    @staticmethod
    def _put_off(change: _Change, key: Name) -> None:
        """Have the host asked for when it is its turn; there is none once the rollout is halted."""
        if change.rollout.stage != "halted":
            change.waiting[key] = None

    def _begin(self, cluster: Cluster, change: _Change) -> None:
        before = self._changes.get(cluster)
        self._changes[cluster] = change
        self._report(cluster, change)
        # a pass with the settings from before an edit may end after the new change was begun, and put it away
        for key in before.waiting if before is not None else ():
            self._ask(key)

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
            failed, what = ", ".join(change.rollout.failed), self._subject.failed_with()
            said = f"{len(change.rollout.failed)} hosts{where} failed with {what} ({failed})"
            said += f"; {len(change.rollout.passed)} are well"
            if change.rollout.refuted:
                said = f"the first host{where} does not get out with {what} ({failed})"
            self._halted[cluster] = f"{said}. No further host is changed: {self._subject.way_out}"
        else:
            self._halted.pop(cluster, None)
        if self._halted:
            reason = "EgressFails" if any(one.rollout.refuted for one in self._changes.values()) else "TwoFailures"
            verdict_ = Verdict("True", reason, "; ".join(self._halted.values()))
        elif before:
            verdict_ = Verdict("False", "NotHalted", "the rollout goes on")
        else:
            return
        self._reports.put(self._subject.name, {BASE: {_CONDITION: verdict_}})


def rollouts_of(watched: Watched, reports: Reports, subject: Subject = SETTINGS, lifecycle: str | None = None) -> Rollouts:
    """The rollouts to the instances that are seen, of one lifecycle or of all."""

    def of(cluster: Cluster) -> list[HeldInstance]:
        listed = watched.windows_instances.snapshot().by("cluster", cluster_index(cluster))
        return [held for held in listed if lifecycle is None or held.fields.get("lifecycle", "Egress") == lifecycle]

    def recall(cluster: Cluster, name: str) -> tuple[str, ...]:
        return tuple(
            held.metadata.name + failed.removeprefix(name)
            for held in of(cluster)
            for failed in str(held.live.get(FAILED_CHANGES, "")).split()
            if failed.removesuffix(_REFUTED) == name
        )

    return Rollouts(lambda cluster: len(of(cluster)), reports, subject, recall)
