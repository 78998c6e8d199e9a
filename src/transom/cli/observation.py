"""What is known of a cluster, for `transom status` and `transom doctor`: by a person who may read only some of it."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from transom.diagnosis.observed import OWN_KINDS, Observed, Unread, Value
from transom.kube.client import Client
from transom.kube.errors import NotFound, StatusError
from transom.kube.objects import Whole
from transom.kube.resources import EGRESS_PROXIES, REGISTRATIONS, WINDOWS_INSTANCES, Resource
from transom.kube.versions import PREFERRED, served
from transom.pods.registration import NAME as REGISTRATION

FORBIDDEN: Final = 403
LEASES: Final = Resource("coordination.k8s.io", "v1", "Lease", "leases", True, Whole)
DEPLOYMENTS: Final = Resource("apps", "v1", "Deployment", "deployments", True, Whole)
CLUSTERS: Final = Resource("cluster.x-k8s.io", PREFERRED, "Cluster", "clusters", True, Whole)


class Asked(msgspec.Struct, frozen=True):
    """A list that is asked for: of a namespace, or (None) of all."""

    resource: Resource[Whole]
    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    @property
    def what(self) -> str:
        """As people call it."""
        return f"{self.resource.plural} in {self.namespace}" if self.namespace else self.resource.plural


def asked_for_status(own: str, hosts_in: str | None, labels: str) -> tuple[Asked, ...]:
    """What `transom status` is made of; `hosts_in` is the namespace of the hosts, None for all."""
    return (
        Asked(EGRESS_PROXIES),
        Asked(WINDOWS_INSTANCES, hosts_in, labels),
        Asked(LEASES, own, fields="metadata.name=transom"),
        Asked(DEPLOYMENTS, own),
        Asked(REGISTRATIONS, fields=f"metadata.name={REGISTRATION}"),
        Asked(CLUSTERS),
    )


class Answers(msgspec.Struct, frozen=True):
    """Objects by kind, and what was not to be had. A kind that is neither was not read."""

    objects: dict[str, tuple[Value, ...]]
    unread: tuple[Unread, ...]
    undefined: tuple[str, ...]


async def answers(client: Client, asked: Sequence[Asked], *, needed: bool = True) -> Answers:
    """All of the lists. What this person may not read is in `unread`.

    Raises ApiError where the server does not answer, and where some of it is `needed` and nothing at all may be read.
    """
    objects: dict[str, list[Value]] = {}
    unread: list[Unread] = []
    refused: list[StatusError] = []
    undefined: list[str] = []
    for one, found in zip(asked, await asyncio.gather(*(_listed(client, each) for each in asked)), strict=True):
        kind = one.resource.kind
        if isinstance(found, StatusError):
            refused.append(found)
            unread.append(Unread(one.what, str(found)))
        elif found is None and kind in OWN_KINDS:
            undefined.append(kind)
        else:
            objects.setdefault(kind, []).extend(found or ())
    if needed and len(refused) == len(asked):
        raise refused[0]
    return Answers({kind: tuple(_distinct(found)) for kind, found in objects.items()}, tuple(unread), tuple(undefined))


def observed(found: Answers, source: str, namespace: str, now: datetime) -> Observed:
    """The answers as what is known of a cluster."""
    return Observed(source, namespace, now, found.objects, found.unread, found.undefined)


async def _listed(client: Client, asked: Asked) -> list[Value] | StatusError | None:
    """None where the server does not know the kind; an error that this person may not read it."""
    try:
        resource = await served(client, asked.resource)
        listing = await client.list_objects(resource, asked.namespace, labels=asked.labels, fields=asked.fields)
    except NotFound:
        return None
    except StatusError as error:
        if error.code != FORBIDDEN:
            raise
        return error
    # the items of a list leave their kind out
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**head, **one.value} for one in listing.items]


def _distinct(found: Iterable[Value]) -> Iterable[Value]:
    """Two lists may hold the same object."""
    by_key: dict[tuple[Any, Any], Value] = {}
    for one in found:
        meta = one.get("metadata") or {}
        by_key.setdefault((meta.get("namespace"), meta.get("name")), one)
    return by_key.values()
