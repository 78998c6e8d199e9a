"""What the commands that ask something of a host change on its WindowsInstance, and how far the operator is. Pure."""

import enum
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from transom.common.mappings import get_nested_value
from transom.controllers.egress.host_counts import WAITS
from transom.controllers.runtime.cached_objects import ADOPT, MANAGED_BY_WMCO
from transom.diagnosis.field_owners import describe_owners
from transom.diagnosis.fields import get_condition, get_metadata, get_name
from transom.diagnosis.overview import ObjectStatus, build_host_row
from transom.diagnosis.snapshot import Value
from transom.reasons.reason_table import REASONS
from transom.windows.nodes.requests import RECONCILE, RESTART

_PUT_OFF: Final = ("PendingRestart", "PendingBoot")
"""Reasons of a host on which the operator has done its part, and services wait for a person or for a reboot."""
_PAUSED: Final = "Paused"
_MANAGED: Final = "ManagedByOther"


class HostAction(enum.StrEnum):
    """What a person asks of a host."""

    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"
    RECONCILE = "reconcile"
    ADOPT = "adopt"
    FORGET_HOST_KEY = "forget --host-key"
    FORGET_NODE = "forget --node"


class HostPlan(msgspec.Struct, frozen=True):
    """What a command does about one host, or why nothing.

    `paused` is what `spec.paused` becomes, `annotations` are set, and the fields `cleared` are taken out of the status.
    """

    name: str
    result: Literal["changed", "unchanged", "failed"]
    message: str
    paused: bool | None = None
    annotations: dict[str, str] = {}
    cleared: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class HostProgress(msgspec.Struct, frozen=True):
    """How far the operator is with a request."""

    outcome: Literal["waiting", "done", "failed"]
    message: str


def plan_request(verb: HostAction, instance: Value, request: str) -> HostPlan:
    """Return what `verb` changes on an instance; `request` is the text that tells this request from earlier ones."""
    return _PLANS[verb](instance, request)


def get_progress(verb: HostAction, instance: Value | None, request: str) -> HostProgress:
    """Return how far the operator is with what was asked of an instance; None is one that has been deleted."""
    if instance is None:
        return HostProgress("failed", "the WindowsInstance was deleted")
    if verb is HostAction.PAUSE:
        return _get_pause_progress(instance)
    if verb is HostAction.RESUME:
        return _get_unpause_progress(instance)
    field = "lastHandledRestart" if verb is HostAction.RESTART else "lastHandledReconcile"
    if get_nested_value(instance, "status", field) != request:
        return HostProgress("waiting", _explain_unhandled(instance))
    if verb in (HostAction.FORGET_HOST_KEY, HostAction.FORGET_NODE):
        return _get_recorded_progress(verb, instance)
    if verb is HostAction.ADOPT:
        if get_condition(instance, "Configured").get("reason") == _MANAGED:
            return HostProgress("failed", f"not taken over: {_format_condition(instance, 'Configured')}")
        return HostProgress("done", "taken over")
    return _build_outcome(
        instance, "restarted" if verb is HostAction.RESTART else "reconciled", restarted=verb is HostAction.RESTART
    )


# --- plans


def _plan_pause(instance: Value, _: str) -> HostPlan:
    name = get_name(instance)
    if is_paused(instance):
        return HostPlan(name, "unchanged", "already paused")
    return HostPlan(name, "changed", "paused", paused=True, warnings=_list_revert_warnings(instance, paused=True))


def _plan_resume(instance: Value, _: str) -> HostPlan:
    name = get_name(instance)
    if not is_paused(instance):
        return HostPlan(name, "unchanged", "not paused")
    return HostPlan(name, "changed", "resumed", paused=False, warnings=_list_revert_warnings(instance, paused=False))


def _plan_restart(instance: Value, request: str) -> HostPlan:
    name = get_name(instance)
    if (refused := _refuse_paused_host(instance)) is not None:
        return refused
    reasons = {str(get_condition(instance, type_).get("reason")) for type_ in ("ProxyApplied", "TrustApplied")}
    if "PendingBoot" in reasons:
        message = "its services wait for a reboot (spec.windows.restart: OnNextBoot, or environmentScope: Machine): reboot it"
        return HostPlan(name, "failed", message)
    if build_host_row(instance).ready == "True" and _is_current(instance, "Ready"):
        return HostPlan(name, "unchanged", "no restart is pending")
    return HostPlan(name, "changed", "restart requested", annotations={RESTART: request})


def _plan_reconcile(instance: Value, request: str) -> HostPlan:
    if (refused := _refuse_paused_host(instance)) is not None:
        return refused
    return HostPlan(get_name(instance), "changed", "reconciliation requested", annotations={RECONCILE: request})


def _plan_adoption(instance: Value, request: str) -> HostPlan:
    name = get_name(instance)
    if (refused := _refuse_paused_host(instance)) is not None:
        return refused
    if get_condition(instance, "Configured").get("reason") != _MANAGED:
        return HostPlan(name, "unchanged", "no other operator is known to manage it")
    message = _format_condition(instance, "Configured")
    if MANAGED_BY_WMCO in message:
        return HostPlan(name, "failed", f"{message}: transom adopt --from wmco")
    return HostPlan(name, "changed", f"to take over: {message}", annotations={ADOPT: "true", RECONCILE: request})


def _plan_host_key_removal(instance: Value, request: str) -> HostPlan:
    name = get_name(instance)
    if get_nested_value(instance, "spec", "hostKey"):
        return HostPlan(name, "failed", "spec.hostKey pins the key of this host: correct it there, or remove it")
    if not get_nested_value(instance, "status", "hostKeyFingerprint"):
        return HostPlan(name, "unchanged", "no host key is recorded")
    return HostPlan(name, "changed", "host key forgotten", annotations={RECONCILE: request}, cleared=("hostKeyFingerprint",))


def _plan_node_removal(instance: Value, request: str) -> HostPlan:
    name = get_name(instance)
    if not get_nested_value(instance, "status", "nodeName"):
        return HostPlan(name, "unchanged", "no Node is recorded")
    return HostPlan(name, "changed", "Node forgotten", annotations={RECONCILE: request}, cleared=("nodeName",))


_PLANS: Final[dict[HostAction, Callable[[Value, str], HostPlan]]] = {
    HostAction.PAUSE: _plan_pause,
    HostAction.RESUME: _plan_resume,
    HostAction.RESTART: _plan_restart,
    HostAction.RECONCILE: _plan_reconcile,
    HostAction.ADOPT: _plan_adoption,
    HostAction.FORGET_HOST_KEY: _plan_host_key_removal,
    HostAction.FORGET_NODE: _plan_node_removal,
}


def is_paused(instance: Value) -> bool:
    """Return True if the operator does not connect to the host."""
    return get_nested_value(instance, "spec", "paused") is True


def _refuse_paused_host(instance: Value) -> HostPlan | None:
    if not is_paused(instance):
        return None
    name, namespace = get_name(instance), get_metadata(instance).get("namespace")
    return HostPlan(name, "failed", f"paused, so the operator does not connect to it: transom resume {name} -n {namespace}")


def _list_revert_warnings(instance: Value, *, paused: bool) -> tuple[str, ...]:
    word = "true" if paused else "false"
    return tuple(
        f"{owner} sets spec.paused of this object and will revert it: set it to {word} at the source, too"
        for owner in describe_owners(instance, "spec", "paused")
    )


# --- progress


def _get_pause_progress(instance: Value) -> HostProgress:
    if get_condition(instance, "Configured").get("reason") == _PAUSED and _is_current(instance, "Configured"):
        return HostProgress("done", "paused")
    if not is_paused(instance):
        return HostProgress("failed", "no longer paused: spec.paused was reset")
    return HostProgress("waiting", "the operator finishes what it began on the host")


def _get_unpause_progress(instance: Value) -> HostProgress:
    if is_paused(instance):
        return HostProgress("failed", "paused again: spec.paused was reset")
    if get_condition(instance, "Configured").get("reason") == _PAUSED or not _is_current(instance, "Configured"):
        return HostProgress("waiting", _explain_unhandled(instance))
    return _build_outcome(instance, "resumed")


def _get_recorded_progress(verb: HostAction, instance: Value) -> HostProgress:
    field, what = ("hostKeyFingerprint", "host key") if verb is HostAction.FORGET_HOST_KEY else ("nodeName", "Node")
    value, now = get_nested_value(instance, "status", field), build_host_row(instance)
    if value is None or now.reason in ("HostKeyChanged", "NodeNameChanged"):
        return HostProgress("failed", f"no other {what} was recorded: {_format_status(now)}")
    return HostProgress("done", f"{what} recorded: {value}")


def _explain_unhandled(instance: Value) -> str:
    if is_paused(instance):
        return "the host is paused"
    now = build_host_row(instance)
    return "the operator has not handled it yet" + ("" if now.ready == "True" else f" ({_format_status(now)})")


def _build_outcome(instance: Value, word: str, *, restarted: bool = False) -> HostProgress:
    now = build_host_row(instance)
    if now.ready == "True":
        return HostProgress("done", f"{word}, Ready")
    if now.reason in _PUT_OFF and not (restarted and now.reason == "PendingRestart"):
        return HostProgress("done", f"{word}; {_format_status(now)}")
    if is_under_way(now):
        return HostProgress("waiting", _format_status(now))
    return HostProgress("failed", f"{word}, and not ready: {_format_status(now)}")


def is_under_way(host: ObjectStatus) -> bool:
    """Return True if a host that is not ready becomes so without a person: the operator is at it, or it is not its turn yet."""
    if host.reason == "RolloutHalted":
        return False
    known = REASONS.get(host.reason)
    steps = known is not None and known.heals == "itself" and "condition" in known.where
    return host.reason in WAITS or steps


def _format_status(host: ObjectStatus) -> str:
    return f"{host.reason}: {host.message}" if host.message else host.reason


def _format_condition(instance: Value, type_: str) -> str:
    return str(get_condition(instance, type_).get("message") or "")


def _is_current(instance: Value, type_: str) -> bool:
    """Return True if the condition has the object's current generation."""
    return get_condition(instance, type_).get("observedGeneration") == get_metadata(instance).get("generation")
