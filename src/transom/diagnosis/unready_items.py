"""What is missing until everything is as the settings ask for: what `transom status --wait` waits for. Pure."""

import enum
import fnmatch
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from transom.common.mappings import get_nested_value
from transom.diagnosis.fields import get_condition, get_metadata, get_name
from transom.diagnosis.host_requests import is_paused
from transom.diagnosis.overview import (
    Overview,
    build_host_row,
    describe_refused_writes,
    find_leader,
    get_natural_key,
    has_older_settings,
)
from transom.diagnosis.snapshot import ClusterSnapshot, Value
from transom.pods.outdated_pods import OutdatedWorkload
from transom.proxy.layers import BASE

_INJECTED: Final = ("", "Injected", "NotConfigured", "NoSettings")
"""Reasons of `PodsInjected` with which nothing is missing; empty: nothing is said of pods."""


class Part(enum.StrEnum):
    """A part of the status that can be waited for."""

    OPERATOR = "operator"
    SETTINGS = "settings"
    HOSTS = "hosts"
    WEBHOOK = "webhook"
    CLUSTERS = "clusters"
    PODS = "pods"


ALL_HOSTS: Final = (Part.OPERATOR, Part.SETTINGS, Part.HOSTS, Part.WEBHOOK, Part.CLUSTERS)
"""The default parts to wait for: all except pods, which users replace."""
SOME_HOSTS: Final = (Part.OPERATOR, Part.HOSTS)
"""What is waited for where hosts are named."""


class UnreadyItem(msgspec.Struct, frozen=True):
    """Something that is not ready, and why. `name` is empty where a part has but one object."""

    part: Part
    name: str
    reason: str
    message: str

    @property
    def display_name(self) -> str:
        """What it is called in a message."""
        return self.name or self.part.value

    @property
    def detail(self) -> str:
        """Why it is missing."""
        return f"{self.reason}: {self.message}" if self.message else self.reason


class WaitCriteria(msgspec.Struct, frozen=True):
    """What is waited for: these parts, and of hosts those that fit one of the patterns; without patterns all.

    `labels` is the selector by which the hosts were listed; empty: none.
    """

    parts: tuple[Part, ...]
    patterns: tuple[str, ...] = ()
    labels: str = ""


def find_unready(
    snapshot: ClusterSnapshot, status: Overview, wanted: WaitCriteria, pods: Sequence[OutdatedWorkload] | None = None
) -> tuple[UnreadyItem, ...]:
    """Return what is not ready yet. `pods` are those that are older than the settings, None where that is not known.

    What could not be read is not missing: `Overview.unread` names it.
    """
    missing: list[UnreadyItem] = []
    for part in wanted.parts:
        match part:
            case Part.OPERATOR:
                missing += _check_operator(snapshot)
            case Part.SETTINGS:
                missing += _check_settings(snapshot)
            case Part.HOSTS:
                missing += _check_hosts(snapshot, wanted)
            case Part.WEBHOOK:
                missing += _check_webhook(snapshot, status)
            case Part.CLUSTERS:
                missing += _check_clusters(snapshot)
            case Part.PODS:
                missing += _check_pods(pods)
    return tuple(missing)


def list_unread_parts(snapshot: ClusterSnapshot, parts: Collection[Part]) -> tuple[Part, ...]:
    """Return the parts of which nothing can be known, since what they are made of may not be read."""
    kinds = {
        Part.OPERATOR: "Lease",
        Part.SETTINGS: "EgressProxy",
        Part.HOSTS: "WindowsInstance",
        Part.WEBHOOK: "EgressProxy",
        Part.CLUSTERS: "EgressProxy",
    }
    return tuple(part for part in parts if part in kinds and not snapshot.was_read(kinds[part]))


def explain_halt(snapshot: ClusterSnapshot) -> str:
    """Return why a rollout is halted, by the current settings; empty if it is not halted."""
    base = _find_base(snapshot)
    if base is None or not _is_status_current(base):
        return ""
    halted = get_condition(base, "RolloutHalted")
    return str(halted.get("message") or "RolloutHalted") if halted.get("status") == "True" else ""


def list_waited_hosts(snapshot: ClusterSnapshot, patterns: Sequence[str]) -> list[str]:
    """Return the names of the hosts that are waited for."""
    return [get_name(item) for item in _select_hosts(snapshot, patterns)]


def _check_operator(snapshot: ClusterSnapshot) -> Iterator[UnreadyItem]:
    who = find_leader(snapshot)
    if who is not None and not who.working:
        yield UnreadyItem(Part.OPERATOR, "", "NotRunning", "no operator renews Lease/transom")
    if refused := describe_refused_writes(snapshot):
        yield UnreadyItem(Part.OPERATOR, "", "WriteRefused", refused)
    for own_object in snapshot.iter_own_objects("Deployment"):
        if not get_name(own_object).startswith("transom"):
            continue
        replicas = get_nested_value(own_object, "spec", "replicas")
        wanted = 1 if replicas is None else replicas
        available, updated = (
            get_nested_value(own_object, "status", field) or 0 for field in ("availableReplicas", "updatedReplicas")
        )
        if not _is_status_current(own_object) or min(available, updated) < wanted:
            message = f"{available} of {wanted} pods are available, {updated} are of the newest version"
            yield UnreadyItem(Part.OPERATOR, f"Deployment/{get_name(own_object)}", "NotAvailable", message)


def _check_settings(snapshot: ClusterSnapshot) -> Iterator[UnreadyItem]:
    proxies = snapshot.list_objects("EgressProxy")
    if snapshot.was_read("EgressProxy", "WindowsInstance") and not proxies and not snapshot.list_objects("WindowsInstance"):
        yield UnreadyItem(
            Part.SETTINGS, f"EgressProxy/{BASE}", "NotFound", "neither an EgressProxy nor a WindowsInstance exists"
        )
    for proxy in proxies:
        place, ready = f"EgressProxy/{get_name(proxy)}", get_condition(proxy, "Ready")
        if not _is_status_current(proxy):
            yield UnreadyItem(Part.SETTINGS, place, "NotObserved", "the operator has not looked at its newest edit")
        elif ready.get("status") != "True":
            yield UnreadyItem(Part.SETTINGS, place, str(ready.get("reason") or "NotObserved"), str(ready.get("message") or ""))


def _check_hosts(snapshot: ClusterSnapshot, wanted: WaitCriteria) -> Iterator[UnreadyItem]:
    names = {get_name(obj) for obj in snapshot.list_objects("WindowsInstance")}
    if wanted.labels and not names and snapshot.was_read("WindowsInstance"):
        yield UnreadyItem(Part.HOSTS, wanted.labels, "NotFound", "no WindowsInstance has these labels")
    for pattern in wanted.patterns:
        if not fnmatch.filter(names, pattern) and snapshot.was_read("WindowsInstance"):
            yield UnreadyItem(Part.HOSTS, pattern, "NotFound", "no such WindowsInstance")
    base = _find_base(snapshot)
    for item in _select_hosts(snapshot, wanted.patterns):
        if (missing := _check_host(item, base)) is not None:
            yield missing


def _check_host(instance: Value, base: Value | None) -> UnreadyItem | None:
    name, now, ready = get_name(instance), build_host_row(instance), get_condition(instance, "Ready")
    if is_paused(instance):
        return UnreadyItem(Part.HOSTS, name, "Paused", f"transom resume HOST -n {now.namespace}")
    if get_metadata(instance).get("deletionTimestamp"):
        return UnreadyItem(Part.HOSTS, name, "Removing", "the WindowsInstance is being deleted")
    if ready.get("observedGeneration") != get_metadata(instance).get("generation"):
        return UnreadyItem(Part.HOSTS, name, "NotObserved", "the operator has not looked at its newest edit")
    if now.ready != "True":
        return UnreadyItem(Part.HOSTS, name, now.reason, now.message)
    if base is None or get_nested_value(instance, "spec", "clusterRef") is not None:
        return None
    if get_condition(base, "Valid").get("status") == "False":
        return UnreadyItem(Part.HOSTS, name, "Invalid", f"EgressProxy/{BASE}: {get_condition(base, 'Valid').get('message')}")
    if not _is_status_current(base) or has_older_settings(instance, base):
        return UnreadyItem(Part.HOSTS, name, "Pending", "it does not have the newest settings yet")
    return None


def _select_hosts(snapshot: ClusterSnapshot, patterns: Sequence[str]) -> list[Value]:
    """Return the hosts to wait for; a paused one only if it is named."""
    listed = sorted(snapshot.list_objects("WindowsInstance"), key=lambda obj: get_natural_key(get_name(obj)))
    if not patterns:
        return [item for item in listed if not is_paused(item)]
    return [item for item in listed if any(fnmatch.fnmatchcase(get_name(item), pattern) for pattern in patterns)]


def _check_webhook(snapshot: ClusterSnapshot, status: Overview) -> Iterator[UnreadyItem]:
    base = _find_base(snapshot)
    if base is None or status.webhook is None or not _is_status_current(base):
        return
    if status.webhook.reason not in _INJECTED:
        yield UnreadyItem(Part.WEBHOOK, "", status.webhook.reason, status.webhook.message)


def _check_clusters(snapshot: ClusterSnapshot) -> Iterator[UnreadyItem]:
    for obj in snapshot.list_objects("EgressProxy"):
        for type_ in ("ClustersApplied", "Propagated"):
            cluster_condition = get_condition(obj, type_)
            if cluster_condition.get("status") == "False":
                place = f"EgressProxy/{get_name(obj)} {type_}"
                yield UnreadyItem(
                    Part.CLUSTERS, place, str(cluster_condition.get("reason")), str(cluster_condition.get("message") or "")
                )


def _check_pods(pods: Sequence[OutdatedWorkload] | None) -> Iterator[UnreadyItem]:
    for pod in pods or ():
        place = f"{pod.kind}/{pod.namespace}/{pod.name}"
        message = f"{pod.outdated} of {pod.pods} pods are older than the settings: {pod.restart or 'replace them'}"
        yield UnreadyItem(Part.PODS, place, "Outdated", message)


def _find_base(snapshot: ClusterSnapshot) -> Value | None:
    return next((obj for obj in snapshot.list_objects("EgressProxy") if get_name(obj) == BASE), None)


def _is_status_current(value: Value) -> bool:
    """Return True if the status has the object's current generation."""
    return bool(get_nested_value(value, "status", "observedGeneration") == get_metadata(value).get("generation"))
