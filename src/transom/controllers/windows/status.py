"""The status of a WindowsInstance: conditions with their reasons, from what a pass found. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal

from transom.controllers.conditions import Verdict, Verdicts, timestamp
from transom.controllers.kept import HostNode
from transom.hosts.errors import AuthenticationRefused, HostError, HostKeyChanged, HostKeyUnusable, KeyUnusable, Unreachable
from transom.hosts.passes import PassResult
from transom.proxy.settings import Egress
from transom.windows import certificates, fetch, ledger
from transom.windows.plan import Plan
from transom.windows.state import HostState
from transom.windows.steps import Step

TYPES: Final = ("Reachable", "Configured", "ProxyApplied", "TrustApplied", "EgressWorks", "NodeReady", "RebootRequired")
_MAX_MESSAGE: Final = 1024
_PROXY_KINDS: Final = ("machine-environment", "service-environment")


_NOT_PROBED: Final = Verdict("Unknown", "NotProbed", "nothing was fetched from the host")


def not_connected(reason: str, message: str, *, configured: Literal["False", "Unknown"] = "False") -> Verdicts:
    """A host that is not connected to: what was known of it is no longer said of what it was told since."""
    return {"Configured": Verdict(configured, reason, message), "EgressWorks": _NOT_PROBED}


def after_pass(egress: Egress, found: PassResult) -> Verdicts:
    """What a pass says of the host."""
    error = found.error
    verdicts = _egress_works(egress, found) | {"Reachable": _reachable(found)}
    if error is None:
        verdicts["Configured"] = Verdict("True", "UpToDate", "the host is as the settings ask for")
    elif isinstance(error, KeyUnusable):
        verdicts["Configured"] = Verdict("False", "KeyInvalid", str(error))
    else:
        verdicts["Configured"] = Verdict("False", reason_of(error), str(error))
    state = found.after or found.before
    if state is None:
        unknown = Verdict("Unknown", verdicts["Configured"].reason, "the host could not be read")
        return verdicts | {"ProxyApplied": unknown, "TrustApplied": unknown}
    left = _left(found)
    held = _ledger(state)
    pending, put_off = _pending_boot(egress, state, held), _put_off(egress, held)
    verdicts["ProxyApplied"] = _proxy(egress, left, error, pending)
    verdicts["TrustApplied"] = _trust(egress, state, left, error, held)
    if put_off is not None:
        verdicts |= {type_: put_off for type_ in ("ProxyApplied", "TrustApplied") if verdicts[type_].status == "True"}
    boot = put_off is not None and put_off.reason == "PendingBoot"
    verdicts["RebootRequired"] = (
        Verdict("True", "PendingBoot", "services see the machine environment after the next boot")
        if pending
        else Verdict("True", "PendingBoot", put_off.message)
        if put_off is not None and boot
        else Verdict("False", "NotRequired", "nothing waits for a boot")
    )
    return verdicts


def left_out(why: str, found: PassResult, before: Egress | None, egress: Egress) -> Verdicts:
    """What is said of a host that a stopped rollout leaves as it was: with `before`, or as it was read."""
    verdict, steps = Verdict("False", "RolloutHalted", why), found.plan.steps if found.plan is not None else ()
    verdicts = {"Configured": verdict} | ({"Reachable": _reachable(found)} if found.before is not None else {})
    if any(step.kind in _PROXY_KINDS for step in steps) or (before is not None and before.variables != egress.variables):
        verdicts["ProxyApplied"] = verdict
    if any(step.kind == "certificate" for step in steps) or (before is not None and before.trust != egress.trust):
        verdicts["TrustApplied"] = verdict
    return verdicts


def _ledger(state: HostState) -> ledger.Ledger:
    """The host's; an empty one where it cannot be understood, which is then what went wrong with the pass."""
    try:
        return ledger.read(state.registry)
    except ledger.LedgerError:
        return ledger.Ledger()


def _put_off(egress: Egress, held: ledger.Ledger) -> Verdict | None:
    """What is said of settings that are on the host, while services that run do not have them."""
    services = ", ".join(held.deferred)
    if not services:
        return None
    if egress.windows.restart == "OnNextBoot":
        return Verdict("False", "PendingBoot", f"{services}: restarted by the next boot")
    return Verdict("False", "PendingRestart", f"{services}: annotate the WindowsInstance with transom.dev/restart to restart")


def _egress_works(egress: Egress, found: PassResult) -> Verdicts:
    """What the host's own fetch says; nothing where there was none, for what an earlier one said still holds then."""
    if egress.readiness_endpoints and found.fetched == () and not found.begun:
        return {}
    said = fetch.verdict(egress, found.fetched)
    return {"EgressWorks": Verdict(said.works, said.reason, said.message)}


def reason_of(error: HostError) -> str:
    """The kind of error as a condition's reason."""
    return type(error).__name__


def node_ready(node: HostNode | None, name: str | None) -> Verdict:
    """What the cluster says of the host's Node."""
    if node is None:
        there = f"there is no Node {name}" if name else "no Node has this host's address or name"
        return Verdict("Unknown", "NoNode", there)
    ready = node.ready
    if ready is None:
        return Verdict("Unknown", "NotReported", f"the kubelet of Node {node.metadata.name} has not reported")
    status: Any = ready.status if ready.status in ("True", "False") else "Unknown"
    return Verdict(status, ready.reason or "KubeletReady", f"as Node {node.metadata.name} says")


def merged(
    live: Mapping[str, Any], verdicts: Verdicts, fields: Mapping[str, str | None], generation: int | None, now: datetime
) -> dict[str, Any]:
    """The whole status: conditions and fields that nobody spoke of stay as they are, an empty one goes.

    The time of a condition is new where its status is another.
    """
    stamp = timestamp(now)
    held = {one.get("type"): one for one in live.get("conditions") or ()}
    conditions = list(_conditions(held, verdicts, generation, stamp))
    kept = {name: live[name] for name in _FIELDS if live.get(name) and fields.get(name) != ""}
    given = {name: value for name, value in fields.items() if value}
    status = {**kept, **given, "conditions": conditions}
    if generation is not None:
        status["observedGeneration"] = generation
    return status


_FIELDS: Final = (
    "nodeName",
    "hostKeyFingerprint",
    "keyHash",
    "osVersion",
    "payloadVersion",
    "stateHash",
    "lastChecked",
    "failedChanges",
)


def _conditions(
    held: Mapping[Any, Mapping[str, Any]], verdicts: Verdicts, generation: int | None, stamp: str
) -> Iterator[dict[str, Any]]:
    for type_ in TYPES:
        before, verdict = held.get(type_), verdicts.get(type_)
        if verdict is None and before is not None:
            yield dict(before)
            continue
        unknown = _NOT_PROBED if type_ == "EgressWorks" else Verdict("Unknown", "NotChecked", "the host has not been looked at")
        verdict = verdict or unknown
        same = before is not None and before.get("status") == verdict.status
        condition: dict[str, Any] = {
            "type": type_,
            "status": verdict.status,
            "reason": verdict.reason,
            "message": _shortened(verdict.message),
            "lastTransitionTime": before["lastTransitionTime"] if same and before else stamp,
        }
        if generation is not None:
            condition["observedGeneration"] = generation
        yield condition


def _shortened(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 1] + "…"


def _reachable(found: PassResult) -> Verdict:
    error = found.error
    if isinstance(error, Unreachable | AuthenticationRefused | HostKeyChanged | HostKeyUnusable):
        return Verdict("False", reason_of(error), str(error))
    if found.before is not None:
        return Verdict("True", "Connected", "the last pass read the host")
    if isinstance(error, KeyUnusable):
        return Verdict("Unknown", "KeyInvalid", "not connected to, for want of a key")
    # logged in, and then something went wrong; a connection that ended is no reachable host
    return Verdict("False", reason_of(error) if error else "NotRead", str(error) if error else "the host was not read")


def _left(found: PassResult) -> tuple[Step, ...] | None:
    """What a pass that failed has left undone; None where that is not known."""
    if found.error is None:
        return ()
    return found.plan.steps if found.plan is not None else None


def _proxy(egress: Egress, left: tuple[Step, ...] | None, error: HostError | None, pending: bool) -> Verdict:
    if error is not None and (left is None or any(step.kind in _PROXY_KINDS or step.action == "restart" for step in left)):
        return Verdict("False", reason_of(error), str(error))
    if not (egress.http_proxy or egress.https_proxy):
        return Verdict("True", "NotConfigured", "no proxy is set, and none of Transom's is on the host")
    if pending:
        return Verdict("False", "PendingBoot", "the machine environment is set; services see it after the next boot")
    return Verdict("True", "Applied", "the managed services have the proxy settings")


def _trust(
    egress: Egress, state: HostState, left: tuple[Step, ...] | None, error: HostError | None, held: ledger.Ledger
) -> Verdict:
    if error is not None and (left is None or any(step.kind == "certificate" or step.action == "restart" for step in left)):
        return Verdict("False", reason_of(error), str(error))
    if not egress.trust:
        return Verdict("True", "NotConfigured", "no trusted CA is set, and none of Transom's is on the host")
    store = certificates.store(certificates.DISALLOWED)
    distrusted = [one for one in egress.trust if state.registry.key(rf"{store}\{one.sha1}") is not None]
    if distrusted:
        subjects = ", ".join(one.subject for one in distrusted)
        return Verdict("False", "Distrusted", f"the host's Disallowed store has {subjects}: Windows does not trust it")
    policy = [one.subject for entries in held.certificates.values() for one in entries.values() if one.policy]
    left_out = f"; group policy holds, and was left, {', '.join(policy)}" if policy else ""
    return Verdict("True", "Applied", f"{len(egress.trust)} certificates are in the host's stores{left_out}")


def _pending_boot(egress: Egress, state: HostState, held: ledger.Ledger) -> bool:
    """Whether the machine environment alone carries the settings, and was set since the last boot."""
    if egress.windows.environment_scope != "Machine":
        return False
    return any(variable.boot is not None and variable.boot == state.boot for variable in held.machine.values())


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
