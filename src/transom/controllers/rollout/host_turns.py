"""A host's part in rollouts: admitted to one, judged by what a pass found and by its Node, and noted in its status."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import structlog

from transom.apply.roll_out import result_of
from transom.apply.target import Target
from transom.controllers.instance.view import InstanceView
from transom.controllers.rollout.begun_hosts import BegunHosts
from transom.controllers.rollout.heartbeats import Heartbeats
from transom.controllers.rollout.marks import CHANGES, written
from transom.controllers.rollout.rollouts import Digest, OpenRollout, Rollouts, Turn
from transom.controllers.runtime.cached import HostNode
from transom.controllers.runtime.conditions import Conditions
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.hash_key import HashKey
from transom.hosts.errors import Held, Overtaken, Superseded
from transom.hosts.passes import PassResult
from transom.kube import ApiError
from transom.kube.lease import LeaseLost
from transom.kube.queue import KeyQueue, Priority
from transom.kube.store import ObjectKey

_log: Final = structlog.get_logger("transom.rollout")
_AGAIN: Final = 30.0
"""Seconds until a Node is asked for again of which the API server said nothing."""
_MOMENT: Final = 5.0
"""Seconds in which a kubelet is mostly heard of after a pass: it reports as it starts, and the pass goes on meanwhile."""
Write = Callable[[InstanceView, Conditions, dict[str, str | None], Leadership], Awaitable[None]]


class HostTurns:
    """What the hosts of one controller ask their rollouts, and tell them.

    `node` is the Node of a case as it is now, `current` the case with its newest status.
    """

    def __init__(
        self,
        heartbeats: Heartbeats,
        queue: KeyQueue[ObjectKey],
        hash_key: HashKey,
        node: Callable[[InstanceView], HostNode | None],
        current: Callable[[InstanceView], InstanceView],
        write: Write,
        begun: BegunHosts,
    ) -> None:
        self._heartbeats, self._queue, self._hash_key, self._begun = heartbeats, queue, hash_key, begun
        self._node, self._current, self._write = node, current, write
        self.rollouts: list[Rollouts] = []
        """All that a host has a part in."""
        self._listening: dict[tuple[ObjectKey, OpenRollout], asyncio.Task[None]] = {}
        self._concluding: set[ObjectKey] = set()
        """Hosts whose pass is about to write their status."""
        self._beats: dict[ObjectKey, datetime | None] = {}
        """What the kubelets of hosts had last said when the script that changes them was run."""
        self._earlier: dict[ObjectKey, tuple[OpenRollout, datetime | None]] = {}
        """What was to be heard of a kubelet when its host was admitted."""

    @property
    def listening(self) -> list[asyncio.Task[None]]:
        """Those that wait for a kubelet to be heard of."""
        return list(self._listening.values())

    def of(self, case: InstanceView, leadership: Leadership) -> Turn:
        """What rollouts ask of a host."""
        key = case.cached.key
        # all others are still to be told that they wait, which those of the first tenth need not wait for
        return Turn(lambda: self._queue.add(key, Priority.TURN), self.digest(leadership), lambda: self._begun.note(leadership))

    def digest(self, leadership: Leadership) -> Digest:
        """Keyed hashes, the same in each process."""
        return lambda text: self._hash_key.digest(text, leadership)

    def marks(self, case: InstanceView, target: Target) -> str:
        """How far the changes to a host have come: who works after this process goes on from there."""
        known = (rollouts.mark(target) for rollouts in self.rollouts)
        return written(self._current(case).cached.live.changes, filter(None, known))

    def failed(self, target: Target) -> bool:
        """Whether the host has failed with a change that it is to have: it is tried again until it passes."""
        known = (rollouts.known(target) for rollouts in self.rollouts)
        return any(one is not None and target.instance.name in one.rollout.failed for one in known)

    async def admit(self, rollout: OpenRollout, case: InstanceView, target: Target, leadership: Leadership) -> bool:
        """Whether it is the host's turn to be changed; the next leader knows that it was begun. Raises ApiError."""
        name, turn = target.instance.name, self.of(case, leadership)
        owed = name in rollout.changed
        if not rollout.admit(name, turn.ask):
            return False
        try:
            if (beat := self.beat(case)) is not None:
                self._earlier[case.cached.key] = rollout, rollout.beats.get(name)
                rollout.beats[name] = beat
            if rollout.early:
                await turn.note()
                leadership.permit()
        except BaseException:
            if not owed:
                rollout.come_out(name, "left")
            raise
        if rollout.superseded and not owed:
            rollout.come_out(name, "left")
            return False
        return True

    def beat(self, case: InstanceView) -> datetime | None:
        """What the kubelet of a host has last said, by its own clock; None where there is none that is well."""
        node = self._node(case)
        return self._heartbeats.newest(node.metadata.name) if node is not None else None

    def begin(self, case: InstanceView) -> Callable[[], None]:
        """A pass begins: call what this gives right before the host is changed.

        That is as late as can be before the kubelet is stopped: its report from before must not count as one from after.
        """
        self._beats.pop(case.cached.key, None)
        self._earlier.pop(case.cached.key, None)

        def note() -> None:
            self._beats.setdefault(case.cached.key, self.beat(case))

        return note

    def before(self, case: InstanceView) -> datetime | None:
        """What the kubelet had last said when the host was last changed."""
        return self._beats.get(case.cached.key)

    def judge(
        self, rollout: OpenRollout, case: InstanceView, target: Target, found: PassResult, leadership: Leadership
    ) -> None:
        """Tell a rollout what became of a host, which counts once its Node was heard of after its kubelet was restarted."""
        key, name = case.cached.key, target.instance.name
        refused = isinstance(found.error, Held | Overtaken | Superseded)
        if refused or key not in self._beats:
            self._untouched(rollout, key)
        # one that was begun, by whomever, and has the change now
        owed = name in rollout.changed or (name in rollout.rollout.working and found.error is None)
        result = result_of(target.egress, found, begun=owed)
        if result == "left" and (owed or (refused and rollout.subject.prepared)):
            # an earlier pass has begun it, may be at it yet, and this one could not look
            if rollout.waits_for(name):
                rollout.read(name)
                return
            result = "failed" if owed else "left"
        if result == "passed" and found.begun:
            restarted = "kubelet" in map(str.casefold, found.restarted)
            if not restarted:
                rollout.beats.pop(name, None)
            elif (before := self.before(case)) is not None:
                rollout.beats[name] = before
        beat, node = rollout.beats.get(name), self._node(case)
        unheard = beat is None and node is not None and not node.is_ready
        if result == "passed" and unheard and name not in rollout.rollout.failed:
            # it has the change, and its kubelet could not be heard of before either: that proves nothing for others
            result = "right"
        if result != "passed" or beat is None or node is None:
            rollout.come_out(name, result)
            return
        rollout.changed.add(name)
        rollout.read(name)
        if (key, rollout) not in self._listening:
            listening = self._listen(rollout, case, target, node.metadata.name, beat, leadership)
            task = self._listening[key, rollout] = asyncio.create_task(listening)
            task.add_done_callback(lambda _: self._listening.pop((key, rollout), None))

    def judge_found(
        self, rollout: OpenRollout, case: InstanceView, target: Target, found: PassResult, leadership: Leadership
    ) -> None:
        """A host was found as the change asks, by a pass that was not made for the change: that proves nothing for others.

        One that was begun, and of which nobody has said yet what came of it, is judged, and so is one that has failed with it.
        """
        name = target.instance.name
        if name in rollout.changed or name in rollout.rollout.working:
            self.judge(rollout, case, target, found, leadership)
        else:
            rollout.come_out(name, "right")

    async def conclude(self, case: InstanceView) -> None:
        """The pass has ended, and will write the status: where others wait for the kubelet it does so a moment later.

        Then one write says both that the host has the change and that it was heard of. Other hosts are worked on meanwhile:
        the connection to this one has ended.
        """
        key = case.cached.key
        listening = [task for (host, rollout), task in self._listening.items() if host == key and rollout.early]
        if not listening:
            return
        self._concluding.add(key)
        try:
            with self._queue.resting():
                await asyncio.wait(listening, timeout=_MOMENT)
        finally:
            self._concluding.discard(key)

    async def end(self, key: ObjectKey, leadership: Leadership) -> None:
        """The status of a host was written: if it was left as it was, no other process takes it for begun. Raises ApiError."""
        if True in [rollouts.end(key.name) for rollouts in self.rollouts]:
            await self._begun.note(leadership)

    def _untouched(self, rollout: OpenRollout, key: ObjectKey) -> None:
        """Nothing was changed on a host that was admitted: what had to be heard of its kubelet before still has to be."""
        admitted, earlier = self._earlier.pop(key, (None, None))
        if admitted is not rollout:
            return
        rollout.beats.pop(key.name, None)
        if earlier is not None:
            rollout.beats[key.name] = earlier

    async def _listen(
        self,
        rollout: OpenRollout,
        case: InstanceView,
        target: Target,
        node: str,
        beat: datetime,
        leadership: Leadership,
    ) -> None:
        key, name = case.cached.key, target.instance.name
        try:
            heard = await self._heartbeats.heard_of(node, beat, leadership.client)
            early, known, over = rollout.early, name in rollout.rollout.failed, rollout.rollout.over
            rollout.come_out(name, "passed" if heard else "failed")
            if rollout.superseded:
                return
            if heard == known:
                # the status says so with its next pass; one that has failed is tried again from then on
                self._queue.add(key, Priority.RETRY)
            elif heard and key not in self._concluding and (early or rollout.halted or rollout.rollout.over != over):
                await self._note(case, target, leadership)
        except ApiError as error:
            _log.warning("nothing is known of a Node since its kubelet was restarted", error=str(error))
            self._queue.add(key, Priority.RETRY, after=_AGAIN)
        except LeaseLost:
            _log.info("the next leader goes on", instance=name)

    async def _note(self, case: InstanceView, target: Target, leadership: Leadership) -> None:
        await self._write(case, {}, {CHANGES: self.marks(case, target)}, leadership)
