"""Events on an instance: what was changed on its host, and what is newly wrong."""

from typing import Final

from transom.controllers.hosts.work import Done
from transom.controllers.instance import status
from transom.controllers.instance.view import InstanceView, regarding_of
from transom.controllers.runtime.conditions import PENDING, Condition, Conditions
from transom.controllers.runtime.leadership import Leadership
from transom.hosts import faults
from transom.hosts.passes.passes import PassResult
from transom.proxy.settings import Egress

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
    if configured.status != "False" and configured.reason != faults.Fault.__name__:
        return
    if case.cached.reason("Configured") != configured.reason:
        tell = leadership.recorder.normal if configured.reason in _EXPECTED else leadership.recorder.warning
        tell(regarding_of(case.cached), configured.reason, configured.message)
