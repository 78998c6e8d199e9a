"""The status of a WindowsInstance: conditions with their reasons, from what a pass found. Pure."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from transom.controllers.instance.node_identities import without_record
from transom.controllers.runtime.cached import HostNode
from transom.controllers.runtime.conditions import PENDING, Condition, Conditions, Fields, merge
from transom.hosts.errors import (
    AuthenticationRefused,
    Fault,
    HostError,
    HostKeyChanged,
    HostKeyMissing,
    HostKeyUnusable,
    KeyUnusable,
    Unreachable,
    WrongEnvironmentType,
)
from transom.hosts.passes import PassResult
from transom.proxy.settings import Egress
from transom.proxy.status import StatusCondition
from transom.shown import shown
from transom.windows import ledger
from transom.windows.host import ObservedState, Step
from transom.windows.host.entries import LedgerError
from transom.windows.nodes import WindowsInstanceStatus, fetch
from transom.windows.nodes.node_identity import Identity
from transom.windows.parts import certificates
from transom.windows.planning import Plan

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
_PROXY_KINDS: Final = ("machine-environment", "service-environment")


_BY_SETTINGS: Final = ("Configured", "ProxyApplied", "TrustApplied", "EgressWorks")
_NEEDED: Final = ("Configured", "ProxyApplied", "TrustApplied")
_OF_A_PASS: Final = ("Configured", "ProxyApplied", "TrustApplied")
_NOT_LOOKED: Final = Condition("Unknown", Fault.__name__, "the Node was not looked at")
_NOT_PROBED: Final = Condition("Unknown", "NotProbed", "nothing was fetched from the host")


def not_connected(reason: str, message: str, *, configured: Literal["False", "Unknown"] = "False") -> Conditions:
    """A host that is not connected to: what was known of it is no longer said of what it was told since."""
    return {"Configured": Condition(configured, reason, message), "EgressWorks": _NOT_PROBED}


def paused() -> Conditions:
    """A host that a person has paused: nothing is said of it."""
    message = "spec.paused is set: the host is not connected to"
    return dict.fromkeys(TYPES[1:], Condition("Unknown", "Paused", message))


def outdated(live: WindowsInstanceStatus, conditions: Conditions) -> Conditions:
    """The conditions, with what would be True by settings that do not hold any more as it is: not yet."""
    before = {one.type: one.status for one in live.conditions}
    true = [
        type_ for type_ in _BY_SETTINGS if (conditions[type_].status if type_ in conditions else before.get(type_)) == "True"
    ]
    waits = Condition("False", PENDING, "the settings have changed, and it is not yet the host's turn")
    return conditions | dict.fromkeys(true, waits) | ({"EgressWorks": _NOT_PROBED} if "EgressWorks" in true else {})


def faulty(where: str) -> Conditions:
    """A fault of Transom itself, outside of a pass: what was known of the host is not known any more."""
    message = f"a fault of Transom itself ({where}); its log says where. Please report it; the host is tried again"
    return dict.fromkeys(_OF_A_PASS, Condition("Unknown", Fault.__name__, message)) | {"NodeReady": _NOT_LOOKED}


def after_pass(egress: Egress, found: PassResult) -> Conditions:
    """What a pass says of the host."""
    error = found.error
    conditions = _egress_works(egress, found) | {"Reachable": _reachable(found)}
    if error is None:
        conditions["Configured"] = Condition("True", "UpToDate", "the host is as the settings ask for")
    elif isinstance(error, KeyUnusable):
        conditions["Configured"] = Condition("False", "KeyInvalid", str(error))
    else:
        conditions["Configured"] = Condition("False", reason_of(error), str(error))
    if isinstance(error, Fault):
        return conditions | dict.fromkeys(_OF_A_PASS, Condition("Unknown", reason_of(error), str(error)))
    state = found.after or found.before
    if state is None:
        unknown = Condition("Unknown", conditions["Configured"].reason, "the host could not be read")
        return conditions | {"ProxyApplied": unknown, "TrustApplied": unknown}
    left = _left(found)
    cached = _ledger(state)
    pending, put_off = _pending_boot(egress, state, cached), _put_off(egress, cached, _unproven(egress, found))
    conditions["ProxyApplied"] = _proxy(egress, left, error, pending)
    conditions["TrustApplied"] = _trust(egress, state, left, error, cached)
    if put_off is not None:
        conditions |= {type_: put_off for type_ in ("ProxyApplied", "TrustApplied") if conditions[type_].status == "True"}
    boot = put_off is not None and put_off.reason == "PendingBoot"
    conditions["RebootRequired"] = (
        Condition("True", "PendingBoot", "services see the machine environment after the next boot")
        if pending
        else Condition("True", "PendingBoot", put_off.message)
        if put_off is not None and boot
        else Condition("False", "NotRequired", "nothing waits for a boot")
    )
    return conditions


def left_out(why: str, found: PassResult, before: Egress | None, egress: Egress) -> Conditions:
    """What is said of a host that a stopped rollout leaves as it was: with `before`, or as it was read."""
    condition, steps = Condition("False", "RolloutHalted", why), found.plan.steps if found.plan is not None else ()
    conditions = {"Configured": condition} | ({"Reachable": _reachable(found)} if found.before is not None else {})
    if any(step.kind in _PROXY_KINDS for step in steps) or (before is not None and before.variables != egress.variables):
        conditions["ProxyApplied"] = condition
    if any(step.kind == "certificate" for step in steps) or (before is not None and before.trust != egress.trust):
        conditions["TrustApplied"] = condition
    return conditions


def with_earlier(conditions: Conditions) -> Conditions:
    """What is said of a host that has joined in the middle of a rollout, and was given the settings that last passed."""
    message = "the host has the settings that last passed, and waits for its turn to get those that hold now"
    pending = Condition("False", "Pending", message)
    return {type_: pending for type_ in _OF_A_PASS if type_ in conditions and conditions[type_].status == "True"}


def held_settings(state: ObservedState | None) -> bool:
    """Whether something of proxy or trust was on the host."""
    return state is not None and _ledger(state).holds_settings


def _ledger(state: ObservedState) -> ledger.Ledger:
    """The host's; an empty one where it cannot be understood, which is then what went wrong with the pass."""
    try:
        return ledger.read(state.registry)
    except LedgerError:
        return ledger.Ledger()


def _put_off(egress: Egress, cached: ledger.Ledger, unproven: str) -> Condition | None:
    """What is said of settings that are on the host, while services that run do not have them."""
    services = ", ".join(cached.downtime.deferred)
    if not services:
        return None
    if egress.windows.restart == "OnNextBoot":
        return Condition("False", "PendingBoot", f"{services}: restarted by the next boot{unproven}")
    message = f"{services}: annotate the WindowsInstance with transom.dev/restart to restart{unproven}"
    return Condition("False", "PendingRestart", message)


def _unproven(egress: Egress, found: PassResult) -> str:
    """That the host has not fetched with what is written, and no service has it either; empty where it has fetched."""
    if not found.begun and found.fetched == () and fetch.configurations(egress):
        # an earlier pass has fetched: until one has, each pass does
        return ""
    said = fetch.judge(egress, found.fetched)
    return f"; unproven: {said.message}" if said.works == "Unknown" else ""


def _egress_works(egress: Egress, found: PassResult) -> Conditions:
    """What the host's own fetch says; nothing where there was none, for what an earlier one said still holds then."""
    if egress.readiness_endpoints and found.fetched == () and not found.begun:
        return {}
    said = fetch.judge(egress, found.fetched)
    return {"EgressWorks": Condition(said.works, said.reason, said.message)}


def reason_of(error: HostError) -> str:
    """The kind of error as a condition's reason."""
    return type(error).__name__


def node_ready(node: HostNode | None, identity: Identity) -> Condition:
    """What the cluster says of the host's Node."""
    if identity.refusal:
        return Condition("Unknown", identity.refusal, identity.message)
    if node is None:
        there = f"there is no Node {identity.name}" if identity.name else "no Windows Node has this host's address"
        return Condition("Unknown", "NoNode", there)
    ready = node.ready
    if ready is None:
        return Condition("Unknown", "NotReported", f"the kubelet of Node {node.metadata.name} has not reported")
    status: Any = ready.status if ready.status in ("True", "False") else "Unknown"
    reason = ready.reason if ready.reason and _REASON.fullmatch(ready.reason) else "KubeletReady"
    return Condition(status, reason, f"as Node {node.metadata.name} says")


def merged(
    live: WindowsInstanceStatus, conditions: Conditions, fields: Fields, generation: int | None, now: datetime
) -> WindowsInstanceStatus:
    """The whole status: conditions and fields that nobody spoke of stay as they are.

    What is recorded of the Node is written apart.
    """
    known = {one.type for one in live.conditions}
    said = {type_: _unknown(type_) for type_ in TYPES[1:] if type_ not in known} | conditions
    rest = merge(live.conditions, said, TYPES[1:], generation, now, longest=_MAX_MESSAGE)
    ready = merge(live.conditions, {"Ready": _ready(rest)}, TYPES[:1], generation, now, longest=_MAX_MESSAGE)
    given = {name: shown(text) for name, text in fields.items() if text is not None}
    kept = without_record(live)
    return msgspec.structs.replace(kept, **given, conditions=(*ready, *rest), observed_generation=generation)


def _unknown(type_: str) -> Condition:
    return _NOT_PROBED if type_ == "EgressWorks" else Condition("Unknown", "NotChecked", "the host has not been looked at")


def _ready(listed: Iterable[StatusCondition]) -> Condition:
    """What tools wait for: the first of the other conditions that stands in the way, or that none does."""
    said = {one.type: one for one in listed}
    for type_ in (*_NEEDED, "EgressWorks", "NodeReady"):
        status, reason = said[type_].status, said[type_].reason
        # a host need not be a node, nor have fetched anything; a kubelet that went silent is Unknown
        silent = type_ == "NodeReady" and (reason == "NotReported" or reason.startswith("NodeStatus"))
        if status == "False" or (status == "Unknown" and (type_ in _NEEDED or silent)):
            return Condition("False", reason, said[type_].message)
    return Condition("True", "Ready", "the host has the settings that hold")


def _reachable(found: PassResult) -> Condition:
    error = found.error
    if isinstance(error, Unreachable | AuthenticationRefused | HostKeyChanged | HostKeyMissing | HostKeyUnusable):
        return Condition("False", reason_of(error), str(error))
    if found.before is not None:
        return Condition("True", "Connected", "the last pass read the host")
    if isinstance(error, KeyUnusable):
        return Condition("Unknown", "KeyInvalid", "not connected to, for want of a key")
    # logged in, and then something went wrong; a connection that ended is no reachable host
    return Condition("False", reason_of(error) if error else "NotRead", str(error) if error else "the host was not read")


def _left(found: PassResult) -> tuple[Step, ...] | None:
    """What a pass that failed has left undone; None where that is not known."""
    if found.error is None or isinstance(found.error, WrongEnvironmentType):
        return ()
    return found.plan.steps if found.plan is not None else None


def _proxy(egress: Egress, left: tuple[Step, ...] | None, error: HostError | None, pending: bool) -> Condition:
    if isinstance(error, WrongEnvironmentType):
        return Condition("False", reason_of(error), str(error))
    if error is not None and (left is None or any(step.kind in _PROXY_KINDS or step.action == "restart" for step in left)):
        return Condition("False", reason_of(error), str(error))
    if not (egress.http_proxy or egress.https_proxy):
        return Condition("True", "NotConfigured", "no proxy is set, and none of Transom's is on the host")
    if pending:
        return Condition("False", "PendingBoot", "the machine environment is set; services see it after the next boot")
    return Condition("True", "Applied", "the managed services have the proxy settings")


def _trust(
    egress: Egress, state: ObservedState, left: tuple[Step, ...] | None, error: HostError | None, cached: ledger.Ledger
) -> Condition:
    if error is not None and (left is None or any(step.kind == "certificate" or step.action == "restart" for step in left)):
        return Condition("False", reason_of(error), str(error))
    if not egress.trust:
        return Condition("True", "NotConfigured", "no trusted CA is set, and none of Transom's is on the host")
    store = certificates.store(certificates.DISALLOWED)
    distrusted = [one for one in egress.trust if state.registry.key(rf"{store}\{one.sha1}") is not None]
    if distrusted:
        subjects = ", ".join(one.subject for one in distrusted)
        return Condition("False", "Distrusted", f"the host's Disallowed store has {subjects}: Windows does not trust it")
    policy = [one.subject for entries in cached.trust.values() for one in entries.values() if one.policy]
    left_out = f"; group policy holds, and was left, {', '.join(policy)}" if policy else ""
    return Condition("True", "Applied", f"{len(egress.trust)} certificates are in the host's stores{left_out}")


def _pending_boot(egress: Egress, state: ObservedState, cached: ledger.Ledger) -> bool:
    """Whether the machine environment alone carries the settings, and was set since the last boot."""
    if egress.windows.environment_scope != "Machine":
        return False
    return any(variable.boot is not None and variable.boot == state.boot for variable in cached.environment.machine.values())


def summary(plan: Plan, restarted: tuple[str, ...]) -> str:
    """What a pass changed, and what it left as it was, as one sentence for an event: names, and never a value."""
    done = [*_variables(plan.steps), *_others(plan.steps)]
    done += [f"restarted {', '.join(restarted)}"] if restarted else []
    return "; ".join((*(done or ["the ledger was brought in step with the settings"]), *plan.warnings[:_SHOWN]))


def _variables(steps: Iterable[Step]) -> Iterator[str]:
    """`replaced HTTP_PROXY, HTTPS_PROXY of containerd, kubelet`."""
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


def _others(steps: Iterable[Step]) -> Iterator[str]:
    targets: dict[tuple[str, str], list[str]] = {}
    for step in steps:
        if step.kind in _NOUNS and step.action in _VERBS:
            targets.setdefault((step.action, step.kind), []).append(step.target)
    for (action, kind), listed in targets.items():
        rest = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
        yield f"{_VERBS[action]} {_NOUNS[kind]} {', '.join(listed[:_SHOWN])}{rest}"


_NOUNS: Final = {"certificate": "certificate", "service": "service", "file": "file", "directory": "directory"}
_VERBS: Final = {"add": "added", "replace": "replaced", "remove": "removed"}
_SHOWN: Final = 3
