"""`transom status host NAME`: all that is known of one host, and what it waits for."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.common.counting import format_first
from transom.common.mappings import get_nested_value
from transom.common.timestamps import parse_timestamp
from transom.controllers.runtime.cached_objects import ORIGIN, SOURCE
from transom.diagnosis.fields import get_condition, get_conditions, get_mapping, get_metadata, get_name
from transom.diagnosis.overview import ObjectStatus, build_host_row, find_leader
from transom.diagnosis.snapshot import ClusterSnapshot, ReadFailure, Value
from transom.proxy.layers import BASE
from transom.proxy.objects import WindowsSettings
from transom.rollout import markers as marks

_EVENTS: Final = 10
_FACTS: Final = {
    "hostAddress": "SSH reaches it at",
    "osVersion": "Windows",
    "payloadVersion": "payload",
    "hostKeyFingerprint": "host key",
    "lastChecked": "last looked at",
    "nodeProof": "its Node is known by",
}


class ConditionRow(msgspec.Struct, frozen=True):
    """A condition of the host."""

    type: str
    status: str
    reason: str
    message: str
    since: str | None = None


class HostSettings(msgspec.Struct, frozen=True, rename="camel"):
    """What the host is to have and why. URLs are shown without userinfo. `current`: it was judged by these; None: not known."""

    source: str
    why: str
    http_proxy: str = ""
    https_proxy: str = ""
    no_proxy: str = ""
    certificates: int = 0
    services: tuple[str, ...] = ()
    restart: str = ""
    current: bool | None = None


class NodeRow(msgspec.Struct, frozen=True):
    """The Node that the host is."""

    name: str
    ready: str = ""
    version: str = ""
    cordoned: bool = False


class EventRow(msgspec.Struct, frozen=True):
    """What happened: a pass that changed something, a refusal."""

    at: str
    type: str
    reason: str
    message: str
    count: int = 1


class HostDetails(msgspec.Struct, frozen=True):
    """One host. `waits`: what it waits for, the nearest first; `changes`: how far each kind of change has come on it."""

    host: ObjectStatus
    lifecycle: str
    origin: str = ""
    settings: HostSettings | None = None
    node: NodeRow | None = None
    conditions: tuple[ConditionRow, ...] = ()
    facts: dict[str, str] = {}
    changes: dict[str, str] = {}
    waits: tuple[str, ...] = ()
    events: tuple[EventRow, ...] = ()
    unread: tuple[ReadFailure, ...] = ()


def build_host_details(observed: ClusterSnapshot, instance: Value) -> HostDetails:
    """Return the details of a host of a cluster."""
    status = get_mapping(instance, "status")
    origin = ": ".join(
        filter(
            None,
            (
                get_nested_value(get_metadata(instance), "labels", SOURCE),
                get_nested_value(get_metadata(instance), "annotations", ORIGIN),
            ),
        )
    )
    return HostDetails(
        build_host_row(instance),
        str(get_nested_value(instance, "spec", "lifecycle") or "Egress"),
        origin,
        settings=_build_settings(observed, instance),
        node=_build_node_row(observed, instance),
        conditions=tuple(_build_condition_row(item) for item in get_conditions(instance)),
        facts={words: str(status[field]) for field, words in _FACTS.items() if status.get(field)} | _get_last_change(status),
        changes={mark.kind: mark.state for mark in marks.parse_markers(status.get("changes"))},
        waits=tuple(_iter_wait_reasons(observed, instance)),
        events=tuple(_list_newest_events(observed.list_objects("Event"))),
        unread=observed.unread,
    )


def _get_last_change(status: Mapping[str, Any]) -> dict[str, str]:
    change = get_mapping(status, "lastChange")
    return {"last changed": f"{change.get('time')}: {change.get('summary')}"} if change.get("summary") else {}


def _build_condition_row(condition_value: Mapping[str, Any]) -> ConditionRow:
    type_, status, reason, message = (
        str(condition_value.get(field) or "") for field in ("type", "status", "reason", "message")
    )
    return ConditionRow(type_, status, reason, message, condition_value.get("lastTransitionTime"))


def _build_settings(observed: ClusterSnapshot, instance: Value) -> HostSettings | None:
    reference = get_nested_value(instance, "spec", "clusterRef")
    if isinstance(reference, Mapping):
        place = f"{reference.get('namespace') or get_metadata(instance).get('namespace')}/{reference.get('name')}"
        return HostSettings(f"Cluster/{place}", "spec.clusterRef names it: transom no-proxy merge, transom render show them")
    base = next((obj for obj in observed.list_objects("EgressProxy") if get_name(obj) == BASE), None)
    if base is None:
        return None
    base_status, windows = get_mapping(base, "status"), get_mapping(base, "spec", "windows")
    wanted, judged = base_status.get("settings"), get_nested_value(instance, "status", "settings")
    why = "the host belongs to this cluster"
    if get_condition(base, "Superseded").get("status") == "True":
        why = "with OpenShift's Proxy/cluster, which has the default settings"
    if get_condition(base, "Valid").get("status") == "False":
        why += "; its newest edit is invalid, and the last valid settings apply"
    default = WindowsSettings()
    http, https, no_proxy = (str(base_status.get(field) or "") for field in ("httpProxy", "httpsProxy", "noProxy"))
    return HostSettings(
        f"EgressProxy/{BASE}",
        why,
        http,
        https,
        no_proxy,
        certificates=int(get_nested_value(base_status, "trustBundle", "certificates") or 0),
        services=tuple(map(str, windows.get("services") or default.services)),
        restart=str(windows.get("restart") or default.restart),
        current=None if not wanted else judged == wanted,
    )


def _build_node_row(observed: ClusterSnapshot, instance: Value) -> NodeRow | None:
    name = get_nested_value(instance, "status", "nodeName")
    if not name:
        return None
    node = next((obj for obj in observed.list_objects("Node") if get_name(obj) == name), None)
    if node is None:
        return NodeRow(str(name))
    ready = str(get_condition(node, "Ready").get("status") or "Unknown")
    version = str(get_nested_value(node, "status", "nodeInfo", "kubeletVersion") or "")
    return NodeRow(str(name), ready, version, get_nested_value(node, "spec", "unschedulable") is True)


def _iter_wait_reasons(observed: ClusterSnapshot, instance: Value) -> Iterator[str]:
    mine = build_host_row(instance)
    if mine.ready == "True":
        return
    if (who := find_leader(observed)) is not None and not who.working:
        yield "an operator: the lease has no holder, so no work starts on any host"
    if mine.next:
        yield f"you: {mine.next}"
    if mine.reason not in ("Pending", "RolloutHalted", "NotChecked"):
        return
    base = next((obj for obj in observed.list_objects("EgressProxy") if get_name(obj) == BASE), {})
    ready = get_condition(base, "Ready")
    if ready.get("status") == "False" and ready.get("reason") in ("Invalid", "EndpointFailed"):
        yield f"EgressProxy/{BASE}: {ready.get('message')}"
    come: dict[str, list[str]] = {}
    for item in observed.list_objects("WindowsInstance"):
        for mark in marks.parse_markers(get_nested_value(item, "status", "changes")):
            words = "halted the rollout" if mark.halted else _COME.get(mark.state)
            if words and get_name(item) not in (mine.name, *come.get(words, ())):
                come.setdefault(words, []).append(get_name(item))
    for words, names in come.items():
        yield f"{format_first(names, _NAMED)}, which {words}"


_COME: Final = {
    "begun": "began the change and have not ended it",
    "refuted": "have no egress with the change",
    "failed": "failed",
}
_NAMED: Final = 3


def _list_newest_events(events: Iterable[Value]) -> list[EventRow]:
    """Return the newest events in their order."""
    rows = [
        EventRow(
            str(item.get("lastTimestamp") or item.get("eventTime") or get_metadata(item).get("creationTimestamp") or ""),
            str(item.get("type") or ""),
            str(item.get("reason") or ""),
            str(item.get("message") or ""),
            int(item.get("count") or 1),
        )
        for item in events
    ]
    return sorted(rows, key=lambda row: (parse_timestamp(row.at) is not None, row.at))[-_EVENTS:]
