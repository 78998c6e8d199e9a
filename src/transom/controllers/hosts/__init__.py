"""Windows hosts: proxy, trust and the way back.

Each WindowsInstance is a key; a visit to its host, and what came of it in its status. The way of a key is the two lists of
stages of `HostReconciler`: what has to be so before a host is connected to, and the visit. A stage takes what is known, and
gives what is known then, or `Done`. What is done to a host is chosen by its lifecycle.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from transom.apply.target import SettingsMissing
from transom.controllers.hosts.removal import Removal
from transom.controllers.hosts.services import HostServices
from transom.controllers.hosts.triggers import Triggers
from transom.controllers.hosts.work import Done, HostLifecycle, Visit
from transom.controllers.instance import status
from transom.controllers.instance.view import InstanceView, refusal, regarding_of
from transom.controllers.instance.writes import has_finalizer
from transom.controllers.keys.key_rotation import Opened, by_former_keys
from transom.controllers.rollout.marks import CHANGES
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.runtime.cached import CachedInstance
from transom.controllers.runtime.conditions import PENDING, Condition, Conditions, Fields
from transom.controllers.runtime.controller import Leadership, Result
from transom.hosts import errors
from transom.hosts.errors import AuthenticationRefused
from transom.hosts.passes import PassResult
from transom.kube import ApiError
from transom.kube.lease import LeaseLost
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress
from transom.windows.host import ObservedState
from transom.windows.host.queries import LEDGER

_log: Final = structlog.get_logger("transom.hosts")
Before = Callable[[InstanceView, Leadership], Awaitable[InstanceView | Done]]
"""A stage before the host is connected to. Raises ApiError."""
During = Callable[[Visit], Awaitable[Visit | Done]]
"""A stage of the visit. Raises ApiError."""


class HostReconciler:
    """Works on one host of a lifecycle at a time when it is told to."""

    def __init__(self, on: HostServices, lifecycle: HostLifecycle) -> None:
        self._on, self._lifecycle = on, lifecycle
        self.queue = on.queue
        self._triggers = Triggers(on, lambda key: on.settings_turns.reached.pop(key, None))
        self._removal = Removal(on, lifecycle.tokens)
        self._before: tuple[Before, ...] = (
            self._remove,
            self._refuse,
            self._take_back,
            self._identify,
            self._claim,
        )
        self._during: tuple[During, ...] = (
            self._open,
            on.settings_turns.carry_out,
            self._try_former_keys,
            self._wait,
            self._conclude,
        )

    @property
    def rollouts(self) -> Sequence[Rollouts]:
        """Every kind of change that its hosts take their turns in."""
        return self._on.turns.rollouts

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        self._triggers.begin()
        self._lifecycle.begin()

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Bring one host to what it should be and say so in its status. Raises ApiError where the status cannot be written."""
        cached = self._on.informers.windows_instances.snapshot().get(key)
        if cached is None or cached.metadata.deletion_timestamp is not None:
            self._lifecycle.forget(key)
        if cached is not None and cached.fields.get("lifecycle", "Egress") != self._lifecycle.name:
            return Result()
        try:
            step = await self._prepare(key, leadership)
            for stage in self._during:
                if isinstance(step, Done):
                    break
                step = await stage(step)
            result = await self._end(step, leadership)
        except (LeaseLost, ApiError):
            raise
        except Exception as error:
            if cached is not None:
                await self._say_fault(cached, error, leadership)
            raise
        else:
            await self._on.turns.end(key, leadership)
            return result
        finally:
            for rollouts in self._on.turns.rollouts:
                rollouts.done(key)

    async def _prepare(self, key: ObjectKey, leadership: Leadership) -> Visit | Done:
        """Up to where the host is connected to: with what is to be done to it, and the keys that may open it."""
        case = self._on.cases.load(key)
        if case is None:
            return Done()
        for stage in self._before:
            step = await stage(case, leadership)
            if isinstance(step, Done):
                return step
            case = step
        assert case.target is not None  # a case without one is refused
        work = await self._lifecycle.choose(case, case.target, leadership)
        if isinstance(work, Done):
            return work
        return Visit(self._on.session(case, case.target, leadership), work, Opened(case.target))

    async def _end(self, step: Visit | Done, leadership: Leadership) -> Result:
        """Tell and write what is to be said."""
        assert isinstance(step, Done)  # the last stage is the end
        if step.case is not None:
            if not step.quiet:
                tell_trouble(step.case, step.conditions, leadership)
            await self._on.status.write(step.case, step.conditions, step.fields, leadership)
        return step.result

    async def _say_fault(self, cached: CachedInstance, error: Exception, leadership: Leadership) -> None:
        """The last good word on a host must not outlive what nobody foresaw."""
        case = self._on.cases.current(InstanceView(cached, None, (), None, None, None))
        try:
            await self._end(Done(case=case, conditions=status.faulty(errors.place(error))), leadership)
        except ApiError as unwritten:
            _log.warning("status not written", error=str(unwritten))

    # --- before the host is connected to

    async def _remove(self, case: InstanceView, leadership: Leadership) -> InstanceView | Done:
        """An instance that is to go is given back; where all of them are to go nothing is begun any more."""
        if case.cached.metadata.deletion_timestamp is not None:
            if has_finalizer(case.cached):
                case = await self._on.identified(case, leadership)
            return Done(await self._removal.step(case, leadership))
        if self._on.finalizers.namespace_goes:
            return Done(await self._removal.release(case, leadership))
        return case

    async def _refuse(self, case: InstanceView, leadership: Leadership) -> InstanceView | Done:
        """A host that is not connected to."""
        refused = refusal(case, require_host_keys=self._on.require_host_keys)
        if refused is None:
            refused = await self._lifecycle.refusal(case, leadership)
        if refused is None:
            return case
        for rollouts in self._on.turns.rollouts:
            rollouts.leave(case.cached.metadata.name)
        return Done(Result(again=self._lifecycle.refused_again), case, refused)

    async def _take_back(self, case: InstanceView, leadership: Leadership) -> InstanceView:
        """What is True by other settings is taken back before anything else; the host does not wait for its status."""
        try:
            await self._on.status.write(case, {}, {}, leadership)
        except ApiError as error:
            _log.warning("status not written", error=str(error))
        return self._on.cases.current(case)

    async def _identify(self, case: InstanceView, leadership: Leadership) -> InstanceView:
        """Which Node it is, which is recorded."""
        return await self._on.identified(case, leadership)

    async def _claim(self, case: InstanceView, leadership: Leadership) -> InstanceView:
        """The finalizer on the instance, without which nothing is written to a host."""
        if has_finalizer(case.cached):
            return case
        cached = await self._on.finalizers.put(case.cached, leadership)
        self._on.cases.remember(cached)
        return replace(case, cached=cached)

    # --- the visit

    async def _open(self, visit: Visit) -> Visit:
        """The key that opens the host, which is moved to it where it is its turn."""
        on = visit.session

        async def record(hashes: str) -> None:
            fields: Fields = {"key_hash": hashes, CHANGES: self._on.turns.marks(on.case, on.target)}
            await self._on.status.write(on.case, {}, fields, on.leadership)

        on.leadership.permit()
        turn = self._on.turns.of(on.case, on.leadership)
        opened = await self._on.keys.open(on.case.cached, on.target, on.host_keys, on.settings, turn, record, on.leadership)
        on.leadership.permit()
        return visit.by(opened)

    async def _try_former_keys(self, visit: Visit) -> Visit:
        """The same with each earlier key, where nothing is recorded of the host, and it refuses the one that it should have."""
        for opened in by_former_keys(visit.opened):
            if not isinstance(visit.found.error, AuthenticationRefused):
                break
            visit = await self._on.settings_turns.carry_out(visit.by(opened))
        return visit

    async def _wait(self, visit: Visit) -> Visit | Done:
        """A host whose turn it is not."""
        on, found = visit.session, visit.found
        await self._on.turns.conclude(on.case)
        on.leadership.permit()
        if not found.waiting or found.error is not None:
            return visit
        if visit.opened.said is not None:
            # a host that failed with its key must not be forgotten while it waits for its settings
            fields: Fields = {CHANGES: self._on.turns.marks(on.case, on.target)}
            await self._on.status.write(on.case, {"Configured": visit.opened.said}, fields, on.leadership)
        return self._on.settings_turns.wait(visit)

    async def _conclude(self, visit: Visit) -> Done:
        """What is said of a host that was worked on, and when it is looked at again."""
        on, work, opened, found = visit.session, visit.work, visit.opened, visit.found
        self._on.observe(found)
        reached = found.before.reached if found.before else ""
        case = await self._on.identified(self._on.cases.current(on.case), on.leadership, reached)
        given = self._on.settings_turns.given.pop(case.cached.key, None)
        done = await work.conclude(case, found, await self._judgement(visit, case, given), on.leadership)
        if found.error is None:
            if opened.said is not None:
                done = done.saying(Configured=opened.said)
            if given is not None:
                done = done.saying(**status.with_earlier(done.conditions))
        if opened.by_earlier or (given is not None and not work.stands_alone(case)):
            done = replace(done, result=Result(again=1.0))
        elif given is not None:
            # its turn comes when its Node takes pods
            unready = self._on.pace.unready
            done = replace(done, result=Result(again=min(done.result.again or unready, unready) / 4))
        done = tell_changes(case, on.target.egress, found, done, on.leadership)
        work.remember(case, found, on.leadership)
        return self._ended(visit, done)

    async def _judgement(self, visit: Visit, case: InstanceView, given: Egress | None) -> Done:
        """What is said after every visit."""
        on, found = visit.session, visit.found
        state, read = found.after or found.before, found.before is not None
        judged = await self._on.hash_key.digest(on.target.egress.as_judged, on.leadership) if read else None
        fields: Fields = {
            "host_key_fingerprint": on.host_keys.recorded,
            "os_version": state.os_version if state else None,
            "state_hash": await self._state_hash(state, on.leadership),
            "last_checked": self._on.schedule.timestamp() if read else None,
            "settings": judged,
            CHANGES: self._on.turns.marks(case, on.target),
            "key_hash": await self._on.keys.note(visit.opened, case.cached, regarding_of(case.cached), on.leadership)
            if read
            else None,
        }
        said = status.after_pass(given or on.target.egress, found) | {"NodeReady": status.node_ready(case.node, case.identity)}
        return Done(self._on.schedule.next_check(), case, said, fields)

    async def _state_hash(self, state: ObservedState | None, leadership: Leadership) -> str | None:
        """The host's own hash lies beside its salt: what stands in the API has a key that the host does not know."""
        value = state.registry.value(LEDGER, "StateHash") if state is not None else None
        of_ledger = value.text() if value is not None else ""
        return await self._on.hash_key.digest(of_ledger, leadership) if of_ledger else None

    def _ended(self, visit: Visit, done: Done) -> Done:
        """How the key was done: a host that failed is tried again, with growing pauses, until it passes."""
        found: PassResult = visit.found
        if isinstance(found.error, SettingsMissing):
            _log.info("host left as it is: there is no EgressProxy/cluster")
            return replace(done, result=self._on.schedule.next_check())
        if found.error is not None:
            _log.warning("host not done", reason=status.reason_of(found.error), error=str(found.error))
            return replace(done, result=Result(failed=True))
        _log.info("host done", result=found.result, channels=found.channels, seconds=round(found.seconds, 2))
        failed = self._on.turns.failed(visit.session.target)
        return replace(done, result=Result(failed=True)) if failed else done


_EXPECTED: Final = ("Waiting", "RebootRequired", "UpgradePending", "Draining", "WaitingForNode")
"""Reasons why a host is not configured yet, and nothing is wrong."""


def tell_changes(case: InstanceView, egress: Egress, found: PassResult, done: Done, leadership: Leadership) -> Done:
    """Say what a pass changed: by an event, or in the condition Configured where it was waited for.

    Many hosts get the same then: one write less for each, and the EgressProxy tells of the change.
    """
    if found.error is not None or not found.plan:
        return done
    summary = status.summary(found.plan, found.restarted)
    if case.cached.reason("ProxyApplied") != PENDING:
        removed = not egress.configured and status.held_settings(found.before)
        leadership.recorder.normal(regarding_of(case.cached), "Removed" if removed else "Applied", summary)
        return done
    configured = done.conditions.get("Configured")
    if configured is None or configured.status != "True":
        return done
    return done.saying(Configured=Condition("True", configured.reason, f"{configured.message}; {summary}"))


def tell_trouble(case: InstanceView, conditions: Conditions, leadership: Leadership) -> None:
    """An event on what is newly wrong. What holds a drain up was told by the drain."""
    configured = conditions.get("Configured")
    if configured is None or configured.reason == "DrainBlocked":
        return
    if configured.status != "False" and configured.reason != errors.Fault.__name__:
        return
    if case.cached.reason("Configured") != configured.reason:
        tell = leadership.recorder.normal if configured.reason in _EXPECTED else leadership.recorder.warning
        tell(regarding_of(case.cached), configured.reason, configured.message)
