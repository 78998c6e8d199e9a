"""What is known of a cluster, for `transom status` and `transom doctor`: by a person who may read only some of it."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

import msgspec

from transom.capi.bootstrap.injection import LABEL
from transom.cli import projected_objects
from transom.diagnosis.fields import get_name
from transom.diagnosis.observed_state import with_settings, wrap_secret_values
from transom.diagnosis.overview import (
    NOT_OBSERVED,
    build_host_row,
    build_proxy_row,
    find_leader,
    list_noted_rights,
    needs_lease_recheck,
)
from transom.diagnosis.setup_mistakes import iter_references
from transom.diagnosis.snapshot import OWN_KINDS, ClusterSnapshot, ReadFailure, Value
from transom.kube.api_versions import PREFERRED, resolve_api_version
from transom.kube.client import Client
from transom.kube.errors import ApiError, NotFound, StatusError
from transom.kube.objects import Metadata, UnstructuredObject
from transom.kube.refusals import parse_missing_right
from transom.kube.resources import (
    EGRESS_PROXIES,
    NAMESPACES,
    OPENSHIFT_PROXIES,
    REGISTRATIONS,
    SECRETS,
    WINDOWS_INSTANCES,
    Resource,
)
from transom.pods.webhook_configuration import NAME as REGISTRATION
from transom.sources.api_server import DefinitionsMissing, load_objects
from transom.sources.objects import ObjectReader, Objects

FORBIDDEN: Final = 403
LEASES: Final = Resource("coordination.k8s.io", "v1", "Lease", "leases", True, UnstructuredObject)
DEPLOYMENTS: Final = Resource("apps", "v1", "Deployment", "deployments", True, UnstructuredObject)
_PROVIDER_GROUPS: Final = ("bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io")
BINDINGS: Final = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False, UnstructuredObject
)
RENEWED: Final = 5.0
"""Seconds in which an operator that works renews its lease (`transom run`: every 2 s), and looks at an edit."""
CLUSTERS: Final = Resource("cluster.x-k8s.io", PREFERRED, "Cluster", "clusters", True, UnstructuredObject)


class ListQuery(msgspec.Struct, frozen=True):
    """A requested list: of a namespace, or (None) of all."""

    resource: Resource[Any]
    namespace: str | None = None
    labels: str = ""
    fields: str = ""
    quiet: bool = False
    """Whether a missing right to read it is not reported."""

    @property
    def display_name(self) -> str:
        """As people call it."""
        return f"{self.resource.plural} in {self.namespace}" if self.namespace else self.resource.plural


def list_status_queries(namespace: str, hosts_namespace: str | None, labels: str) -> tuple[ListQuery, ...]:
    """Return the queries of `transom status`; `hosts_namespace` is the namespace of the hosts, None for all."""
    return (
        ListQuery(EGRESS_PROXIES),
        ListQuery(WINDOWS_INSTANCES, hosts_namespace, labels),
        ListQuery(LEASES, namespace, fields="metadata.name=transom"),
        ListQuery(DEPLOYMENTS, namespace),
        ListQuery(REGISTRATIONS, fields=f"metadata.name={REGISTRATION}"),
        ListQuery(CLUSTERS),
        ListQuery(projected_objects.NAMESPACES, fields=f"metadata.name={namespace}", quiet=True),
        ListQuery(LEASES, fields="metadata.name=transom", quiet=True),
    )


class QueryResults(msgspec.Struct, frozen=True):
    """Objects by kind, and what was not to be had. A kind that is neither was not read."""

    objects: dict[str, tuple[Value, ...]]
    unread: tuple[ReadFailure, ...]
    undefined: tuple[str, ...]


async def run_queries(client: Client, queries: Sequence[ListQuery], *, required: bool = True) -> QueryResults:
    """All of the lists. What this person may not read is in `unread`.

    Raises ApiError where the server does not answer, and where some of it is `required` and nothing at all may be read.
    """
    objects: dict[str, list[Value]] = {}
    unread: list[ReadFailure] = []
    refused: list[StatusError] = []
    undefined: list[str] = []
    for item, entry in zip(queries, await asyncio.gather(*(_list_values(client, each) for each in queries)), strict=True):
        kind = item.resource.kind
        if isinstance(entry, StatusError):
            refused.append(entry)
            if not item.quiet:
                unread.append(ReadFailure(item.display_name, str(entry)))
        elif entry is None and kind in OWN_KINDS:
            undefined.append(kind)
        else:
            objects.setdefault(kind, []).extend(entry or ())
    if required and len(refused) == len(queries):
        raise refused[0]
    return QueryResults(
        {kind: tuple(_iter_distinct_objects(obj)) for kind, obj in objects.items()}, tuple(unread), tuple(undefined)
    )


INSTALLATIONS: Final = Resource("operator.tigera.io", "v1", "Installation", "installations", False, UnstructuredObject)
"""Calico's settings for its operator."""


def list_doctor_queries(namespace: str) -> tuple[ListQuery, ...]:
    """Return the queries of `transom doctor`. It reads Secrets only in Transom's namespace."""
    return (
        ListQuery(EGRESS_PROXIES),
        ListQuery(WINDOWS_INSTANCES),
        ListQuery(OPENSHIFT_PROXIES),
        ListQuery(CLUSTERS),
        ListQuery(SECRETS, namespace),
        ListQuery(projected_objects.CONFIG_MAPS),
        ListQuery(projected_objects.NAMESPACES),
        ListQuery(projected_objects.NODES),
        ListQuery(projected_objects.PODS),
        ListQuery(projected_objects.DAEMON_SETS),
        ListQuery(projected_objects.SERVICES),
        ListQuery(INSTALLATIONS),
        ListQuery(DEPLOYMENTS, namespace),
        ListQuery(LEASES, namespace, fields="metadata.name=transom"),
        ListQuery(LEASES, fields="metadata.name=transom", quiet=True),
        ListQuery(REGISTRATIONS, fields=f"metadata.name={REGISTRATION}"),
        *(ListQuery(BINDINGS, fields=f"metadata.name={name}") for name in ("transom", "transom-webhook")),
    )


async def refresh_stale_objects(client: Client, snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return it with a second look at what one look does not show: whether the lease is renewed, and edits are observed.

    Raises ApiError.
    """
    unobserved = {
        kind: [obj for obj in snapshot.list_objects(kind) if row(obj).reason == NOT_OBSERVED]
        for kind, row in (("EgressProxy", build_proxy_row), ("WindowsInstance", build_host_row))
    }
    if not needs_lease_recheck(snapshot) and not any(unobserved.values()):
        return snapshot
    await asyncio.sleep(RENEWED)
    queries = (
        ListQuery(LEASES, snapshot.namespace, fields="metadata.name=transom"),
        ListQuery(LEASES, fields="metadata.name=transom", quiet=True),
        ListQuery(EGRESS_PROXIES),
        ListQuery(WINDOWS_INSTANCES),
    )
    answers = await run_queries(client, queries, required=False)
    kinds = {kind: objects for kind, objects in answers.objects.items() if kind == "Lease" or unobserved.get(kind)}
    later = msgspec.structs.replace(snapshot, objects={**snapshot.objects, **kinds})
    return msgspec.structs.replace(later, lease_renewing=_is_renewed(snapshot, later))


async def with_write_refusal(client: Client, snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return it with the API server's reason to refuse every write, if no operator leads: a full etcd answers reads.

    The request creates a Namespace that always exists (k8s.io/apiserver v0.36.3, admission plugin NamespaceLifecycle), so it
    changes nothing: the answer is 409. If etcd is full, it refuses the request before it compares the key (etcd v3.6.8,
    server/etcdserver/apply/apply.go, applierV3Capped.Txn). A request with `dryRun` does not reach etcd.
    """
    who = find_leader(snapshot)
    has_work = snapshot.list_objects("EgressProxy") or snapshot.list_objects("WindowsInstance")
    if who is None or who.working or not has_work:
        return snapshot
    namespace = {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": {"name": _IMMORTAL}}
    try:
        await client.request("POST", NAMESPACES.build_path(), None, namespace, retries=0)
    except StatusError as error:
        if parse_missing_right(str(error)) is not None:
            unread = ReadFailure("whether the API server accepts writes", str(error))
            return msgspec.structs.replace(snapshot, unread=(*snapshot.unread, unread))
        if error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
            # it exists; or a policy on Namespaces refuses this one, which says nothing of other objects
            return snapshot
        return msgspec.structs.replace(snapshot, write_refusal=str(error))
    except ApiError as error:
        return msgspec.structs.replace(snapshot, write_refusal=str(error))
    return snapshot


_IMMORTAL: Final = "default"


def _is_renewed(snapshot: ClusterSnapshot, later: ClusterSnapshot) -> bool | None:
    first, second = find_leader(snapshot), find_leader(later)
    if first is None or second is None:
        return None
    return (first.holder, first.renewed) != (second.holder, second.renewed)


def build_observed(cluster_answers: QueryResults, source: str, namespace: str, now: datetime) -> ClusterSnapshot:
    """Return the answers as the observed state of a cluster."""
    return ClusterSnapshot(source, namespace, now, cluster_answers.objects, cluster_answers.unread, cluster_answers.undefined)


async def _list_values(client: Client, query: ListQuery) -> list[Value] | StatusError | None:
    """None where the server does not know the kind; an error where it refuses the list."""
    try:
        resource = await resolve_api_version(client.get_json, query.resource)
        listing = await client.list_objects(resource, query.namespace, labels=query.labels, fields=query.fields)
    except NotFound:
        return None
    except StatusError as error:
        return error
    # the items of a list leave their kind out
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**head, **item.value} for item in listing.items]


def _iter_distinct_objects(values: Iterable[Value]) -> Iterable[Value]:
    """Two lists may hold the same object."""
    by_key: dict[tuple[Any, Any], Value] = {}
    for item in values:
        meta = item.get("metadata") or {}
        by_key.setdefault((meta.get("namespace"), meta.get("name")), item)
    return by_key.values()


async def observe_for_doctor(
    client: Client, source: str, namespace: str, now: datetime
) -> tuple[ClusterSnapshot, Objects | None]:
    """All that `transom doctor` looks at, and the settings where they may be read.

    Raises ApiError where the server does not answer, or nothing may be read.
    """
    version = await read_kubernetes_version(client)
    cluster_answers = await run_queries(client, list_doctor_queries(namespace))
    seen = await refresh_stale_objects(
        client, await with_missing_rights(client, build_observed(cluster_answers, source, namespace, now))
    )
    seen = await with_write_refusal(client, seen)
    seen = msgspec.structs.replace(seen, objects=wrap_secret_values(seen.objects), kubernetes=version)
    seen = msgspec.structs.replace(seen, elsewhere=tuple(await _find_in_other_namespaces(client, seen)))
    try:
        objects = await load_objects(client, namespace)
    except DefinitionsMissing as error:
        objects = error.objects
    except StatusError as error:
        return msgspec.structs.replace(seen, unread=(*seen.unread, ReadFailure("the settings", str(error)))), None
    values, unread = await list_labelled_provider_objects(client)
    reader = ObjectReader(namespace)
    for value in values:
        reader.add(value, client.connection.server, lambda _: (0, 0))
    by_name = {
        machine_object.place.object: machine_object
        for machine_object in (*objects.machine_objects, *reader.build_objects().machine_objects)
    }
    objects = msgspec.structs.replace(objects, machine_objects=tuple(by_name.values()))
    seen = msgspec.structs.replace(seen, unread=(*seen.unread, *unread))
    return with_settings(seen, objects, client.connection.server), objects


async def list_labelled_provider_objects(client: Client) -> tuple[list[Value], list[ReadFailure]]:
    """Return the objects of Cluster API's bootstrap and control plane providers that ask for entries, whatever their kind.

    And what this person may not list. Raises ApiError where the server does not answer.
    """
    queries: list[ListQuery] = []
    unread: list[ReadFailure] = []
    for group in _PROVIDER_GROUPS:
        try:
            version = (await client.get_json(f"/apis/{group}"))["preferredVersion"]["version"]
            resources = (await client.get_json(f"/apis/{group}/{version}"))["resources"]
        except NotFound:
            continue
        except StatusError as error:
            if error.code != FORBIDDEN:
                raise
            unread.append(ReadFailure(group, str(error)))
            continue
        for item in resources:
            if "/" not in item["name"] and "list" in item["verbs"]:
                resource = Resource(group, version, item["kind"], item["name"], True, UnstructuredObject)
                queries.append(ListQuery(resource, labels=f"{LABEL}=true"))
    answers = await run_queries(client, queries, required=False)
    return [value for values in answers.objects.values() for value in values], [*unread, *answers.unread]


async def with_missing_rights(client: Client, snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return it with what Transom's ServiceAccounts may not do, as the API server answers. Raises ApiError.

    If the user may not ask for the rights of others, or no Deployment says which rights the operator needs, these are the
    rights that the leader notes on its lease.
    """
    from transom.cli.install_facts import build_denial, read_missing_rights
    from transom.manifests.grants import NAME

    reviews, why = await read_missing_rights(client, snapshot)
    if why:
        snapshot = msgspec.structs.replace(snapshot, unread=(*snapshot.unread, ReadFailure("SubjectAccessReview", why)))
    if why or not any(get_name(item) == NAME for item in snapshot.iter_own_objects("Deployment")):
        account = f"system:serviceaccount:{snapshot.namespace}:{NAME}"
        reviews = (*reviews, *(build_denial(right, account) for right in list_noted_rights(snapshot)))
        if why and not reviews:
            return snapshot
    return msgspec.structs.replace(snapshot, objects={**snapshot.objects, "SubjectAccessReview": reviews})


async def read_kubernetes_version(client: Client) -> str:
    """Return the server's version; empty if access is denied. Raises ApiError if it does not answer."""
    try:
        return str((await client.get_json("/version")).get("gitVersion") or "")
    except StatusError as error:
        if error.code != FORBIDDEN:
            raise
        return ""


async def _find_in_other_namespaces(client: Client, snapshot: ClusterSnapshot) -> list[tuple[str, str, str]]:
    """Return objects in other namespaces that have a name from the settings, as far as the user may list them."""
    missing = [
        (kind, name)
        for kind, name, _ in iter_references(snapshot)
        if snapshot.was_read(kind)
        and not any((own_object.get("metadata") or {}).get("name") == name for own_object in snapshot.iter_own_objects(kind))
    ]
    matches: list[tuple[str, str, str]] = []
    for kind, name in missing:
        plural = {"Secret": "secrets", "ConfigMap": "configmaps"}[kind]
        resource = Resource("", "v1", kind, plural, True, Metadata)
        with contextlib.suppress(StatusError):
            listing = await client.list_objects(resource, fields=f"metadata.name={name}")
            matches += [(kind, item.metadata.namespace or "", name) for item in listing.items]
    return matches
