"""`transom status`: a row for each object of Transom's, what is not ready first, and what stands around them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import msgspec

from transom.common.mappings import get_nested_value
from transom.common.timestamps import parse_timestamp
from transom.controllers.egress.host_counts import WAITS
from transom.controllers.runtime.lease_annotations import FAILED_READS, MISSING_RIGHTS, REFUSED_WRITES
from transom.diagnosis.fields import get_condition, get_items, get_labels, get_mapping, get_metadata, get_name, get_namespace
from transom.diagnosis.snapshot import ClusterSnapshot, ReadFailure, Value
from transom.pods.outdated_pods import OutdatedWorkload
from transom.pods.webhook_configuration import NAME as REGISTRATION
from transom.proxy.layers import BASE
from transom.proxy.objects import LabelSelector
from transom.reasons.reason_table import find_reason_page, find_remedy

State = Literal["failed", "waiting", "ready"]
WAITING: Final = WAITS | {"Paused", "NotObserved"}
"""Reasons of a host that is in progress or left alone, and healthy."""
NOT_SEEN: Final = "NotSeen"
NOT_OBSERVED: Final = "NotObserved"
"""The object was edited since the operator last looked at it."""
STATUS_REFUSED: Final = "StatusRefused"
"""The operator cannot write the status: what it says may have changed since."""
STATUS_NEWER: Final = "StatusNewer"
"""The status is of a later edit than the object: a user restored etcd."""
REMOVING: Final = "Removing"
DIFFERS: Final = "Differs"
"""What is said of a host of a directory that `diff` found to differ: it waits for `apply`."""
SOON: Final = timedelta(days=30)
"""How long before its end a certificate is named."""
_LEASE: Final = "transom"
_ORDER: Final[tuple[State, ...]] = ("failed", "waiting", "ready")
_KINDS: Final = ("EgressProxy", "WindowsInstance")
_SKEW: Final = 2.0
"""Seconds that the clock of the operator may be ahead of this machine's without a second look."""
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
    """The next step; empty if there is none, or it is unknown."""
    page: str = ""
    """The page that describes the reason of the failure."""

    @property
    def state(self) -> State:
        """What it means for people."""
        if self.ready == "True":
            return "ready"
        if self.reason == REMOVING and self.next:
            return "failed"
        return "waiting" if self.reason in (*WAITING, DIFFERS) else "failed"


class RolloutStatus(msgspec.Struct, frozen=True):
    """How far the settings have come to the hosts of this cluster; `halted` says why no further host is started.

    `outdated`: why the numbers may be old, as the output notes: the settings were edited since, or the status is not written.
    """

    total: int
    updated: int
    waiting: int
    failed: int
    halted: str = ""
    outdated: str = ""


class ClusterStatus(msgspec.Struct, frozen=True):
    """A workload cluster of Cluster API: its phase, and its EgressProxies, the base first."""

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
    """The leader. `holder` is empty without one; `working`: the lease has not expired."""

    holder: str
    renewed: str | None
    working: bool
    duration: int = _DURATION
    """Seconds after its last renewal before another process takes the lease."""


class WebhookState(msgspec.Struct, frozen=True):
    """Whether pods are given the settings, as the EgressProxy says; `registered`: the API server asks about some."""

    registered: bool
    reason: str = ""
    message: str = ""


class DeploymentState(msgspec.Struct, frozen=True):
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
    pods: tuple[OutdatedWorkload, ...] | None = None
    webhook: WebhookState | None = None
    leader: Leader | None = None
    deployments: dict[str, DeploymentState] | None = None
    version: str = ""
    unread: tuple[ReadFailure, ...] = ()
    terminating: str = ""
    """Why nothing can be created in Transom's namespace: it is being deleted."""
    rights: tuple[str, ...] = ()
    """What Transom's ServiceAccounts may not do, though their options require it."""
    refused: str = ""
    """Which writes of the operator the API server refuses although it has the right."""
    failed_reads: str = msgspec.field(default="", name="failedReads")
    """Which kinds the operator cannot read although it has the right."""
    other_operators: tuple[str, ...] = msgspec.field(default=(), name="otherOperators")
    """Namespaces in which another operator leads, next to the leader here."""


def build_overview(observed: ClusterSnapshot, pods: tuple[OutdatedWorkload, ...] | None = None, version: str = "") -> Overview:
    """Build the overview. `pods` are those older than the settings, `version` is that of this program."""
    proxies = observed.list_objects("EgressProxy")
    who = find_leader(observed)
    works = who is not None and who.working
    base = next((proxy for proxy in proxies if get_name(proxy) == BASE), None)
    rows = [
        *(build_proxy_row(proxy, operator_works=works) for proxy in proxies),
        *(
            _mark_older(build_host_row(obj, operator_works=works), obj, base)
            for obj in observed.list_objects("WindowsInstance")
        ),
    ]
    unwritten = frozenset(iter_unwritten_statuses(observed))
    rows = [_mark_unwritten_status(row) if row.kind in unwritten else row for row in rows]
    rollout = None if base is None else _read_rollout(base)
    if rollout is not None and not rollout.outdated and who is not None and not who.working:
        rollout = msgspec.structs.replace(rollout, outdated="as last reported: no operator leads")
    elif rollout is not None and not rollout.outdated and "EgressProxy" in unwritten:
        rollout = msgspec.structs.replace(rollout, outdated="as last reported: the operator cannot write this status")
    return Overview(
        observed.source,
        tuple(sorted(rows, key=get_urgency_key)),
        rollout=rollout,
        clusters=_build_cluster_rows(observed),
        certificates=tuple(iter_expiring_bundles(_map_bundle_expiry(proxies), observed.now)),
        pods=pods,
        webhook=_read_webhook_state(observed, base),
        leader=who,
        deployments=_read_deployments(observed),
        version=version,
        unread=observed.unread,
        terminating=describe_termination(observed),
        rights=tuple(iter_missing_rights(observed)),
        refused=describe_refused_writes(observed),
        failed_reads=describe_failed_reads(observed),
        other_operators=tuple(list_other_operators(observed)) if works else (),
    )


def describe_termination(observed: ClusterSnapshot) -> str:
    """Return why nothing can be created in Transom's namespace; empty if it is not being deleted."""
    for obj in observed.list_objects("Namespace"):
        if get_name(obj) == observed.namespace and (since := get_metadata(obj).get("deletionTimestamp")):
            return f"namespace {observed.namespace} is being deleted since {since}: nothing can be created in it"
    return ""


def iter_missing_rights(observed: ClusterSnapshot) -> Iterator[str]:
    """Yield what the ServiceAccounts of Transom may not do, as the API server answered."""
    for obj in observed.list_objects("SubjectAccessReview"):
        if get_nested_value(obj, "status", "allowed") is False:
            yield f"{get_nested_value(obj, 'spec', 'user')} may not {get_name(obj)}"


def describe_refused_writes(observed: ClusterSnapshot) -> str:
    """Return which writes the API server refuses to the leader, as the leader notes on its lease; empty if none."""
    return _read_note(observed, REFUSED_WRITES)


def describe_failed_reads(observed: ClusterSnapshot) -> str:
    """Return which kinds the leader cannot read, as it notes on its lease; empty if none."""
    return _read_note(observed, FAILED_READS)


def list_noted_rights(observed: ClusterSnapshot) -> list[str]:
    """Return what the leader may not do, as it notes on its lease."""
    return [right for right in _read_note(observed, MISSING_RIGHTS).split("; ") if right]


def _read_note(observed: ClusterSnapshot, annotation: str) -> str:
    who = find_leader(observed)
    if who is None or not who.working:
        return ""
    lease = next((own_object for own_object in observed.iter_own_objects("Lease") if get_name(own_object) == _LEASE), {})
    return str(get_mapping(get_metadata(lease), "annotations").get(annotation) or "")


def iter_unwritten_statuses(observed: ClusterSnapshot) -> Iterator[str]:
    """Yield the kinds whose status the operator cannot write: the API server refuses it, or the right is missing."""
    refused = describe_refused_writes(observed)
    missing = list(iter_missing_rights(observed))
    for kind, resource in (("EgressProxy", "egressproxies"), ("WindowsInstance", "windowsinstances")):
        write = f"patch {resource}.transom.dev/status"
        if write in refused or any(write in right for right in missing):
            yield kind


def has_older_settings(instance: Value, base: Value | None) -> bool:
    """Return True if the settings of this cluster are newer than those by which a host was last judged."""
    if base is None or get_nested_value(instance, "spec", "clusterRef") is not None:
        return False
    settings = get_nested_value(base, "status", "settings")
    return bool(settings) and settings != get_nested_value(instance, "status", "settings")


def _mark_older(row: ObjectStatus, instance: Value, base: Value | None) -> ObjectStatus:
    judged = get_nested_value(instance, "status", "settings")
    if row.ready != "True" or row.reason == "Paused" or not judged or not has_older_settings(instance, base):
        return row
    return msgspec.structs.replace(row, ready="False", reason="Pending", message="it does not have the newest settings yet")


def _mark_unwritten_status(row: ObjectStatus) -> ObjectStatus:
    if row.ready != "True":
        return row
    message = f"the operator cannot write this status, which may be old ({row.reason})"
    row = msgspec.structs.replace(row, ready="Unknown", reason=STATUS_REFUSED, message=message)
    return _with_next_step(row, operator_works=True)


def get_urgency_key(row: ObjectStatus) -> tuple[object, ...]:
    """Return the sort key of rows: what is not ready comes first."""
    # the settings are what hosts wait for: they come first among equals
    return _ORDER.index(row.state), _KINDS.index(row.kind), get_natural_key(row.name)


def get_natural_key(name: str) -> list[tuple[int, str]]:
    """Return the sort key of names, so that `win-10` comes after `win-2`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", name)]


def build_proxy_row(value: Value, *, operator_works: bool = False) -> ObjectStatus:
    """Build the row of an EgressProxy."""
    status = get_mapping(value, "status")
    hosts = {str(key): count for key, count in get_mapping(status, "hosts").items() if isinstance(count, int)}
    expiry = get_nested_value(status, "trustBundle", "earliestExpiry")
    made = _with_next_step(_build_row("EgressProxy", value), operator_works=operator_works)
    return msgspec.structs.replace(made, settings=status.get("settings"), hosts=hosts, earliest_expiry=expiry)


def build_host_row(value: Value, *, operator_works: bool = False) -> ObjectStatus:
    """Build the row of a WindowsInstance."""
    made = msgspec.structs.replace(_build_row("WindowsInstance", value), address=get_nested_value(value, "spec", "address"))
    if get_nested_value(value, "spec", "paused") is True and made.reason != REMOVING:
        made = msgspec.structs.replace(made, reason="Paused", message="spec.paused is set: it is left alone")
    return _with_next_step(made, operator_works=operator_works)


def format_deletion_step(kind: str, name: str, namespace: str | None) -> str:
    """Return what ends a deletion without an operator. It changes no host."""
    place = f" -n {namespace}" if namespace else ""
    return f"""kubectl patch {kind.lower()} {name}{place} --type=merge -p '{{"metadata":{{"finalizers":null}}}}'"""


def _with_next_step(row: ObjectStatus, *, operator_works: bool) -> ObjectStatus:
    if row.ready == "True":
        return row
    if row.reason == REMOVING:
        step = (
            ""
            if operator_works
            else f"start the operator, or leave the host unchanged: {format_deletion_step(row.kind, row.name, row.namespace)}"
        )
        return msgspec.structs.replace(row, next=step, page=find_reason_page(row.reason))
    step = find_remedy(row.reason, row.name, row.namespace or "", row.address or "")
    return msgspec.structs.replace(row, next=step, page=find_reason_page(row.reason))


def _build_row(kind: str, value: Value) -> ObjectStatus:
    ready = get_condition(value, "Ready") or {
        "status": "Unknown",
        "reason": NOT_SEEN,
        "message": "no operator has looked at it",
        "lastTransitionTime": get_metadata(value).get("creationTimestamp"),
    }
    ready_status, reason, message = (str(ready.get(field) or "") for field in ("status", "reason", "message"))
    since = ready.get("lastTransitionTime")
    generation, observed = get_metadata(value).get("generation"), get_observed_generation(value)
    if deleted := get_metadata(value).get("deletionTimestamp"):
        waits = (
            f"it is being deleted, and waits for {', '.join(get_metadata(value).get('finalizers') or ()) or 'the API server'}"
        )
        details = f": {message}" if ready_status != "True" and message else ""
        ready_status, reason, message, since = "False", REMOVING, waits + details, deleted
    elif observed is not None and isinstance(generation, int) and observed != generation:
        last = f"{reason}: {message}" if message else reason
        if observed < generation:
            message = f"the operator has not looked at its newest edit (generation {generation}); of {observed} it said {last}"
            ready_status, reason = "Unknown", NOT_OBSERVED
        else:
            message = f"its status is of generation {observed}, the object of {generation}: etcd was restored"
            ready_status, reason = "Unknown", STATUS_NEWER
    return ObjectStatus(kind, get_namespace(value), get_name(value), ready_status, reason, message, since=since)


def get_observed_generation(value: Value) -> int | None:
    """Return the generation of which the condition Ready, or else the status, speaks; None if that is not known."""
    for item in (
        get_condition(value, "Ready").get("observedGeneration"),
        get_nested_value(value, "status", "observedGeneration"),
    ):
        if isinstance(item, int):
            return item
    return None


def _read_rollout(base: Value) -> RolloutStatus | None:
    hosts = get_nested_value(base, "status", "hosts")
    if not isinstance(hosts, Mapping):
        return None
    total, updated, waiting, failed = (_as_count(hosts.get(field)) for field in ("total", "updated", "waiting", "failed"))
    halted = get_condition(base, "RolloutHalted")
    why = str(halted.get("message") or "") if halted.get("status") == "True" else ""
    return RolloutStatus(total, updated, waiting, failed, why, _describe_outdated(base))


def _describe_outdated(base: Value) -> str:
    generation, observed = get_metadata(base).get("generation"), get_observed_generation(base)
    if observed is None or not isinstance(generation, int) or observed == generation:
        return ""
    return f"of generation {observed}; the object is of generation {generation}"


def _as_count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _build_cluster_rows(observed: ClusterSnapshot) -> tuple[ClusterStatus, ...] | None:
    if not observed.was_read("Cluster"):
        return None
    proxies = observed.list_objects("EgressProxy")
    return tuple(
        ClusterStatus(
            get_namespace(obj) or "",
            get_name(obj),
            str(get_nested_value(obj, "status", "phase") or "Unknown"),
            tuple(
                sorted((get_name(each) for each in proxies if _is_selected(each, obj)), key=lambda name: (name != BASE, name))
            ),
        )
        for obj in observed.list_objects("Cluster")
    )


def _is_selected(proxy: Value, cluster: Value) -> bool:
    cluster_selector = get_nested_value(proxy, "spec", "clusterSelector")
    if cluster_selector is None:
        return True
    try:
        return msgspec.convert(cluster_selector, LabelSelector).matches(get_labels(cluster))
    except msgspec.ValidationError:
        return False


def _map_bundle_expiry(proxies: Iterable[Value]) -> dict[str, str | None]:
    return {
        f"EgressProxy/{get_name(proxy)}": get_nested_value(proxy, "status", "trustBundle", "earliestExpiry")
        for proxy in proxies
    }


def iter_expiring_bundles(ends: Mapping[str, str | None], now: datetime) -> Iterator[Expiry]:
    """Iterate over the bundles whose first certificate expires soon, by the object that names them."""
    for name, text in ends.items():
        end = parse_timestamp(text)
        if text is not None and end is not None and end - now < SOON:
            yield Expiry(name, text, (end - now).days)


def _read_webhook_state(observed: ClusterSnapshot, base: Value | None) -> WebhookState | None:
    pods_condition = get_condition(base, "PodsInjected") if base is not None else {}
    if not observed.was_read("MutatingWebhookConfiguration") and not pods_condition:
        return None
    made = next((obj for obj in observed.list_objects("MutatingWebhookConfiguration") if get_name(obj) == REGISTRATION), None)
    reason, message = (str(pods_condition.get(field) or "") for field in ("reason", "message"))
    return WebhookState(made is not None and bool(made.get("webhooks")), reason, message)


def find_leader(observed: ClusterSnapshot) -> Leader | None:
    """Return the leader in Transom's namespace; None if it is unknown."""
    if not observed.was_read("Lease"):
        return None
    lease = next((own_object for own_object in observed.iter_own_objects("Lease") if get_name(own_object) == _LEASE), {})
    holder, renewed = str(get_nested_value(lease, "spec", "holderIdentity") or ""), get_nested_value(lease, "spec", "renewTime")
    duration = _as_count(get_nested_value(lease, "spec", "leaseDurationSeconds")) or _DURATION
    return Leader(holder, renewed, bool(holder) and _is_renewed(observed, lease), duration)


def list_other_operators(observed: ClusterSnapshot) -> list[str]:
    """Return the other namespaces whose Lease `transom` an operator renews: two of them write the same settings' status."""
    others = []
    for lease in observed.list_objects("Lease"):
        namespace = get_namespace(lease)
        then = parse_timestamp(get_nested_value(lease, "spec", "renewTime"))
        is_recent = then is not None and abs((observed.now - then).total_seconds()) < 2 * _DURATION
        if (
            get_name(lease) == _LEASE
            and namespace != observed.namespace
            and get_nested_value(lease, "spec", "holderIdentity")
            and is_recent
        ):
            others.append(str(namespace))
    return sorted(others)


def needs_lease_recheck(observed: ClusterSnapshot) -> bool:
    """Return True if one reading of the lease does not show whether it is renewed: the clocks of two machines may differ."""
    who = find_leader(observed)
    if observed.lease_renewing is not None or who is None or not who.holder:
        return False
    then = parse_timestamp(who.renewed)
    return then is None or not -_SKEW <= (observed.now - then).total_seconds() <= _DURATION


def _is_renewed(observed: ClusterSnapshot, lease: Mapping[str, Any]) -> bool:
    if observed.lease_renewing is not None:
        return observed.lease_renewing
    then = parse_timestamp(get_nested_value(lease, "spec", "renewTime"))
    # a stranger may have written any duration
    seconds = min(_as_count(get_nested_value(lease, "spec", "leaseDurationSeconds")) or _DURATION, _DURATION)
    return then is not None and (observed.now - then).total_seconds() < 2 * seconds


def _read_deployments(observed: ClusterSnapshot) -> dict[str, DeploymentState] | None:
    if not observed.was_read("Deployment"):
        return None
    return {
        get_name(own_object): _read_deployment_state(own_object)
        for own_object in observed.iter_own_objects("Deployment")
        if get_name(own_object).startswith("transom")
    }


def _read_deployment_state(deployment: Mapping[str, Any]) -> DeploymentState:
    containers = get_items(deployment, "spec", "template", "spec", "containers") or [{}]
    wanted, available = (
        get_nested_value(deployment, "spec", "replicas"),
        get_nested_value(deployment, "status", "availableReplicas"),
    )
    return DeploymentState(
        str(containers[0].get("image") or ""), 1 if wanted is None else _as_count(wanted), _as_count(available)
    )
