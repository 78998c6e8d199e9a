"""Events about one host: what a pass changed, and what newly failed."""

from typing import Final

from transom.controllers.hosts.host_work import StageResult
from transom.controllers.instance_state import status
from transom.controllers.instance_state.view import InstanceView, to_regarding
from transom.controllers.runtime.conditions import PENDING, Condition, Conditions
from transom.controllers.runtime.controller import Leadership
from transom.hosts import errors
from transom.hosts.passes.base_pass import PassResult
from transom.proxy.settings import Egress

_EXPECTED: Final = ("Waiting", "RebootRequired", "UpgradePending", "Draining", "WaitingForNode")
"""Reasons why a host is not configured yet although nothing is wrong."""


def emit_change_event(
    view: InstanceView, egress: Egress, pass_result: PassResult, result: StageResult, leadership: Leadership
) -> StageResult:
    """Emit an event of what a pass changed, or add it to condition Configured if the change was awaited.

    An awaited change comes to many hosts at once: it costs one write less for each, and the EgressProxy reports the change.
    """
    if pass_result.error is not None or not pass_result.plan:
        return result
    summary = status.format_summary(pass_result.plan, pass_result.restarted)
    if view.cached.get_reason("ProxyApplied") != PENDING:
        removed = not egress.configured and status.has_settings(pass_result.before)
        leadership.recorder.record_normal(to_regarding(view.cached), "Removed" if removed else "Applied", summary)
        return result
    configured = result.conditions.get("Configured")
    if configured is None or configured.status != "True":
        return result
    return result.with_conditions(Configured=Condition("True", configured.reason, f"{configured.message}; {summary}"))


def emit_failure_event(view: InstanceView, conditions: Conditions, leadership: Leadership) -> None:
    """Emit an event of what newly failed. The drain emits its own."""
    configured = conditions.get("Configured")
    if configured is None or configured.reason == "DrainBlocked":
        return
    if configured.status != "False" and configured.reason != errors.Fault.__name__:
        return
    if view.cached.get_reason("Configured") != configured.reason:
        emit = leadership.recorder.record_normal if configured.reason in _EXPECTED else leadership.recorder.record_warning
        emit(to_regarding(view.cached), configured.reason, configured.message)
