"""`transom status`: a row for each object of Transom's, what is not ready first, and what stands around them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import msgspec

from transom.controllers.egress.host_counts import WAITS
from transom.diagnosis import Observed, Unread, Value
from transom.diagnosis.fields import at, condition, items, labels_of, mapping, meta, moment, name_of, namespace_of
from transom.pods.outdated import Outdated
from transom.pods.registration import NAME as REGISTRATION
from transom.proxy.layers import BASE
from transom.proxy.objects import LabelSelector
from transom.reasons import next_step, page_of

State = Literal["failed", "waiting", "ready"]
WAITING: Final = WAITS | {"Paused"}
"""Reasons of a host that is not there yet, or left alone, and with which nothing is wrong."""
NOT_SEEN: Final = "NotSeen"
SOON: Final = timedelta(days=30)
"""How long before its end a certificate is named."""
_LEASE: Final = "transom"
_ORDER: Final[tuple[State, ...]] = ("failed", "waiting", "ready")
_KINDS: Final = ("EgressProxy", "WindowsInstance")
_DURATION: Final = 15
"""Seconds of a lease that does not say it (LeaseSpec of `transom run`)."""


class ObjectStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One EgressProxy or WindowsInstance. `ready`: `True`, `False` or `Unknown`; of a host `address`, of settings the rest."""

    kind: str
    namespace: str | None
    name: str
    ready: str
    reason: str
    message: str
    address: str | None = None
    settings: str | None = None
    hosts: dict[str, int] = {}
    earliest_expiry: str | None = None
    since: str | None = None
    """Since when it is so."""
    next: str = ""
    """What there is to do; empty where nothing is, or nothing is known."""
    page: str = ""
    """Where the reason of what is not ready is told of."""

    @property
    def state(self) -> State:
        """What it means for people."""
        if self.ready == "True":
            return "ready"
        return "waiting" if self.reason in WAITING else "failed"


class RolloutStatus(msgspec.Struct, frozen=True):
    """How far the settings have come to the hosts of this cluster; `halted` says why no further host is begun."""

    total: int
    updated: int
    waiting: int
    failed: int
    halted: str = ""


class ClusterStatus(msgspec.Struct, frozen=True):
    """A workload cluster of Cluster API: its phase, and the EgressProxies that hold for it, the base first."""

    namespace: str
    name: str
    phase: str
    settings: tuple[str, ...]


class Expiry(msgspec.Struct, frozen=True, rename="camel"):
    """A bundle whose first certificate ends soon; `days` are negative when it has ended."""

    object: str
    not_after: str
    days: int


class Leader(msgspec.Struct, frozen=True):
    """Who works. `holder` is empty where nobody does; `working`: the lease is not over."""

    holder: str
    renewed: str | None
    working: bool


class WebhookState(msgspec.Struct, frozen=True):
    """Whether pods are given the settings, as the EgressProxy says; `registered`: the API server asks about some."""

    registered: bool
    reason: str = ""
    message: str = ""


class Running(msgspec.Struct, frozen=True):
    """A Deployment of Transom's."""

    image: str
    wanted: int
    available: int


class Overview(msgspec.Struct, frozen=True):
    """All of it. What is None could not be read, or is not known of a directory."""

    server: str
    objects: tuple[ObjectStatus, ...]
    rollout: RolloutStatus | None = None
    clusters: tuple[ClusterStatus, ...] | None = None
    certificates: tuple[Expiry, ...] = ()
    pods: tuple[Outdated, ...] | None = None
    webhook: WebhookState | None = None
    leader: Leader | None = None
    deployments: dict[str, Running] | None = None
    version: str = ""
    unread: tuple[Unread, ...] = ()


def overview(observed: Observed, pods: tuple[Outdated, ...] | None = None, version: str = "") -> Overview:
    """What is where. `pods` are those older than the settings, `version` is that of this program."""
    proxies = observed.of("EgressProxy")
    found = [*map(of_proxy, proxies), *map(of_host, observed.of("WindowsInstance"))]
    base = next((one for one in proxies if name_of(one) == BASE), None)
    return Overview(
        observed.source,
        tuple(sorted(found, key=by_urgency)),
        rollout=None if base is None else _rollout(base),
        clusters=_clusters(observed),
        certificates=tuple(ending(_ends(proxies), observed.now)),
        pods=pods,
        webhook=_webhook(observed, base),
        leader=leader(observed),
        deployments=_deployments(observed),
        version=version,
        unread=observed.unread,
    )


def by_urgency(one: ObjectStatus) -> tuple[object, ...]:
    """What rows are sorted by: what is not ready first."""
    # the settings are what hosts wait for: they come first among equals
    return _ORDER.index(one.state), _KINDS.index(one.kind), as_counted(one.name)


def as_counted(name: str) -> list[tuple[int, str]]:
    """What names are sorted by, so that `win-10` comes after `win-2`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", name)]


def of_proxy(value: Value) -> ObjectStatus:
    """A row for an EgressProxy."""
    status = mapping(value, "status")
    hosts = {str(key): count for key, count in mapping(status, "hosts").items() if isinstance(count, int)}
    expiry = at(status, "trustBundle", "earliestExpiry")
    made = _with_step(_ready("EgressProxy", value))
    return msgspec.structs.replace(made, settings=status.get("settings"), hosts=hosts, earliest_expiry=expiry)


def of_host(value: Value) -> ObjectStatus:
    """A row for a WindowsInstance."""
    made = msgspec.structs.replace(_ready("WindowsInstance", value), address=at(value, "spec", "address"))
    if at(value, "spec", "paused") is True:
        made = msgspec.structs.replace(made, reason="Paused", message="spec.paused is set: it is left alone")
    return _with_step(made)


def _with_step(one: ObjectStatus) -> ObjectStatus:
    if one.ready == "True":
        return one
    step = next_step(one.reason, one.name, one.namespace or "", one.address or "")
    return msgspec.structs.replace(one, next=step, page=page_of(one.reason))


def _ready(kind: str, value: Value) -> ObjectStatus:
    ready = condition(value, "Ready") or {
        "status": "Unknown",
        "reason": NOT_SEEN,
        "message": "no operator has looked at it",
        "lastTransitionTime": meta(value).get("creationTimestamp"),
    }
    said, reason, message = (str(ready.get(field) or "") for field in ("status", "reason", "message"))
    since = ready.get("lastTransitionTime")
    return ObjectStatus(kind, namespace_of(value), name_of(value), said, reason, message, since=since)


def _rollout(base: Value) -> RolloutStatus | None:
    hosts = at(base, "status", "hosts")
    if not isinstance(hosts, Mapping):
        return None
    total, updated, waiting, failed = (_count(hosts.get(field)) for field in ("total", "updated", "waiting", "failed"))
    halted = condition(base, "RolloutHalted")
    why = str(halted.get("message") or "") if halted.get("status") == "True" else ""
    return RolloutStatus(total, updated, waiting, failed, why)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _clusters(observed: Observed) -> tuple[ClusterStatus, ...] | None:
    if not observed.was_read("Cluster"):
        return None
    proxies = observed.of("EgressProxy")
    return tuple(
        ClusterStatus(
            namespace_of(one) or "",
            name_of(one),
            str(at(one, "status", "phase") or "Unknown"),
            tuple(sorted((name_of(each) for each in proxies if _selects(each, one)), key=lambda name: (name != BASE, name))),
        )
        for one in observed.of("Cluster")
    )


def _selects(proxy: Value, cluster: Value) -> bool:
    given = at(proxy, "spec", "clusterSelector")
    if given is None:
        return True
    try:
        return msgspec.convert(given, LabelSelector).matches(labels_of(cluster))
    except msgspec.ValidationError:
        return False


def _ends(proxies: Iterable[Value]) -> dict[str, str | None]:
    return {f"EgressProxy/{name_of(one)}": at(one, "status", "trustBundle", "earliestExpiry") for one in proxies}


def ending(ends: Mapping[str, str | None], now: datetime) -> Iterator[Expiry]:
    """The bundles, by the object that names them, whose first certificate ends soon."""
    for name, text in ends.items():
        end = moment(text)
        if text is not None and end is not None and end - now < SOON:
            yield Expiry(name, text, (end - now).days)


def _webhook(observed: Observed, base: Value | None) -> WebhookState | None:
    said = condition(base, "PodsInjected") if base is not None else {}
    if not observed.was_read("MutatingWebhookConfiguration") and not said:
        return None
    made = next((one for one in observed.of("MutatingWebhookConfiguration") if name_of(one) == REGISTRATION), None)
    reason, message = (str(said.get(field) or "") for field in ("reason", "message"))
    return WebhookState(made is not None and bool(made.get("webhooks")), reason, message)


def leader(observed: Observed) -> Leader | None:
    """Who works in Transom's namespace; None where that is not known."""
    if not observed.was_read("Lease"):
        return None
    lease = next((one for one in observed.own("Lease") if name_of(one) == _LEASE), {})
    holder, renewed = str(at(lease, "spec", "holderIdentity") or ""), at(lease, "spec", "renewTime")
    seconds, then = at(lease, "spec", "leaseDurationSeconds") or _DURATION, moment(renewed)
    working = bool(holder) and then is not None and (observed.now - then).total_seconds() < 2 * _count(seconds)
    return Leader(holder, renewed, working)


def _deployments(observed: Observed) -> dict[str, Running] | None:
    if not observed.was_read("Deployment"):
        return None
    return {name_of(one): _running(one) for one in observed.own("Deployment") if name_of(one).startswith("transom")}


def _running(deployment: Mapping[str, Any]) -> Running:
    containers = items(deployment, "spec", "template", "spec", "containers") or [{}]
    wanted, available = at(deployment, "spec", "replicas"), at(deployment, "status", "availableReplicas")
    return Running(str(containers[0].get("image") or ""), 1 if wanted is None else _count(wanted), _count(available))
