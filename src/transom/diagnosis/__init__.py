"""What is where in a cluster or a directory, and what looks wrong there: from objects to rows and findings. Pure.

`Observed` is what was read at one moment; with it, what is looked for in its objects.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from transom.diagnosis.fields import namespace_of
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
