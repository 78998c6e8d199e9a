"""What is where in a cluster or a directory, and what looks wrong there: from objects to rows and findings. Pure.

`Observed` is the state that was read at one moment, with queries on its objects.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from transom.diagnosis.fields import get_namespace
from transom.pods.environment import PodEgress
from transom.proxy.finding import Finding
from transom.proxy.settings import ResolvedSettings
from transom.proxy.trust import Certificate

Value = dict[str, Any]
"""An object in plain values, as an API server gives it; texts of a Secret are `Secret`."""
OWN_KINDS: Final = ("EgressProxy", "WindowsInstance")


class ReadFailure(msgspec.Struct, frozen=True, order=True):
    """Something that could not be read, and why."""

    what: str
    why: str


class ClusterSnapshot(msgspec.Struct, frozen=True):
    """All that is known. `source`: the server, or the paths. `undefined`: kinds of Transom's that the server does not know.

    `settings`, `findings` and `pod_egress` are None or empty where the objects that they are made of could not be read.
    """

    source: str
    namespace: str
    now: datetime
    objects: dict[str, tuple[Value, ...]]
    unread: tuple[ReadFailure, ...] = ()
    undefined: tuple[str, ...] = ()
    live: bool = True
    """Whether this is a cluster, so that missing objects are known."""
    kubernetes: str = ""
    settings: ResolvedSettings | None = None
    bundles: dict[str, tuple[Certificate, ...]] | None = None
    """The certificates that each EgressProxy or Proxy names, by its label; None where their ConfigMaps could not be read."""
    findings: tuple[Finding, ...] = ()
    pod_egress: PodEgress | None = None
    machine_findings: tuple[Finding, ...] = ()
    """What is wrong with the machines of workload clusters."""
    lease_renewing: bool | None = None
    """Whether the lease was renewed between two readings; None: it was read once."""
    write_refusal: str = ""
    """Why the API server refuses a write, for whatever object; empty: it does not, or that was not asked."""
    elsewhere: tuple[tuple[str, str, str], ...] = ()
    """Kind, namespace and name of what the settings name, and what is in another namespace than Transom's."""

    def list_objects(self, kind: str) -> tuple[Value, ...]:
        """Return the objects of a kind; none if it could not be read."""
        return self.objects.get(kind, ())

    def was_read(self, *kinds: str) -> bool:
        """Return True if objects of these kinds were read."""
        return all(kind in self.objects for kind in kinds)

    def iter_own_objects(self, kind: str) -> Iterator[Value]:
        """Iterate over the objects of a kind in Transom's own namespace."""
        return (obj for obj in self.list_objects(kind) if get_namespace(obj) == self.namespace)


class Evidence(msgspec.Struct, frozen=True):
    """Something that looks wrong: the object, what was seen of it, and the command that fixes it in a cluster.

    `edit` is what to do about it in files; empty where the command does for both.
    """

    object: str
    evidence: str
    command: str
    page: str = ""
    """The page with more details than that of the check."""
    edit: str = ""


Need = Literal["manifests", "settings", "bundles", "status", "workloads", "cluster"]
"""What a check looks at: manifests as people write them; valid settings, or the CAs, out of them; the status that an operator
writes; the Pods and Nodes of a cluster; or also what a cluster has not."""


class Check(msgspec.Struct, frozen=True):
    """One check, a row of `transom.diagnosis.checks`.

    `consequence` is what comes of it. `kinds` have to be read for it to be known. Without what it `needs` it finds nothing,
    which says nothing: it counts as not made.
    """

    id: str
    kinds: tuple[str, ...]
    look: Callable[[ClusterSnapshot], Iterator[Evidence]]
    consequence: str
    needs: Need = "manifests"


class SkippedCheck(msgspec.Struct, frozen=True):
    """A check that could not be made, and why."""

    id: str
    why: str


class Diagnosis(msgspec.Struct, frozen=True):
    """A finding of `transom doctor`."""

    id: str
    object: str
    evidence: str
    consequence: str
    command: str
    page: str
    """The page that describes it."""
