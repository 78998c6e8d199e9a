"""What `transom check` reads of a cluster: objects, the answers of access reviews, and what a registry says of the image."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import aiohttp
import msgspec
from yarl import URL

from transom.cli.commands.manifests import build_api_resource
from transom.cli.observation import DEPLOYMENTS, ListQuery, read_kubernetes_version, run_queries
from transom.common.mappings import get_nested_value
from transom.diagnosis.fields import get_items
from transom.diagnosis.installation import PEERS, ClusterFacts, ImageAnswer, Right, Rights
from transom.diagnosis.snapshot import ClusterSnapshot
from transom.http.downloads import Route
from transom.kube.client import Client
from transom.kube.errors import StatusError
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import NODES, Resource
from transom.manifests import admission
from transom.manifests.definitions import GROUP, KINDS
from transom.manifests.grants import NAME, Grants
from transom.manifests.install import build_objects
from transom.manifests.roles import ALWAYS, GRANTS, parse_controllers
from transom.manifests.templates import OWN
from transom.manifests.values import Values, to_json_data
from transom.windows.payload.registries import get_registry_host

_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, UnstructuredObject
)
_BINDINGS: Final = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False, UnstructuredObject
)
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"
_AT_ONCE: Final = 16
_SECONDS: Final = 10
"""Seconds that a registry has to answer."""
_MEDIA_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"
)


async def read_cluster_facts(client: Client, namespace: str) -> ClusterFacts:
    """Return what is known of the cluster. Raises ApiError where the server does not answer."""
    version = await read_kubernetes_version(client)
    groups = frozenset(str(item.get("name")) for item in get_items(await client.get_json("/apis"), "groups"))
    queries = [
        *(ListQuery(DEPLOYMENTS, fields=f"metadata.name={name}") for name in (NAME, *PEERS)),
        ListQuery(NODES, labels="kubernetes.io/os=windows"),
        *(ListQuery(_DEFINITIONS, fields=f"metadata.name={kind.plural}.{GROUP}") for kind in KINDS),
        ListQuery(_BINDINGS, fields=f"metadata.name={NAME}"),
    ]
    cluster_answers = await run_queries(client, queries, required=False)
    kinds = {item.display_name: item.resource.kind for item in queries}
    return ClusterFacts(
        namespace,
        version,
        groups,
        {
            str(get_nested_value(item, "metadata", "name")): item
            for item in cluster_answers.objects.get("CustomResourceDefinition", ())
        },
        next(iter(cluster_answers.objects.get("ClusterRoleBinding", ())), None),
        cluster_answers.objects.get("Deployment", ()),
        cluster_answers.objects.get("Node", ()),
        {kinds[item.what]: item.why for item in cluster_answers.unread},
    )


async def read_own_rights(client: Client, namespace: str, groups: frozenset[str]) -> tuple[Rights, str | None]:
    """Return what this person lacks to create what `transom manifests` prints, and why its roles would be refused."""
    values = Values(openshift="config.openshift.io" in groups)
    made = build_objects(to_json_data(values), namespace)
    wanted = [
        Right(verb, kind.group, kind.plural, str(item["metadata"].get("namespace") or ""))
        for item in made
        for kind in (build_api_resource(item),)
        for verb in ("get", "create", "patch")
    ]
    rights = await _review_rights(client, wanted, "selfsubjectaccessreviews", {})
    if rights.missing or rights.why:
        return rights, None
    return rights, await _explain_refused_roles(client, [item for item in made if item["kind"] == "ClusterRole"])


async def _explain_refused_roles(client: Client, roles: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why the server would refuse the roles: their creator must hold their rights (Kubernetes, "Using RBAC")."""
    for role in roles:
        path = build_api_resource(role).build_path(None, role["metadata"]["name"])
        query = {"fieldManager": NAME, "force": "true", "dryRun": "All"}
        try:
            await client.request("PATCH", path, query, role, content_type="application/apply-patch+yaml")
        except StatusError as error:
            return f"ClusterRole {role['metadata']['name']}: {str(error)[:300]}"
    return None


async def read_account_rights(client: Client, namespace: str, deployment: Mapping[str, Any] | None) -> Rights:
    """Return which rights of its roles the operator's ServiceAccount lacks, by the controllers that its Deployment runs."""
    account = _format_account(namespace, deployment, NAME)
    openshift = await _has_group(client, "config.openshift.io")
    wanted = list(_list_role_rights(namespace, _list_controllers(deployment), openshift=openshift))
    return await _review_rights(client, wanted, "subjectaccessreviews", _build_subject(namespace, account))


async def _has_group(client: Client, name: str) -> bool:
    try:
        groups = get_items(await client.get_json("/apis"), "groups")
    except StatusError:
        # by default every authenticated user may read it (ClusterRole system:discovery)
        return False
    return any(item.get("name") == name for item in groups)


async def read_missing_rights(client: Client, snapshot: ClusterSnapshot) -> tuple[tuple[dict[str, Any], ...], str]:
    """Return a SubjectAccessReview for each right that the options in use require and Transom's accounts lack, and why not.

    Nothing is asked where no Deployment says which options are in use. Raises ApiError.
    """
    reviews: list[dict[str, Any]] = []
    deployments = {
        str(get_nested_value(own_object, "metadata", "name")): own_object
        for own_object in snapshot.iter_own_objects("Deployment")
    }
    for name in (NAME, admission.NAME):
        if name not in deployments:
            continue
        if name == NAME:
            rights = await read_account_rights(client, snapshot.namespace, deployments[name])
        else:
            user = _format_account(snapshot.namespace, deployments[name], name)
            wanted = list(_iter_rights(admission.WEBHOOK, snapshot.namespace))
            rights = await _review_rights(client, wanted, "subjectaccessreviews", _build_subject(snapshot.namespace, user))
        if rights.why:
            return (), rights.why
        user = _format_account(snapshot.namespace, deployments[name], name)
        reviews += [build_denial(str(item), user) for item in sorted(rights.missing)]
    return tuple(reviews), ""


def build_denial(right: str, user: str) -> dict[str, Any]:
    """Build a SubjectAccessReview, by the name of a right, that says that the user does not have it."""
    return {
        "kind": "SubjectAccessReview",
        "metadata": {"name": right},
        "spec": {"user": user},
        "status": {"allowed": False},
    }


def _format_account(namespace: str, deployment: Mapping[str, Any] | None, default: str) -> str:
    """Return the user name of a Deployment's ServiceAccount."""
    name = get_nested_value(deployment, "spec", "template", "spec", "serviceAccountName") or default
    return f"system:serviceaccount:{namespace}:{name}"


def _build_subject(namespace: str, user: str) -> dict[str, Any]:
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    return {"user": user, "groups": groups}


def _list_controllers(deployment: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the controllers of a Deployment; those of a default install if it has no argument for them."""
    arguments = [
        str(arg)
        for container in get_items(deployment, "spec", "template", "spec", "containers")
        for arg in container.get("args") or ()
    ]
    named = next(
        (argument.partition("=")[2] for argument in arguments if argument.startswith("--controllers=")),
        ",".join(Values().controllers),
    )
    try:
        return parse_controllers(named)
    except ValueError:
        return parse_controllers(",".join(Values().controllers))


def _list_role_rights(namespace: str, names: Iterable[str], *, openshift: bool) -> Iterable[Right]:
    for grants in (ALWAYS, *(GRANTS[name] for name in names)):
        yield from _iter_rights(grants, namespace, openshift=openshift)


def _iter_rights(grants: Grants, namespace: str, *, openshift: bool = False) -> Iterable[Right]:
    for place, rules in (("", grants.everywhere), *grants.iter_namespaced_rules(namespace, openshift=openshift)):
        for rule in rules:
            for resource in rule.resources:
                for verb in rule.verbs:
                    for name in rule.names or ("",):
                        yield Right(verb, rule.group, resource, place, namespace if name == OWN else name)


async def _review_rights(client: Client, wanted: Iterable[Right], kind: str, subject: Mapping[str, Any]) -> Rights:
    """Ask the API server for each right; `kind` is the review's plural, `subject` whose rights. Raises ApiError."""
    unique_rights = list(dict.fromkeys(wanted))
    gate = asyncio.Semaphore(_AT_ONCE)

    async def is_allowed(right: Right) -> bool:
        resource, _, subresource = right.resource.partition("/")
        attributes = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource}
        attributes |= {"namespace": right.namespace, "name": right.name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": _KINDS[kind],
            "spec": {**subject, "resourceAttributes": attributes},
        }
        async with gate:
            body = await client.request("POST", f"{_REVIEWS}/{kind}", None, review)
        return bool(get_nested_value(msgspec.json.decode(body), "status", "allowed"))

    try:
        answered = await asyncio.gather(*map(is_allowed, unique_rights))
    except StatusError as error:
        return Rights(len(unique_rights), why=str(error))
    return Rights(len(unique_rights), tuple(right for right, yes in zip(unique_rights, answered, strict=True) if not yes))


_KINDS: Final = {"selfsubjectaccessreviews": "SelfSubjectAccessReview", "subjectaccessreviews": "SubjectAccessReview"}


async def ask_registry(reference: str) -> ImageAnswer:
    """Ask the registry for the manifest of an image, without a login (OCI Distribution Specification, "Pulling manifests")."""
    named, _, digest = reference.partition("@")
    registry, _, rest = named.partition("/")
    name, _, tag = rest.partition(":")
    host = get_registry_host(registry)
    scheme = "http" if host.partition(":")[0] in ("localhost", "127.0.0.1") else "https"
    way = Route()
    url = URL(f"{scheme}://{host}") / "v2" / name / "manifests" / (digest or tag or "latest")
    try:
        async with way.open_session() as session:
            timeout = aiohttp.ClientTimeout(total=_SECONDS)
            headers = {"Accept": _MEDIA_TYPES}
            async with session.head(
                url, headers=headers, timeout=timeout, ssl=way.create_context(), allow_redirects=True
            ) as answer:
                return ImageAnswer(reference, answer.status)
    except TimeoutError:
        return ImageAnswer(reference, why=f"no answer within {_SECONDS} s")
    except aiohttp.ClientConnectorError as error:
        return ImageAnswer(
            reference, why=f"no connection to {host} ({error.os_error.strerror or type(error.os_error).__name__})"
        )
    except aiohttp.ClientError as error:
        return ImageAnswer(reference, why=f"no answer from {host} ({type(error).__name__})")
