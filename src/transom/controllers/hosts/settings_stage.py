"""The stage that applies the settings of a host when it is its turn."""

import asyncio
from dataclasses import replace
from functools import partial

import msgspec

from transom.apply.roll_out import has_applied_settings
from transom.controllers.hosts.check_schedule import CheckSchedule
from transom.controllers.hosts.host_work import HostSession, HostWork, Reconciliation, StageResult
from transom.controllers.instance_state import status
from transom.controllers.rollout.host_rollout import HostRollout, PassRecord
from transom.controllers.rollout.open_rollout import OpenRollout
from transom.controllers.rollout.passed_settings import PassedSettings
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.runtime.conditions import Fields
from transom.controllers.runtime.controller import Result
from transom.hosts.passes.base_pass import EVERYBODY, PassResult
from transom.proxy.settings import Egress
from transom.rollout.fingerprint import compute_settings_key
from transom.rollout.queue import READ_SECONDS


class SettingsStage:
    """Runs the pass of a host with the settings that it may have now."""

    def __init__(
        self, rollouts: Rollouts, host_rollout: HostRollout, passed_settings: PassedSettings, schedule: CheckSchedule
    ) -> None:
        self._rollouts, self._host_rollout = rollouts, host_rollout
        self._passed_settings, self._schedule = passed_settings, schedule

    async def run(self, reconciliation: Reconciliation) -> Reconciliation:
        """Run the pass if it is the host's turn. If not, the result says that it waits. Raises ApiError."""
        session, work = reconciliation.session, reconciliation.work
        if reconciliation.keys.error is not None:
            return replace(reconciliation, result=PassResult(error=reconciliation.keys.error))
        egress, memory = session.target.egress, self._host_rollout.get_memory(session.view.cached.key)
        bypasses, record = work.can_bypass_rollout(session.view), PassRecord()
        rollout = await self._host_rollout.open_rollout(self._rollouts, session.target, session.leadership)
        applied, fallback = memory.applied_settings, self._find_fallback(session, work, rollout)
        if fallback is not None:
            with_fallback = replace(session, target=msgspec.structs.replace(session.target, egress=fallback))
            recorded = _with_change_recording(with_fallback, self._host_rollout, record)
            result = await work.run_pass(recorded, EVERYBODY, change_expected=True)
            # if these ask for nothing, no trace on the host shows that it has them
            applied = fallback
        elif not bypasses and applied != egress and not self._request_read(rollout, session, applied):
            result = PassResult(waiting=True)
        else:
            memory.applied_settings = None
            expected = applied != egress if applied is not None else _is_new(session)
            attempt = _PassAttempt(self._host_rollout, rollout, session, record, bypasses=bypasses)
            try:
                result = await work.run_pass(attempt.session, attempt.admit, change_expected=expected)
                attempt.result = result
            finally:
                attempt.finish()
            if rollout.state.completed:
                await self._passed_settings.store_settings(session.target.instance.cluster, egress, session.leadership)
            applied = applied if result.waiting else egress
        if result.error is None and applied is not None:
            memory.applied_settings = applied
        fallback = fallback or reconciliation.fallback
        await work.report_pass(session, result, record, fallback)
        return replace(reconciliation, result=result, fallback=fallback, applied=applied)

    def build_waiting_result(self, reconciliation: Reconciliation) -> StageResult:
        """Return the result of a host whose turn it is not: it is requeued when it is. A halted rollout is its condition.

        Such a host is checked from time to time like any other.
        """
        session, result = reconciliation.session, reconciliation.result
        view, target = session.view, session.target
        rollout = self._rollouts.find(target)
        if rollout is None:
            # the settings were edited meanwhile
            return StageResult(Result(again=1.0))
        if (refusal := rollout.queue.get_halt_reason(target.instance.name)) is None:
            return StageResult(self._schedule.schedule_next_check())
        conditions = status.build_halted_conditions(refusal, result, reconciliation.applied, target.egress)
        fields: Fields = {"last_checked": self._schedule.get_timestamp()} if result.before is not None else {}
        return StageResult(self._schedule.schedule_next_check(), view, conditions, fields, quiet=True)

    def _request_read(self, rollout: OpenRollout, session: HostSession, applied: Egress | None) -> bool:
        """Return True if a host may be read now; otherwise it is requeued when it is its turn."""
        differs = applied is not None and compute_settings_key(applied) != compute_settings_key(session.target.egress)
        requeue = partial(self._host_rollout.requeue, session.view.cached.key)
        due = not self._schedule.is_fresh(session.view.cached)
        return rollout.queue.request_read(session.target.instance.name, requeue, is_different=differs, is_check_due=due)

    def _find_fallback(self, session: HostSession, work: HostWork, rollout: OpenRollout) -> Egress | None:
        """Return the settings for a host while newer ones are on their way, or halted, and it is not its turn.

        Such a host is new, or its Node was drained for something else and takes pods again afterwards. None: the newer ones.
        """
        view, target = session.view, session.target
        memory = self._host_rollout.get_memory(view.cached.key)
        is_untouched = not view.cached.live.state_hash and memory.applied_settings is None
        joins = is_untouched and not rollout.queue.superseded
        is_drained = work.node_drained or (view.node is not None and view.node.cordoned_for is not None)
        is_beside = is_drained and not rollout.state.is_started(target.instance.name)
        if rollout.queue.stage == "all" or not (joins or is_beside):
            return None
        if target.egress.missing:
            # no object has settings for a host that joins now
            return None
        passed = self._passed_settings.read(target.instance.cluster)
        return passed if passed is not None and compute_settings_key(passed) != compute_settings_key(target.egress) else None


class _PassAttempt:
    """One pass of a host in a rollout, which is always informed of its end."""

    def __init__(
        self, host_rollout: HostRollout, rollout: OpenRollout, session: HostSession, record: PassRecord, *, bypasses: bool
    ) -> None:
        self._host_rollout, self._rollout, self._record, self._bypasses = host_rollout, rollout, record, bypasses
        self._admitted = False
        self.result: PassResult | None = None
        name = session.target.instance.name
        recorded = _with_change_recording(session, host_rollout, record)
        self.session = replace(recorded, change_in_flight=name in rollout.unresolved)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(READ_SECONDS, rollout.queue.stop_waiting_for, name)

    async def admit(self) -> bool:
        """Return True if the host may change now. Raises ApiError."""
        view, target, leadership = self.session.view, self.session.target, self.session.leadership
        self._admitted = self._bypasses or await self._host_rollout.admit(self._rollout, view, target, self._record, leadership)
        return self._admitted

    def finish(self) -> None:
        """Report the end of the pass; without a result it is unknown how far the host came."""
        self._timer.cancel()
        session, rollout, result = self.session, self._rollout, self.result
        name = session.target.instance.name
        if self._bypasses:
            if result is not None and has_applied_settings(session.target.egress, result):
                # no host had to wait for it: it proves nothing, and does not need the change any more
                rollout.record_result(name, "conforming")
        elif result is not None:
            # what was done without admission says nothing about the settings
            reported = result if self._admitted else msgspec.structs.replace(result, begun=False)
            self._host_rollout.report_pass(rollout, session.view, session.target, reported, self._record, session.leadership)
        else:
            if self._admitted:
                rollout.unresolved.add(name)
            rollout.queue.finish_read(name)


def _with_change_recording(session: HostSession, host_rollout: HostRollout, record: PassRecord) -> HostSession:
    """Return the session with the record filled when the pass starts to change the host."""

    def permit() -> None:
        session.leadership.permit()
        host_rollout.record_change(record, session.view)

    return replace(session, settings=msgspec.structs.replace(session.settings, permit=permit))


def _is_new(session: HostSession) -> bool:
    """Return True if a host has nothing of Transom's yet and gets all of it."""
    return not session.view.cached.live.state_hash and session.target.egress.configured
