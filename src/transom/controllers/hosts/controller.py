"""The reconciler of Windows hosts: each WindowsInstance is a key.

A reconciliation runs two lists of stages: what must hold before the host is connected to, and the work on the host. Each
stage returns what the next one starts from, or a `StageResult`, which ends the reconciliation. The lifecycle of the instance
chooses the work.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from transom.apply.errors import SettingsMissing
from transom.controllers.hosts.events import emit_change_event, emit_failure_event
from transom.controllers.hosts.host_work import HostLifecycle, Reconciliation, StageResult
from transom.controllers.hosts.removal import HostRemoval
from transom.controllers.hosts.services import HostServices
from transom.controllers.hosts.triggers import Triggers
from transom.controllers.instance_state import status
from transom.controllers.instance_state.instance_writes import has_finalizer
from transom.controllers.instance_state.view import InstanceView, build_refusal_conditions, to_regarding
from transom.controllers.keys.key_rotation import KeySelection, iter_previous_keys
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.controllers.runtime.conditions import Fields
from transom.controllers.runtime.controller import Leadership, Result
from transom.hosts import errors
from transom.hosts.errors import AuthenticationRefused
from transom.kube.errors import ApiError
from transom.kube.lease import LeaseLost
from transom.kube.store import ObjectKey
from transom.rollout.markers import FIELD
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import LEDGER
from transom.windows.nodes.requests import RECONCILE, RESTART, read_request_annotation

_log: Final = structlog.get_logger("transom.hosts")
ViewStage = Callable[[InstanceView, Leadership], Awaitable[InstanceView | StageResult]]
"""A stage before the host is connected to. Raises ApiError."""
HostStage = Callable[[Reconciliation], Awaitable[Reconciliation | StageResult]]
"""A stage of the work on the host. Raises ApiError."""


class HostReconciler:
    """Reconciles the hosts of one lifecycle, one host at a time."""

    def __init__(self, services: HostServices, lifecycle: HostLifecycle) -> None:
        self._services, self._lifecycle = services, lifecycle
        self.queue = services.queue
        self._triggers = Triggers(services)
        self._removal = HostRemoval(services, lifecycle.tokens)
        self._view_stages: tuple[ViewStage, ...] = (
            self._handle_deletion,
            self._check_refusal,
            self._invalidate_stale_conditions,
            self._identify,
            self._add_finalizer,
        )
        self._host_stages: tuple[HostStage, ...] = (
            self._select_keys,
            services.settings_stage.run,
            self._try_previous_keys,
            self._defer_until_turn,
        )

    @property
    def rollouts(self) -> Sequence[Rollouts]:
        """The rollouts of each kind that its hosts take part in."""
        return self._services.host_rollout.rollouts

    def subscribe(self) -> None:
        """Subscribe to the stores, which are filled."""
        self._triggers.subscribe()
        self._lifecycle.subscribe()

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Reconcile one host and write its status. Raises ApiError if the status cannot be written."""
        services = self._services
        instance = services.informers.windows_instances.take_snapshot().get(key)
        if instance is None or instance.metadata.deletion_timestamp is not None:
            self._lifecycle.forget(key)
        if instance is not None and instance.spec_fields.get("lifecycle", "Egress") != self._lifecycle.name:
            return Result()
        try:
            step = await self._prepare_reconciliation(key, leadership)
            for stage in self._host_stages:
                if isinstance(step, StageResult):
                    break
                step = await stage(step)
            result = step if isinstance(step, StageResult) else await self._build_result(step)
            await self._write_result(self._with_handled_request(instance, result), leadership)
        except (LeaseLost, ApiError):
            raise
        except Exception as error:
            if instance is not None:
                await self._report_internal_error(instance, error, leadership)
            raise
        else:
            await services.host_rollout.finish_status_write(key, leadership)
            return result.result
        finally:
            for rollouts in services.host_rollout.rollouts:
                rollouts.release_turn(key.name)

    async def _prepare_reconciliation(self, key: ObjectKey, leadership: Leadership) -> Reconciliation | StageResult:
        """Run the stages before the connection, and choose what is done to the host."""
        view = self._services.reader.load(key)
        if view is None:
            return StageResult()
        for stage in self._view_stages:
            step = await stage(view, leadership)
            if isinstance(step, StageResult):
                return step
            view = step
        if (target := view.target) is None:
            return StageResult()
        work = await self._lifecycle.choose_work(view, target, leadership)
        if isinstance(work, StageResult):
            return work
        return Reconciliation(self._services.start_session(view, target, leadership), work, KeySelection(target))

    def _with_handled_request(self, instance: CachedInstance | None, result: StageResult) -> StageResult:
        """Return the result with the reconcile request that the instance had when it was read, which is handled now."""
        request = read_request_annotation(instance.metadata.annotations, RECONCILE) if instance is not None else ""
        if instance is None or not request or request == instance.live.last_handled_reconcile:
            return result
        # a host that waits for its turn has nothing else to write
        view = result.view or self._services.reader.load(instance.key)
        return replace(result, view=view, fields=result.fields | {"last_handled_reconcile": request})

    async def _write_result(self, result: StageResult, leadership: Leadership) -> None:
        """Write the status and the event of a new failure."""
        if result.view is not None:
            if not result.quiet:
                emit_failure_event(result.view, result.conditions, leadership)
            await self._services.status.write(result.view, result.conditions, result.fields, leadership)

    async def _report_internal_error(self, instance: CachedInstance, error: Exception, leadership: Leadership) -> None:
        """Write an internal error into the status: the last good condition must not outlive it."""
        view = self._services.reader.refresh(InstanceView(instance, None, (), None, None, None))
        conditions = status.build_internal_error_conditions(errors.format_place(error))
        try:
            await self._write_result(StageResult(view=view, conditions=conditions), leadership)
        except ApiError as unwritten:
            _log.warning("status not written", error=str(unwritten))

    # --- before the host is connected to

    async def _handle_deletion(self, view: InstanceView, leadership: Leadership) -> InstanceView | StageResult:
        """Restore the host of an instance that is being deleted. While all of Transom is deleted nothing new starts."""
        if view.cached.metadata.deletion_timestamp is not None:
            if has_finalizer(view.cached):
                view = await self._services.resolve_identity(view, leadership)
            return StageResult(await self._removal.run_step(view, leadership))
        if self._services.finalizers.is_namespace_deleted:
            return StageResult(await self._removal.release_instance(view, leadership))
        return view

    async def _check_refusal(self, view: InstanceView, leadership: Leadership) -> InstanceView | StageResult:
        """Refuse to connect to a host whose instance does not allow it."""
        conditions = build_refusal_conditions(view, require_host_keys=self._services.require_host_keys)
        if conditions is None:
            conditions = await self._lifecycle.find_connection_refusal(view, leadership)
        if conditions is None:
            return view
        for rollouts in self._services.host_rollout.rollouts:
            rollouts.release_host(view.cached.metadata.name)
        return StageResult(Result(again=self._lifecycle.refusal_requeue_after), view, conditions)

    async def _invalidate_stale_conditions(self, view: InstanceView, leadership: Leadership) -> InstanceView:
        """Invalidate what was True with other settings before anything else; the host does not wait for its status."""
        try:
            await self._services.status.write(view, {}, {}, leadership)
        except ApiError as error:
            _log.warning("status not written", error=str(error))
        return self._services.reader.refresh(view)

    async def _identify(self, view: InstanceView, leadership: Leadership) -> InstanceView:
        """Resolve and record which Node the host is."""
        return await self._services.resolve_identity(view, leadership)

    async def _add_finalizer(self, view: InstanceView, leadership: Leadership) -> InstanceView:
        """Add the finalizer, without which nothing is written to a host."""
        if has_finalizer(view.cached):
            return view
        instance = await self._services.finalizers.add(view.cached, leadership)
        self._services.reader.remember_written(instance)
        return replace(view, cached=instance)

    # --- the work on the host

    async def _select_keys(self, reconciliation: Reconciliation) -> Reconciliation:
        """Select the key that opens the host, and move the host to its new key when it is its turn."""
        session, services = reconciliation.session, self._services

        async def record(hashes: str) -> None:
            fields: Fields = {
                "key_hash": hashes,
                FIELD: services.host_rollout.build_markers(session.view, session.target),
            }
            await services.status.write(session.view, {}, fields, session.leadership)

        session.leadership.permit()
        keys = await services.keys.select_keys(
            session.view.cached,
            session.target,
            session.host_keys,
            session.settings,
            services.host_rollout,
            record,
            session.leadership,
        )
        session.leadership.permit()
        return reconciliation.with_keys(keys)

    async def _try_previous_keys(self, reconciliation: Reconciliation) -> Reconciliation:
        """Try each previous key on a host that refuses its key, if no key is recorded for it."""
        for keys in iter_previous_keys(reconciliation.keys):
            if not isinstance(reconciliation.result.error, AuthenticationRefused):
                break
            reconciliation = await self._services.settings_stage.run(reconciliation.with_keys(keys))
        return reconciliation

    async def _defer_until_turn(self, reconciliation: Reconciliation) -> Reconciliation | StageResult:
        """Defer a host whose turn it is not."""
        session, result = reconciliation.session, reconciliation.result
        await self._services.host_rollout.wait_for_heartbeats(session.view)
        session.leadership.permit()
        if not result.waiting or result.error is not None:
            return reconciliation
        if reconciliation.keys.condition is not None:
            # the key failure must not be lost while the host waits for its settings
            fields: Fields = {FIELD: self._services.host_rollout.build_markers(session.view, session.target)}
            conditions = {"Configured": reconciliation.keys.condition}
            await self._services.status.write(session.view, conditions, fields, session.leadership)
        return self._services.settings_stage.build_waiting_result(reconciliation)

    async def _build_result(self, reconciliation: Reconciliation) -> StageResult:
        """Return what is written of a host that was worked on, and when it is requeued."""
        session, work, keys, pass_result = (
            reconciliation.session,
            reconciliation.work,
            reconciliation.keys,
            reconciliation.result,
        )
        services, fallback = self._services, reconciliation.fallback
        services.observe(pass_result)
        reached = pass_result.before.reached if pass_result.before else ""
        view = await services.resolve_identity(services.reader.refresh(session.view), session.leadership, reached)
        base = await self._build_base(reconciliation, view)
        result = await work.build_result(view, pass_result, base, session.leadership)
        if pass_result.error is None:
            if keys.condition is not None:
                result = result.with_conditions(Configured=keys.condition)
            if fallback is not None:
                result = result.with_conditions(**status.build_earlier_settings_conditions(result.conditions))
        if keys.used_previous_key or (fallback is not None and not work.can_bypass_rollout(view)):
            result = replace(result, result=Result(again=1.0))
        elif fallback is not None:
            # its turn comes when its Node takes pods
            unready = services.pace.unready
            result = replace(result, result=Result(again=min(result.result.again or unready, unready) / 4))
        result = emit_change_event(view, session.target.egress, pass_result, result, session.leadership)
        work.remember_pass(view, pass_result, session.leadership)
        return self._with_requeue(reconciliation, result)

    async def _build_base(self, reconciliation: Reconciliation, view: InstanceView) -> StageResult:
        """Return the conditions and fields common to every pass."""
        services, session, pass_result = self._services, reconciliation.session, reconciliation.result
        egress, leadership = session.target.egress, session.leadership
        state, was_read = pass_result.after or pass_result.before, pass_result.before is not None
        evaluated = await services.hash_key.compute_hash(egress.evaluation_key, leadership) if was_read else None
        key_hash = None
        if was_read:
            key_hash = await services.keys.record_key(reconciliation.keys, view.cached, to_regarding(view.cached), leadership)
        fields: Fields = {
            "host_key_fingerprint": session.host_keys.recorded,
            "os_version": state.os_version if state else None,
            "state_hash": await self._hash_state(state, leadership),
            "last_checked": services.schedule.get_timestamp() if was_read else None,
            "settings": evaluated,
            FIELD: services.host_rollout.build_markers(view, session.target),
            "last_handled_restart": _find_handled_restart(reconciliation),
            "last_change": status.describe_change(pass_result) or None,
            "key_hash": key_hash,
        }
        conditions = status.build_pass_conditions(reconciliation.fallback or egress, pass_result)
        conditions |= {"NodeReady": status.build_node_ready_condition(view.node, view.identity)}
        return StageResult(services.schedule.schedule_next_check(), view, conditions, fields)

    async def _hash_state(self, state: ObservedState | None, leadership: Leadership) -> str | None:
        """Return the keyed hash of the host's own state hash: the host knows its salt, but not this key."""
        value = state.registry.find_value(LEDGER, "StateHash") if state is not None else None
        ledger_hash = value.decode_text() if value is not None else ""
        return await self._services.hash_key.compute_hash(ledger_hash, leadership) if ledger_hash else None

    def _with_requeue(self, reconciliation: Reconciliation, result: StageResult) -> StageResult:
        """Return the result with its requeue: a host that failed is tried again, with growing pauses, until it passes."""
        pass_result, services = reconciliation.result, self._services
        if isinstance(pass_result.error, SettingsMissing):
            _log.info("host skipped", reason="EgressProxy/cluster does not exist")
            return replace(result, result=services.schedule.schedule_next_check())
        changes = status.describe_change(pass_result)
        if pass_result.error is not None:
            reason = status.to_reason(pass_result.error)
            _log.warning("host failed", reason=reason, error=str(pass_result.error), changes=changes)
            return replace(result, result=Result(failed=True))
        seconds = round(pass_result.seconds, 2)
        _log.info(
            "host configured",
            result=pass_result.result,
            channels=pass_result.channels,
            seconds=seconds,
            changes=changes,
            settings=result.fields.get("settings"),
        )
        failed = services.host_rollout.has_failed(reconciliation.session.target)
        return replace(result, result=Result(failed=True)) if failed else result


def _find_handled_restart(reconciliation: Reconciliation) -> str | None:
    """Return the restart request that a pass without an error has met; None if there was none."""
    if reconciliation.result.error is not None:
        return None
    return read_request_annotation(reconciliation.session.target.instance.metadata.annotations, RESTART) or None
