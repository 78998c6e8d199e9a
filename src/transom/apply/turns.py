"""One rollout under way: whose turn it is to be read, and to be changed. `apply` and the operator ask the same."""

from collections.abc import Callable
from typing import Final

from transom.windows.nodes.rollout import EARLY, FAILURES, HostResult, Rollout, Stage

Ask = Callable[[], None]
"""Has a host that waited come again."""
PATIENCE: Final = 10.0
"""Seconds for which a host that is being read keeps others from being read (`overlook`): it may be silent for minutes."""


class Turns:
    """A rollout is an object: a pass keeps the one by which it was admitted, and reports to that one alone.

    Once another one is under way (`supersede`), this one admits nobody, and what it still hears changes nothing but itself.
    """

    def __init__(self, rollout: Rollout, *, first_alone: bool = False) -> None:
        """`first_alone`: until one host has been looked at the others wait, so that it is the canary where it differs."""
        self.rollout = rollout
        self.superseded = False
        self.differs = False
        """Whether a host was found that has to be changed: the others will have to, too."""
        self._looked = not first_alone
        self._reading: set[str] = set()
        """Hosts that are connected to, and may yet turn out to need the change."""
        self._waiting: dict[str, Ask] = {}
        self._asked: set[str] = set()
        """Hosts that were asked for after they had waited."""

    @property
    def stage(self) -> Stage:
        """Where the rollout stands."""
        return self.rollout.stage

    @property
    def early(self) -> bool:
        """Whether each host counts for others: what becomes of it must not be forgotten."""
        return self.stage in EARLY and len(self.rollout.hosts) > 1

    @property
    def halted(self) -> bool:
        """Whether no further host is changed."""
        return self.rollout.stage == "halted"

    @property
    def under_way(self) -> bool:
        """Whether a host is being changed, or waits for its turn."""
        return bool(self.rollout.working or self._waiting or self._asked) and not self.superseded

    def may_read(self, host: str, ask: Ask, *, differs: bool = False, due: bool = False) -> bool:
        """Whether a host may be read now; if not, it waits, and is asked for again.

        `differs`: it is known to have something else. `due`: it is time to look at it again, whatever became of the rollout.
        """
        if self.superseded:
            return False
        self.differs |= differs
        if not self._may_read(host, differs=differs, due=due):
            self._put_off(host, ask)
            return False
        self._reading.add(host)
        return True

    def _may_read(self, host: str, *, differs: bool, due: bool) -> bool:
        if not self._looked and self._reading:
            return False
        if not self.differs or self.rollout.knows(host):
            return True
        if self.halted:
            # to read a host harms nobody; one that is known to differ is told why it waits all the same
            return due or not differs
        return len(self._reading) < self.rollout.slots

    def admit(self, host: str, ask: Ask) -> bool:
        """Whether the host may be changed now: then it has begun. Without that it waits, and is asked for again."""
        self._reading.discard(host)
        if self.superseded:
            return False
        self.differs = self._looked = True
        if not self.rollout.admits(host):
            self._put_off(host, ask)
            return False
        self.rollout = self.rollout.begin(host)
        return True

    def resume(self, host: str) -> None:
        """The host was begun before, by another process or in vain: it goes on, whoever's turn it is."""
        self.differs = True
        self.rollout = self.rollout.resume(host)

    def read(self, host: str) -> None:
        """The host was looked at, and says nothing: it is not its turn, or it was left half way."""
        self._reading.discard(host)
        self._looked = True
        self._next()

    def overlook(self, host: str) -> None:
        """The host takes its time to be read: others do not wait for it any longer."""
        if host in self._reading:
            self._reading.discard(host)
            self._next()

    def come_out(self, host: str, result: HostResult) -> None:
        """What became of a host. Those whose turn it is are asked for."""
        self.rollout = self.rollout.come_out(host, result)
        self.read(host)

    def join(self, host: str) -> None:
        """One host more gets the change."""
        if host not in self.rollout.hosts:
            self.rollout = self.rollout.among(self.rollout.hosts | {host})

    def drop(self, host: str) -> None:
        """The host does not get the change any more: it does not count."""
        if host in self.rollout.hosts:
            self.rollout = self.rollout.among(self.rollout.hosts - {host})
            self._next()

    def done(self, host: str) -> None:
        """The host was worked on, even if it is gone: the turn that it had goes to the next one."""
        if host in self._asked:
            self._asked.discard(host)
            if not self.halted:
                self._next()

    def supersede(self) -> None:
        """Another rollout is under way: whoever waits here has to ask there."""
        self.superseded = True
        waiting, self._waiting = self._waiting, {}
        for ask in waiting.values():
            ask()

    def _put_off(self, host: str, ask: Ask) -> None:
        """Have the host asked for when it is its turn; there is none once the rollout is halted."""
        if not self.halted:
            self._waiting[host] = ask

    def _next(self) -> None:
        stage = self.stage
        free = self.rollout.slots - len(self._reading) if stage != "halted" else 0
        # who waits when a rollout is halted is told so, once
        everybody = stage in ("all", "halted") or not self.differs
        chosen = list(self._waiting)[: None if everybody else max(0, int(free))]
        for host in chosen:
            ask = self._waiting.pop(host)
            self._asked.add(host)
            ask()


REFUTED: Final = "not changed: the rollout stopped at its first host, which has no egress with these settings"


def stopped(rollout: Rollout) -> str:
    """Why a host is not changed any more, in a sentence."""
    hosts = ", ".join(rollout.stopped_by)
    return (
        f"{REFUTED} ({hosts})" if rollout.refuted else f"not changed: the rollout stopped after {FAILURES} failures ({hosts})"
    )
