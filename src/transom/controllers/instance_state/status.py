"""The status of a WindowsInstance: conditions with their reasons, from what a pass found. Pure."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from transom.common.counting import format_first
from transom.common.escaping import escape_unprintable
from transom.common.timestamps import format_timestamp
from transom.controllers.instance_state.node_identities import without_record
from transom.controllers.runtime.cached_objects import HostNode
from transom.controllers.runtime.conditions import PENDING, Condition, Conditions, Fields, merge_conditions
from transom.hosts.errors import (
    AuthenticationRefused,
    Fault,
    HostError,
    HostKeyChanged,
    HostKeyMissing,
    HostKeyUnusable,
    KeyUnusable,
    ProfileNotWritten,
    ServiceDisabled,
    Unreachable,
    WrongEnvironmentType,
)
from transom.hosts.passes.base_pass import PassResult
from transom.proxy.settings import Egress
from transom.proxy.status import StatusCondition
from transom.windows import ledger
from transom.windows.host.host_state import ObservedState, Step
from transom.windows.host.ledger_entries import LedgerError
from transom.windows.nodes import fetch
from transom.windows.nodes.node_identity import Identity
from transom.windows.nodes.windows_instance import LastChange, WindowsInstanceStatus
from transom.windows.parts import certificates, powershell
from transom.windows.planning.planner import Plan, build_desired_settings

TYPES: Final = (
    "Ready",
    "Reachable",
    "Configured",
    "ProxyApplied",
    "TrustApplied",
    "EgressWorks",
    "NodeReady",
    "RebootRequired",
)
_MAX_MESSAGE: Final = 1024
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?")
"""As metav1.Condition has it (apimachinery, `pkg/apis/meta/v1/types.go`); a kubelet may say anything in its Node."""
_HIDDEN: Final = (
    "; the host booted with proxy variables in its machine environment that are gone now: empty variables hide them from the "
    "services until the next reboot"
)
_PROXY_KINDS: Final = ("machine-environment", "service-environment")


_BY_SETTINGS: Final = ("Configured", "ProxyApplied", "TrustApplied", "EgressWorks")
_NEEDED: Final = ("Configured", "ProxyApplied", "TrustApplied")
_OF_A_PASS: Final = ("Configured", "ProxyApplied", "TrustApplied")
_NOT_LOOKED: Final = Condition("Unknown", Fault.__name__, "the Node was not checked")
_NOT_PROBED: Final = Condition("Unknown", "NotProbed", "nothing was fetched from the host")


def build_not_connected_conditions(
    reason: str, message: str, *, configured: Literal["False", "Unknown"] = "False"
) -> Conditions:
    """Return the conditions of a host without a connection: earlier results do not apply to settings changed since."""
    return {"Configured": Condition(configured, reason, message), "EgressWorks": _NOT_PROBED}


def build_paused_conditions() -> Conditions:
    """Return the conditions of a paused host, all Unknown."""
    message = "spec.paused is set: the host is not connected to"
    return dict.fromkeys(TYPES[1:], Condition("Unknown", "Paused", message))


def build_resumed_conditions(live: WindowsInstanceStatus) -> Conditions:
    """Return what is said of a host that is not paused any more, until it was looked at."""
    return {
        condition.type: _build_unknown_condition(condition.type)
        for condition in live.conditions
        if condition.type in TYPES[1:] and condition.reason == "Paused"
    }


def mark_outdated(live: WindowsInstanceStatus, conditions: Conditions) -> Conditions:
    """Replace conditions that are True only for earlier settings."""
    before = {condition.type: condition.status for condition in live.conditions}
    true = [
        type_ for type_ in _BY_SETTINGS if (conditions[type_].status if type_ in conditions else before.get(type_)) == "True"
    ]
    waits = Condition("False", PENDING, "the settings have changed, and the host waits for its turn")
    return conditions | dict.fromkeys(true, waits) | ({"EgressWorks": _NOT_PROBED} if "EgressWorks" in true else {})


def build_internal_error_conditions(where: str) -> Conditions:
    """Return the conditions after an error of Transom itself outside of a pass: the state of the host is unknown."""
    message = f"internal error in Transom ({where}); see its log. Please report it; Transom retries the host"
    return dict.fromkeys(_OF_A_PASS, Condition("Unknown", Fault.__name__, message)) | {"NodeReady": _NOT_LOOKED}


def build_pass_conditions(egress: Egress, result: PassResult) -> Conditions:
    """Return the conditions of a host after a pass."""
    error = result.error
    conditions = _build_egress_condition(egress, result) | {"Reachable": _build_reachable_condition(result)}
    if error is None:
        conditions["Configured"] = Condition("True", "UpToDate", "the host matches the settings")
    elif isinstance(error, KeyUnusable):
        conditions["Configured"] = Condition("False", "KeyInvalid", str(error))
    else:
        conditions["Configured"] = Condition("False", to_reason(error), str(error))
    if isinstance(error, Fault):
        return conditions | dict.fromkeys(_OF_A_PASS, Condition("Unknown", to_reason(error), str(error)))
    state = result.after or result.before
    if state is None:
        unknown = Condition("Unknown", conditions["Configured"].reason, "the host could not be read")
        return conditions | {"ProxyApplied": unknown, "TrustApplied": unknown}
    left = _list_remaining_steps(result)
    cached = _read_ledger(state)
    pending, put_off = (
        _is_reboot_pending(egress, state, cached),
        _build_pending_condition(egress, cached, _explain_failed_fetch(egress, result)),
    )
    unloaded = powershell.describe_unloaded(build_desired_settings(egress), state.registry)
    masks = cached.environment.is_hiding_variables
    conditions["ProxyApplied"] = _build_proxy_condition(egress, left, error, pending, unloaded, hides=masks)
    conditions["TrustApplied"] = _build_trust_condition(egress, state, left, error, cached)
    if put_off is not None:
        conditions |= {type_: put_off for type_ in ("ProxyApplied", "TrustApplied") if conditions[type_].status == "True"}
    boot = put_off is not None and put_off.reason == "PendingBoot"
    conditions["RebootRequired"] = (
        Condition("True", "PendingBoot", "services see the machine environment after the next reboot")
        if pending
        else Condition("True", "PendingBoot", put_off.message)
        if put_off is not None and boot
        else Condition("False", "NotRequired", "no reboot is required")
    )
    return conditions


def build_halted_conditions(why: str, result: PassResult, before: Egress | None, egress: Egress) -> Conditions:
    """Return the conditions of a host that a halted rollout leaves unchanged: by the settings `before`, or as observed."""
    condition, steps = Condition("False", "RolloutHalted", why), result.plan.steps if result.plan is not None else ()
    conditions = {"Configured": condition} | (
        {"Reachable": _build_reachable_condition(result)} if result.before is not None else {}
    )
    if any(step.kind in _PROXY_KINDS for step in steps) or (before is not None and before.variables != egress.variables):
        conditions["ProxyApplied"] = condition
    if any(step.kind == "certificate" for step in steps) or (before is not None and before.trust != egress.trust):
        conditions["TrustApplied"] = condition
    return conditions


def build_earlier_settings_conditions(conditions: Conditions) -> Conditions:
    """Return the conditions of a host that joined during a rollout and received the settings of the last completed one."""
    message = "the host has the last proven settings, and waits for its turn to get the current settings"
    pending = Condition("False", "Pending", message)
    return {type_: pending for type_ in _OF_A_PASS if type_ in conditions and conditions[type_].status == "True"}


def has_settings(state: ObservedState | None) -> bool:
    """Return True if the host had proxy settings or CAs of Transom."""
    return state is not None and _read_ledger(state).holds_settings


def _read_ledger(state: ObservedState) -> ledger.Ledger:
    """Return the host's ledger; an empty one if it cannot be parsed, which is then the error of the pass."""
    try:
        return ledger.read(state.registry)
    except LedgerError:
        return ledger.Ledger()


def _build_pending_condition(egress: Egress, cached: ledger.Ledger, unproven: str) -> Condition | None:
    """Return the condition for settings that are on the host but not in its running services."""
    services = ", ".join(cached.downtime.deferred)
    if not services:
        return None
    if egress.windows.restart == "OnNextBoot":
        return Condition("False", "PendingBoot", f"{services}: restart with the next reboot{unproven}")
    message = f"{services}: `transom restart` restarts them{unproven}"
    return Condition("False", "PendingRestart", message)


def _explain_failed_fetch(egress: Egress, result: PassResult) -> str:
    """Return why the written settings are not in any service: the host's fetch failed. Empty if it succeeded."""
    if not result.begun and result.fetched == () and fetch.build_curl_configurations(egress):
        # an earlier pass has fetched: until one has, each pass does
        return ""
    verdict = fetch.build_fetch_result(egress, result.fetched)
    return f"; unproven: {verdict.message}" if verdict.works == "Unknown" else ""


def _build_egress_condition(egress: Egress, result: PassResult) -> Conditions:
    """Return the condition for the host's own fetch; none if there was no fetch, so that the earlier result stays."""
    if egress.readiness_endpoints and result.fetched == () and not result.begun:
        return {}
    verdict = fetch.build_fetch_result(egress, result.fetched)
    return {"EgressWorks": Condition(verdict.works, verdict.reason, verdict.message)}


def to_reason(error: HostError) -> str:
    """Return the kind of an error as a condition's reason."""
    return type(error).__name__


def build_node_ready_condition(node: HostNode | None, identity: Identity) -> Condition:
    """Return the condition for the host's Node."""
    if identity.refusal:
        return Condition("Unknown", identity.refusal, identity.message)
    if node is None:
        missing_node = f"Node {identity.name} does not exist" if identity.name else "no Windows Node has this host's address"
        return Condition("Unknown", "NoNode", missing_node)
    ready = node.ready
    if ready is None:
        return Condition("Unknown", "NotReported", f"the kubelet of Node {node.metadata.name} has not reported")
    status: Any = ready.status if ready.status in ("True", "False") else "Unknown"
    reason = ready.reason if ready.reason and _REASON.fullmatch(ready.reason) else "KubeletReady"
    return Condition(status, reason, f"as Node {node.metadata.name} says")


def merge_status(
    live: WindowsInstanceStatus, conditions: Conditions, fields: Fields, generation: int | None, now: datetime
) -> WindowsInstanceStatus:
    """Return the whole status: conditions and fields that are not passed stay unchanged.

    The record of the Node is written separately.
    """
    known = {condition.type for condition in live.conditions}
    conditions_by_type = {type_: _build_unknown_condition(type_) for type_ in TYPES[1:] if type_ not in known} | conditions
    rest = merge_conditions(live.conditions, conditions_by_type, TYPES[1:], generation, now, longest=_MAX_MESSAGE)
    ready = merge_conditions(
        live.conditions, {"Ready": _build_ready_condition(rest)}, TYPES[:1], generation, now, longest=_MAX_MESSAGE
    )
    shown_fields: dict[str, Any] = {name: escape_unprintable(text) for name, text in fields.items() if text is not None}
    if summary := shown_fields.pop("last_change", ""):
        summary = summary if len(summary) <= _MAX_MESSAGE else f"{summary[: _MAX_MESSAGE - 1]}…"
        shown_fields["last_change"] = LastChange(format_timestamp(now), summary)
    kept = without_record(live)
    return msgspec.structs.replace(kept, **shown_fields, conditions=(*ready, *rest), observed_generation=generation)


def _build_unknown_condition(type_: str) -> Condition:
    return _NOT_PROBED if type_ == "EgressWorks" else Condition("Unknown", "NotChecked", "the host has not been checked")


def _build_ready_condition(listed: Iterable[StatusCondition]) -> Condition:
    """Return the condition that tools wait for: the first other condition that prevents it, or True if none does."""
    conditions_by_type = {item.type: item for item in listed}
    for type_ in (*_NEEDED, "EgressWorks", "NodeReady"):
        status, reason = conditions_by_type[type_].status, conditions_by_type[type_].reason
        # a host need not be a node, nor have fetched anything; a kubelet that went silent is Unknown
        silent = type_ == "NodeReady" and (reason == "NotReported" or reason.startswith("NodeStatus"))
        if status == "False" or (status == "Unknown" and (type_ in _NEEDED or silent)):
            return Condition("False", reason, conditions_by_type[type_].message)
    return Condition("True", "Ready", "the host has the current settings")


def _build_reachable_condition(result: PassResult) -> Condition:
    error = result.error
    if isinstance(error, Unreachable | AuthenticationRefused | HostKeyChanged | HostKeyMissing | HostKeyUnusable):
        return Condition("False", to_reason(error), str(error))
    if result.before is not None:
        return Condition("True", "Connected", "the last pass read the host")
    if isinstance(error, KeyUnusable):
        return Condition("Unknown", "KeyInvalid", "Transom has no usable SSH key for the host")
    # logged in, and then something went wrong; a connection that ended is no reachable host
    return Condition("False", to_reason(error) if error else "NotRead", str(error) if error else "the host was not read")


def _list_remaining_steps(result: PassResult) -> tuple[Step, ...] | None:
    """Return the steps that a failed pass did not complete; None if that is unknown."""
    if result.error is None or isinstance(result.error, WrongEnvironmentType | ProfileNotWritten):
        return ()
    return result.plan.steps if result.plan is not None else None


def _build_proxy_condition(
    egress: Egress,
    remaining_steps: tuple[Step, ...] | None,
    error: HostError | None,
    pending: bool,
    unloaded: str,
    *,
    hides: bool,
) -> Condition:
    hidden = _HIDDEN if hides else ""
    if isinstance(error, WrongEnvironmentType | ServiceDisabled | ProfileNotWritten):
        return Condition("False", to_reason(error), str(error))
    if error is not None and (
        remaining_steps is None or any(step.kind in _PROXY_KINDS or step.action == "restart" for step in remaining_steps)
    ):
        return Condition("False", to_reason(error), str(error))
    if not (egress.http_proxy or egress.https_proxy):
        return Condition("True", "NotConfigured", f"no proxy is configured, and Transom has set none on the host{hidden}")
    if pending:
        return Condition("False", "PendingBoot", "the machine environment is set; services see it after the next reboot")
    if unloaded:
        return Condition("False", "ProfileNotLoaded", f"the managed services have the proxy settings, but {unloaded}")
    return Condition("True", "Applied", f"the managed services have the proxy settings{hidden}")


def _build_trust_condition(
    egress: Egress,
    state: ObservedState,
    remaining_steps: tuple[Step, ...] | None,
    error: HostError | None,
    cached: ledger.Ledger,
) -> Condition:
    if isinstance(error, ServiceDisabled) or (
        error is not None
        and (remaining_steps is None or any(step.kind == "certificate" or step.action == "restart" for step in remaining_steps))
    ):
        return Condition("False", to_reason(error), str(error))
    if not egress.trust:
        return Condition("True", "NotConfigured", "no trusted CA is configured, and Transom has added none to the host")
    store = certificates.get_store_path(certificates.DISALLOWED)
    distrusted = [item for item in egress.trust if state.registry.find_key(rf"{store}\{item.sha1}") is not None]
    if distrusted:
        subjects = ", ".join(item.subject for item in distrusted)
        return Condition("False", "Distrusted", f"the host's Disallowed store has {subjects}: Windows does not trust it")
    policy = [entry.subject for entries in cached.trust.values() for entry in entries.values() if entry.policy]
    left_out = f"; group policy holds, and was left, {', '.join(policy)}" if policy else ""
    return Condition("True", "Applied", f"{len(egress.trust)} certificates are in the host's stores{left_out}")


def _is_reboot_pending(egress: Egress, state: ObservedState, cached: ledger.Ledger) -> bool:
    """Return True if only the machine environment carries the settings and it was set since the last boot."""
    if egress.windows.environment_scope != "Machine":
        return False
    return any(variable.boot is not None and variable.boot == state.boot for variable in cached.environment.machine.values())


def format_summary(plan: Plan, restarted: tuple[str, ...]) -> str:
    """Return in one sentence for an event what a pass changed and what it left: names, never values."""
    done = [*_iter_variable_changes(plan.steps), *_iter_other_changes(plan.steps)]
    done += [f"restarted {', '.join(restarted)}"] if restarted else []
    return "; ".join((*(done or ["the ledger was brought in step with the settings"]), *plan.warnings[:_SHOWN]))


def describe_change(pass_result: PassResult) -> str:
    """Return what a pass changed, also if it failed on the way; empty if it changed nothing."""
    if not pass_result.plan or (pass_result.error is not None and not pass_result.begun):
        return ""
    what = format_summary(pass_result.plan, pass_result.restarted)
    return what if pass_result.error is None else f"{to_reason(pass_result.error)}; these changes are incomplete: {what}"


def _iter_variable_changes(steps: Iterable[Step]) -> Iterator[str]:
    """Iterate over phrases like `replaced HTTP_PROXY, HTTPS_PROXY of containerd, kubelet`."""
    names: dict[tuple[str, str], list[str]] = {}
    for step in steps:
        if step.kind in _PROXY_KINDS and step.action in _VERBS:
            place, _, name = step.target.partition(": ")
            names.setdefault((step.action, "the machine" if step.kind == "machine-environment" else place), []).append(name)
    places: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (action, place), listed in names.items():
        places.setdefault((action, tuple(listed)), []).append(place)
    for (action, listed_), where in places.items():
        yield f"{_VERBS[action]} {', '.join(listed_)} of {', '.join(where)}"


def _iter_other_changes(steps: Iterable[Step]) -> Iterator[str]:
    targets: dict[tuple[str, str], list[str]] = {}
    for step in steps:
        if step.kind in _NOUNS and step.action in _VERBS:
            targets.setdefault((step.action, step.kind), []).append(step.target)
    for (action, kind), listed in targets.items():
        yield f"{_VERBS[action]} {_NOUNS[kind]} {format_first(listed, _SHOWN)}"


_NOUNS: Final = {"certificate": "certificate", "service": "service", "file": "file", "directory": "directory"}
_VERBS: Final = {"add": "added", "replace": "replaced", "remove": "removed"}
_SHOWN: Final = 3
