"""What is known of a cluster, for `transom status` and `transom doctor`: by a person who may read only some of it."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from transom.cli import thin
from transom.diagnosis import OWN_KINDS, Observed, Unread, Value
from transom.diagnosis.newcomers import references
from transom.diagnosis.reading import sealed, with_settings
from transom.kube import NotFound, StatusError
from transom.kube.client import Client
from transom.kube.objects import Metadata, Whole
from transom.kube.resources import EGRESS_PROXIES, OPENSHIFT_PROXIES, REGISTRATIONS, SECRETS, WINDOWS_INSTANCES, Resource
from transom.kube.versions import PREFERRED, served
from transom.pods.registration import NAME as REGISTRATION
from transom.sources.api_server import DefinitionsMissing, load
from transom.sources.objects import Objects

FORBIDDEN: Final = 403
LEASES: Final = Resource("coordination.k8s.io", "v1", "Lease", "leases", True, Whole)
DEPLOYMENTS: Final = Resource("apps", "v1", "Deployment", "deployments", True, Whole)
CLUSTERS: Final = Resource("cluster.x-k8s.io", PREFERRED, "Cluster", "clusters", True, Whole)


class Asked(msgspec.Struct, frozen=True):
    """A list that is asked for: of a namespace, or (None) of all."""

    resource: Resource[Any]
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


def asked_by_doctor(own: str) -> tuple[Asked, ...]:
    """What `transom doctor` looks at. Of Secrets those in Transom's namespace alone."""
    return (
        Asked(EGRESS_PROXIES),
        Asked(WINDOWS_INSTANCES),
        Asked(OPENSHIFT_PROXIES),
        Asked(CLUSTERS),
        Asked(SECRETS, own),
        Asked(thin.CONFIG_MAPS),
        Asked(thin.NAMESPACES),
        Asked(thin.NODES),
        Asked(thin.PODS),
        Asked(thin.DAEMON_SETS),
        Asked(DEPLOYMENTS, own),
        Asked(LEASES, own, fields="metadata.name=transom"),
        Asked(REGISTRATIONS, fields=f"metadata.name={REGISTRATION}"),
    )


def observed(found: Answers, source: str, namespace: str, now: datetime) -> Observed:
    """The answers as what is known of a cluster."""
    return Observed(source, namespace, now, found.objects, found.unread, found.undefined)


async def _listed(client: Client, asked: Asked) -> list[Value] | StatusError | None:
    """None where the server does not know the kind; an error that this person may not read it."""
    try:
        resource = await served(client.get_json, asked.resource)
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


async def seen_by_doctor(client: Client, source: str, namespace: str, now: datetime) -> tuple[Observed, Objects | None]:
    """All that `transom doctor` looks at, and the settings where they may be read.

    Raises ApiError where the server does not answer, or nothing may be read.
    """
    version = await kubernetes_version(client)
    found = await answers(client, asked_by_doctor(namespace))
    seen = observed(found, source, namespace, now)
    seen = msgspec.structs.replace(seen, objects=sealed(seen.objects), kubernetes=version)
    seen = msgspec.structs.replace(seen, elsewhere=tuple(await _elsewhere(client, seen)))
    try:
        objects = await load(client, namespace)
    except DefinitionsMissing as error:
        objects = error.objects
    except StatusError as error:
        if error.code != FORBIDDEN:
            raise
        return msgspec.structs.replace(seen, unread=(*seen.unread, Unread("the settings", str(error)))), None
    return with_settings(seen, objects, client.connection.server), objects


async def kubernetes_version(client: Client) -> str:
    """The server's version; empty for who may not ask. Raises ApiError where it does not answer."""
    try:
        return str((await client.get_json("/version")).get("gitVersion") or "")
    except StatusError as error:
        if error.code != FORBIDDEN:
            raise
        return ""


async def _elsewhere(client: Client, seen: Observed) -> list[tuple[str, str, str]]:
    """Where in other namespaces there is something of the name that the settings name, as far as this person may look."""
    missing = [
        (kind, name)
        for kind, name, _ in references(seen)
        if seen.was_read(kind) and not any((one.get("metadata") or {}).get("name") == name for one in seen.own(kind))
    ]
    found: list[tuple[str, str, str]] = []
    for kind, name in missing:
        plural = {"Secret": "secrets", "ConfigMap": "configmaps"}[kind]
        resource = Resource("", "v1", kind, plural, True, Metadata)
        with contextlib.suppress(StatusError):
            listing = await client.list_objects(resource, fields=f"metadata.name={name}")
            found += [(kind, one.metadata.namespace or "", name) for one in listing.items]
    return found
