"""Whose turn it is: the operator's hosts, each change to them a rollout of its own, and what people are told of it.

One piece of code for settings, payloads and SSH keys: a `RolloutSubject` says what makes a change another one. What has to be
known after this process stands in the status of the hosts (`marks`).
"""

import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from transom.apply.target import Target
from transom.apply.turns import Ask, Turns, stopped
from transom.controllers.rollout.begun_hosts import Begun, BegunHosts
from transom.controllers.rollout.marks import Mark
from transom.controllers.runtime.conditions import Condition, ConditionAggregator
from transom.kube.store import ObjectKey
from transom.proxy.layers import BASE
from transom.windows.nodes.rollout import HostResult, Rollout

CONDITION: Final = "RolloutHalted"
HOLD: Final = 1800.0
"""Seconds for which a host that was begun keeps its turn while somebody else holds it: longer than a pass can last."""
Group = Hashable
"""Hosts that get a change together: those of one cluster, or of one Secret with an SSH key."""
Digest = Callable[[str], Awaitable[str | None]]
"""The keyed hash of a text that may hold credentials. Raises ApiError."""


class RolloutSubject(msgspec.Struct, frozen=True):
    """What is rolled out: how changes are told apart, and how people are told of one that was stopped."""

    kind: str
    """In a mark; small letters."""
    text: Callable[[Target], str]
    """All that makes a change another one; it may hold credentials."""
    newest: Callable[[Target], str | None]
    """The same by what holds now, which may be newer than the target; None where that is not known."""
    group: Callable[[Target], Group]
    failed_with: Callable[[], str]
    way_out: str
    refutable: bool = False
    """Whether a host without egress speaks against the change, and not against that host."""
    prepared: bool = False
    """Whether a host that has begun is first brought to where it can be changed: drained."""


class RolloutMember(msgspec.Struct, frozen=True):
    """A host of a group, as its status speaks of it. `right`: it is known to have the change without having been changed."""

    name: str
    marks: tuple[Mark, ...] = ()
    right: bool = False


class Turn(NamedTuple):
    """What a rollout asks of whoever works on a host.

    `ask` has the host come again, `digest` gives keyed hashes, `note` writes down which hosts were begun, this one among them.
    The last two raise ApiError.
    """

    ask: Ask
    digest: Digest
    note: Callable[[], Awaitable[None]]


Members = Callable[[Group, str], Iterable[RolloutMember]]
"""The hosts of a group; the text is that of the change."""


class OpenRollout(Turns):
    """One rollout. A pass keeps the one that it was given, and asks and tells that one."""

    def __init__(
        self, subject: RolloutSubject, text: str, name: str | None, rollout: Rollout, told: Callable[[], None]
    ) -> None:
        super().__init__(rollout)
        self.subject, self.text = subject, text
        self.name = name
        """By which it is known again after a restart."""
        self.changed = set(rollout.failed) if subject.prepared else {*rollout.working, *rollout.failed}
        """Hosts on which the change was begun, and that have not passed: what they are now says how the change is."""
        self.beats: dict[str, datetime] = {}
        """The heartbeats of hosts from before their kubelets were restarted, until a later one is heard."""
        self._unwritten = set(rollout.working)
        """Hosts that were begun, and whose status does not say yet what came of it."""
        self._held: dict[str, float] = {}
        """Since when hosts that were begun are held by somebody else (time.monotonic)."""
        self._told = told

    def come_out(self, host: str, result: HostResult) -> None:
        """What became of a host. Those whose turn it is are asked for, and people are told."""
        if result == "refuted" and not self.subject.refutable:
            result = "failed"
        super().come_out(host, result)
        if host in self.rollout.failed:
            self.changed.add(host)
        else:
            self.changed.discard(host)
        if result == "passed":
            self.beats.pop(host, None)
        self._held.pop(host, None)
        self._told()

    @property
    def change(self) -> str:
        """The word for it among those of which hosts were begun; empty where no other process knows it."""
        return change_word(self.subject.kind, self.name)

    def begun(self, told: Begun) -> Begun:
        """Of which hosts the next leader has to know: all while each counts, and those that it was `told` of."""
        self._unwritten |= self.rollout.working
        # who was left as it was has nothing of the change
        begun = (host for host in self._unwritten if host in self.rollout.working or self.mark(host) is not None)
        return {host: self.beats.get(host) for host in begun if self.early or host in told}

    def end(self, host: str, told: Begun) -> bool:
        """The status of a host was written. Gives whether it says nothing of this rollout, though the next leader was told."""
        if host in self.rollout.working or host not in self._unwritten:
            return False
        self._unwritten.discard(host)
        return host in told and self.mark(host) is None

    @property
    def unwritten(self) -> bool:
        """Whether hosts were begun of which only this process knows what became."""
        return bool(self._unwritten or self.rollout.working)

    def waits_for(self, host: str) -> bool:
        """Whether a host that was begun, and is held by somebody else now, keeps its turn: no longer than a pass can last."""
        now = time.monotonic()
        return now - self._held.setdefault(host, now) < HOLD and host not in self.rollout.failed

    def owes(self, host: str) -> bool:
        """Whether nothing is known of a host yet, or only that an earlier process began it."""
        return host in self.rollout.working or not self.rollout.knows(host)

    def refusal(self, host: str) -> str | None:
        """Why the host is not changed any more; None where it will be."""
        return stopped(self.rollout) if self.halted and not self.rollout.admits(host) else None

    def mark(self, host: str) -> Mark | None:
        """What the status of a host has to say of it."""
        if self.name is None:
            return None
        rollout, kind, halted = self.rollout, self.subject.kind, host in self.rollout.stopped_by
        beat = self.beats.get(host)
        if host in rollout.failed:
            return Mark(kind, self.name, "refuted" if rollout.refuted and halted else "failed", halted, beat)
        if rollout.over and (host in rollout.passed or host in rollout.right):
            return Mark(kind, self.name, "over")
        if host in rollout.passed:
            return Mark(kind, self.name, "passed", halted, beat)
        return Mark(kind, self.name, "begun", halted, beat) if host in rollout.working else None


class Rollouts:
    """Asked before a host is connected to and before it is changed; told what became of it."""

    def __init__(
        self,
        subject: RolloutSubject,
        members: Members,
        reports: ConditionAggregator,
        begun: BegunHosts,
        resumed: Callable[[], str] = lambda: "",
    ) -> None:
        """`resumed` is the word by which a person last said that halted rollouts are to go on."""
        self.subject, self.begun_hosts = subject, begun
        self._members, self._reports, self._resumed = members, reports, resumed
        self._open: dict[Group, OpenRollout] = {}
        self._superseded: list[OpenRollout] = []
        """Those that have begun hosts of which nobody knows yet what became."""
        begun.follow(self)

    async def meet(self, target: Target, digest: Digest) -> OpenRollout:
        """The rollout of the change that a host is about to see, with what earlier processes learned of it. Raises ApiError.

        A target that was edited since it was read gets one that admits nobody.
        """
        subject, group = self.subject, self.subject.group(target)
        while True:
            text = self._text(subject.text(target))
            newest = subject.newest(target)
            cached = self._open.get(group)
            if newest is not None and self._text(newest) != text:
                return self._stale(text)
            if cached is not None and cached.text == text:
                return cached
            name = await digest(f"{subject.kind} {text}")
            if self._open.get(group) is cached and subject.newest(target) in (None, subject.text(target)):
                return self._begin(group, text, name)

    def known(self, target: Target) -> OpenRollout | None:
        """The rollout that is under way to the hosts of this one's group, where it is that of its change."""
        cached = self._open.get(self.subject.group(target))
        return cached if cached is not None and cached.text == self._text(self.subject.text(target)) else None

    def mark(self, target: Target) -> tuple[str, Mark | None] | None:
        """What the status of a host has to say of the rollout that is under way; None: as it was, nothing is known of it."""
        cached = self._open.get(self.subject.group(target))
        return (self.subject.kind, cached.mark(target.instance.name)) if cached is not None else None

    def leave(self, host: str) -> None:
        """The host is left alone, for whatever reason: nobody waits for what becomes of it."""
        for cached in self._open.values():
            if host in cached.rollout.working:
                cached.come_out(host, "left")

    def join(self, group: Group, host: str) -> None:
        """One host more is in a group."""
        if (cached := self._open.get(group)) is not None:
            cached.join(host)

    def drop(self, group: Group, host: str) -> None:
        """A host is in this group no longer."""
        if (cached := self._open.get(group)) is not None:
            cached.drop(host)
            self._report()

    def done(self, key: ObjectKey) -> None:
        """The key was worked on, even if its host is gone: the turn that it had goes to the next one."""
        for cached in self._open.values():
            cached.done(key.name)

    def begun(self) -> Iterator[tuple[str, Begun]]:
        """The hosts of each change, those of superseded ones among them, of which the next leader has to know."""
        for one in (*self._superseded, *self._open.values()):
            yield one.change, one.begun(self.begun_hosts.of(one.change))

    def forget(self) -> None:
        """Another process may have led meanwhile: what it learned stands in the objects."""
        opened, self._open, self._superseded = self._open, {}, []
        for one in opened.values():
            one.supersede()

    def end(self, host: str) -> bool:
        """The status of a host was written. Gives whether it stands among those that were begun, and was left as it was."""
        listed = (*self._superseded, *self._open.values())
        return True in [one.end(host, self.begun_hosts.of(one.change)) for one in listed]

    @property
    def halted(self) -> Mapping[Group, OpenRollout]:
        """The rollouts that are stopped."""
        return {group: one for group, one in self._open.items() if one.halted}

    @property
    def under_way(self) -> bool:
        """Whether a host is being changed, or waits for its turn."""
        return any(one.under_way for one in self._open.values())

    def _text(self, text: str) -> str:
        resumed = self._resumed()
        return f"{resumed}\n{text}" if resumed else text

    def _stale(self, text: str) -> OpenRollout:
        closed = OpenRollout(self.subject, text, None, Rollout(frozenset()), lambda: None)
        closed.supersede()
        return closed

    def _begin(self, group: Group, text: str, name: str | None) -> OpenRollout:
        before = self._open.get(group)
        members = tuple(self._members(group, text))
        kind = self.subject.kind
        rollout, beats = recalled(kind, name, members, self.begun_hosts.of(change_word(kind, name)))
        made = OpenRollout(self.subject, text, name, rollout, self._report)
        made.beats.update(beats)
        self._open[group] = made
        self._superseded = [one for one in self._superseded if one.unwritten or self.begun_hosts.of(one.change)]
        if before is not None:
            before.supersede()
            self._superseded.append(before)
        open_here = {one.change for one in (*self._superseded, *self._open.values())}
        self.begun_hosts.drop(
            lambda change: change.startswith(f"{kind}.") and change not in open_here, {one.name for one in members}
        )
        self._report()
        return made

    def _report(self) -> None:
        """Said also where it is not so: a process before this one may have said that it is."""
        halted = self.halted
        if not halted:
            condition = Condition("False", "NotHalted", "no rollout is stopped")
        else:
            reason = "EgressFails" if any(one.rollout.refuted for one in halted.values()) else "TwoFailures"
            condition = Condition("True", reason, "; ".join(self._told(group, one) for group, one in halted.items()))
        self._reports.put(f"rollout-{self.subject.kind}", {BASE: {CONDITION: condition}})

    def _told(self, group: Group, cached: OpenRollout) -> str:
        rollout, what = cached.rollout, self.subject.failed_with()
        where = _of(group)
        hosts = ", ".join(rollout.stopped_by)
        if rollout.refuted:
            said = f"the first host{where} has no egress with {what} ({hosts})"
        else:
            said = f"{len(rollout.stopped_by)} hosts{where} failed with {what} ({hosts}); {len(rollout.passed)} are healthy"
        return f"{said}. No further host is changed: {self.subject.way_out}, or annotate EgressProxy/{BASE} with {RESUME}"


RESUME: Final = "transom.dev/resume"
"""The annotation by which a person has halted rollouts go on: each new value does so once."""


def recalled(
    kind: str, name: str | None, members: Iterable[RolloutMember], begun: Begun = MappingProxyType({})
) -> tuple[Rollout, dict[str, datetime]]:
    """A rollout as the statuses of its hosts tell of it, and those of `begun`; and the heartbeats that are to be heard."""
    listed = tuple(members)
    marks = {one.name: mark for one in listed for mark in one.marks if (mark.kind, mark.change) == (kind, name)}
    for host, beat in begun.items():
        known = marks.get(host, Mark(kind, name or "", "begun"))
        marks[host] = msgspec.structs.replace(known, beat=beat or known.beat) if known.state != "over" else known
    failed = sorted(host for host, mark in marks.items() if mark.state in ("failed", "refuted"))
    passed = frozenset(host for host, mark in marks.items() if mark.state in ("passed", "over"))
    hosts = frozenset(one.name for one in listed)
    rollout = Rollout(
        hosts,
        working=frozenset(host for host, mark in marks.items() if mark.state == "begun"),
        passed=passed,
        right=frozenset(one.name for one in listed if one.right) - passed,
        failed=tuple(failed),
        stopped_by=tuple(sorted(host for host, mark in marks.items() if mark.halted)),
        refuted=any(mark.state == "refuted" for mark in marks.values()),
        over=any(mark.state == "over" for mark in marks.values()),
    )
    return rollout.among(hosts), {host: mark.beat for host, mark in marks.items() if mark.beat is not None}


def change_word(kind: str, name: str | None) -> str:
    """By which a change is known among those that are under way; empty for one without a name."""
    return f"{kind}.{name}" if name is not None else ""


def _of(group: Group) -> str:
    if group is None:
        return ""
    return f" of Cluster {'/'.join(group)}" if isinstance(group, tuple) else f" of Secret {group}"
