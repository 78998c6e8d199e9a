"""What is where in a cluster or a directory, and what looks wrong there: from objects to rows and findings. Pure.

`Observed` is what was read at one moment; with it, how its objects are looked at, and what for.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from transom.pods.environment import PodEgress
from transom.proxy.finding import Finding
from transom.proxy.settings import Effective

Value = dict[str, Any]
"""An object in plain values, as an API server gives it; texts of a Secret are `Secret`."""
OWN_KINDS: Final = ("EgressProxy", "WindowsInstance")


class Unread(msgspec.Struct, frozen=True, order=True):
    """Something that could not be read, and why."""

    what: str
    why: str


class Observed(msgspec.Struct, frozen=True):
    """All that is known. `source`: the server, or the paths. `undefined`: kinds of Transom's that the server does not know.

    `settings`, `findings` and `pod_egress` are None or empty where the objects that they are made of could not be read.
    """

    source: str
    namespace: str
    now: datetime
    objects: dict[str, tuple[Value, ...]]
    unread: tuple[Unread, ...] = ()
    undefined: tuple[str, ...] = ()
    live: bool = True
    """Whether this is a cluster, of which also what is not there is known."""
    kubernetes: str = ""
    settings: Effective | None = None
    findings: tuple[Finding, ...] = ()
    pod_egress: PodEgress | None = None
    elsewhere: tuple[tuple[str, str, str], ...] = ()
    """Kind, namespace and name of what the settings name, and what is in another namespace than Transom's."""

    def of(self, kind: str) -> tuple[Value, ...]:
        """The objects of a kind; none where it could not be read."""
        return self.objects.get(kind, ())

    def was_read(self, *kinds: str) -> bool:
        """Whether what there is of these kinds is known."""
        return all(kind in self.objects for kind in kinds)

    def own(self, kind: str) -> Iterator[Value]:
        """Those in Transom's own namespace."""
        return (one for one in self.of(kind) if namespace_of(one) == self.namespace)


def meta(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """`metadata`."""
    return mapping(value, "metadata")


def name_of(value: Mapping[str, Any]) -> str:
    """`metadata.name`."""
    return str(meta(value).get("name") or "")


def namespace_of(value: Mapping[str, Any]) -> str | None:
    """`metadata.namespace`."""
    namespace = meta(value).get("namespace")
    return None if namespace is None else str(namespace)


def labels_of(value: Mapping[str, Any]) -> dict[str, str]:
    """`metadata.labels`."""
    return {str(name): str(text) for name, text in mapping(value, "metadata", "labels").items()}


def label_of(kind: str, value: Mapping[str, Any]) -> str:
    """`Kind/name` or `Kind/namespace/name`."""
    return "/".join(filter(None, (kind, namespace_of(value), name_of(value))))


def at(value: Any, *path: str) -> Any:
    """What stands at a path of mappings; None where nothing does."""
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """The mapping at a path; an empty one where there is none."""
    found = at(value, *path)
    return found if isinstance(found, Mapping) else {}


def items(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """The mappings of a list at a path."""
    found = at(value, *path)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []


def conditions(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """`status.conditions`."""
    return items(value, "status", "conditions")


def condition(value: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """A condition; an empty one where it is not there."""
    return next((one for one in conditions(value) if one.get("type") == type_), {})


def moment(text: Any) -> datetime | None:
    """A time of an object (RFC 3339); None for what says none."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def age(now: datetime, then: datetime | None) -> str:
    """How long ago, as kubectl says it: `12s`, `5m`, `3h`, `4d`; empty where that is not known."""
    if then is None:
        return ""
    seconds = max(0, int((now - then).total_seconds()))
    for unit, least, size in (("d", 172_800, 86_400), ("h", 7_200, 3_600), ("m", 120, 60)):
        if seconds >= least:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


class Seen(msgspec.Struct, frozen=True):
    """Something that looks wrong: the object, what was seen of it, and the command that mends it."""

    object: str
    evidence: str
    command: str
    page: str = ""
    """Where more is told of it than of the check."""


class Check(msgspec.Struct, frozen=True):
    """One thing that is looked for, a row of `transom.diagnosis.checks`.

    `consequence` is what comes of it. `kinds` have to be read for it to be known. `live`: only a cluster can tell, since a
    directory need not hold everything.
    """

    id: str
    kinds: tuple[str, ...]
    look: Callable[[Observed], Iterator[Seen]]
    consequence: str
    live: bool = False


class Diagnosis(msgspec.Struct, frozen=True):
    """A finding of `transom doctor`."""

    id: str
    object: str
    evidence: str
    consequence: str
    command: str
    page: str
    """Where it is told of."""
