"""`transom status host NAME`: all that is known of one host, and what it waits for."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.controllers.rollout import marks
from transom.controllers.runtime.cached import ORIGIN, SOURCE
from transom.diagnosis import Observed, Unread, Value
from transom.diagnosis.fields import at, condition, conditions, mapping, meta, moment, name_of
from transom.diagnosis.overview import ObjectStatus, leader, of_host
from transom.proxy.layers import BASE
from transom.proxy.objects import WindowsSettings

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


class Story(msgspec.Struct, frozen=True):
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
    unread: tuple[Unread, ...] = ()


def story(observed: Observed, instance: Value) -> Story:
    """The story of a host of a cluster."""
    told = mapping(instance, "status")
    origin = ": ".join(filter(None, (at(meta(instance), "labels", SOURCE), at(meta(instance), "annotations", ORIGIN))))
    return Story(
        of_host(instance),
        str(at(instance, "spec", "lifecycle") or "Egress"),
        origin,
        settings=_settings(observed, instance),
        node=_node(observed, instance),
        conditions=tuple(_row(one) for one in conditions(instance)),
        facts={words: str(told[field]) for field, words in _FACTS.items() if told.get(field)},
        changes={mark.kind: mark.state for mark in marks.read(told.get("changes"))},
        waits=tuple(_waits(observed, instance)),
        events=tuple(_events(observed.of("Event"))),
        unread=observed.unread,
    )


def _row(one: Mapping[str, Any]) -> ConditionRow:
    type_, said, reason, message = (str(one.get(field) or "") for field in ("type", "status", "reason", "message"))
    return ConditionRow(type_, said, reason, message, one.get("lastTransitionTime"))


def _settings(observed: Observed, instance: Value) -> HostSettings | None:
    reference = at(instance, "spec", "clusterRef")
    if isinstance(reference, Mapping):
        place = f"{reference.get('namespace') or meta(instance).get('namespace')}/{reference.get('name')}"
        return HostSettings(f"Cluster/{place}", "spec.clusterRef names it: transom no-proxy merge, transom render show them")
    base = next((one for one in observed.of("EgressProxy") if name_of(one) == BASE), None)
    if base is None:
        return None
    told, windows = mapping(base, "status"), mapping(base, "spec", "windows")
    wanted, judged = told.get("settings"), at(instance, "status", "settings")
    why = "the host is of this cluster, whose settings it is"
    if condition(base, "Superseded").get("status") == "True":
        why = "with OpenShift's Proxy/cluster, which is the base"
    if condition(base, "Valid").get("status") == "False":
        why += "; its newest edit is invalid, and what was valid before holds"
    default = WindowsSettings()
    http, https, no_proxy = (str(told.get(field) or "") for field in ("httpProxy", "httpsProxy", "noProxy"))
    return HostSettings(
        f"EgressProxy/{BASE}",
        why,
        http,
        https,
        no_proxy,
        certificates=int(at(told, "trustBundle", "certificates") or 0),
        services=tuple(map(str, windows.get("services") or default.services)),
        restart=str(windows.get("restart") or default.restart),
        current=None if not wanted else judged == wanted,
    )


def _node(observed: Observed, instance: Value) -> NodeRow | None:
    name = at(instance, "status", "nodeName")
    if not name:
        return None
    node = next((one for one in observed.of("Node") if name_of(one) == name), None)
    if node is None:
        return NodeRow(str(name))
    ready = str(condition(node, "Ready").get("status") or "Unknown")
    version = str(at(node, "status", "nodeInfo", "kubeletVersion") or "")
    return NodeRow(str(name), ready, version, at(node, "spec", "unschedulable") is True)


def _waits(observed: Observed, instance: Value) -> Iterator[str]:
    mine = of_host(instance)
    if mine.ready == "True":
        return
    if (who := leader(observed)) is not None and not who.working:
        yield "an operator: nobody holds the lease, so nothing is begun on any host"
    if mine.next:
        yield f"you: {mine.next}"
    if mine.reason not in ("Pending", "RolloutHalted", "NotChecked"):
        return
    base = next((one for one in observed.of("EgressProxy") if name_of(one) == BASE), {})
    ready = condition(base, "Ready")
    if ready.get("status") == "False" and ready.get("reason") in ("Invalid", "EndpointFailed"):
        yield f"EgressProxy/{BASE}: {ready.get('message')}"
    come: dict[str, list[str]] = {}
    for one in observed.of("WindowsInstance"):
        for mark in marks.read(at(one, "status", "changes")):
            words = "halted the rollout" if mark.halted else _COME.get(mark.state)
            if words and name_of(one) not in (mine.name, *come.get(words, ())):
                come.setdefault(words, []).append(name_of(one))
    for words, names in come.items():
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        yield f"{', '.join(names[:_NAMED])}{more}, which {words}"


_COME: Final = {
    "begun": "began the change and have not ended it",
    "refuted": "have no egress with the change",
    "failed": "failed",
}
_NAMED: Final = 3


def _events(found: Iterable[Value]) -> list[EventRow]:
    """The newest, in their order."""
    rows = [
        EventRow(
            str(one.get("lastTimestamp") or one.get("eventTime") or meta(one).get("creationTimestamp") or ""),
            str(one.get("type") or ""),
            str(one.get("reason") or ""),
            str(one.get("message") or ""),
            int(one.get("count") or 1),
        )
        for one in found
    ]
    return sorted(rows, key=lambda row: (moment(row.at) is not None, row.at))[-_EVENTS:]
