"""The work of `transom uninstall`, against the API server: the operator gives hosts back, and the rest goes."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from transom.capi.identity import MANAGED_BY, TRANSOM
from transom.cli.findings import counted
from transom.cli.manifests import everything
from transom.cli.output import ExitCode, fail, tell
from transom.cli.tables import named
from transom.controllers.instance.writes import FINALIZER as OF_HOST
from transom.controllers.runtime.base_removal import FINALIZER as OF_SETTINGS
from transom.controllers.runtime.base_removal import LEAVE_HOST
from transom.controllers.runtime.cached import UNINSTALL
from transom.kube import NotFound
from transom.kube.client import Client
from transom.kube.objects import Metadata, ObjectMeta, Whole
from transom.kube.resources import (
    CONFIG_MAPS,
    DEFINITIONS,
    EGRESS_PROXIES,
    LEASES,
    NAMESPACES,
    SECRETS,
    WINDOWS_INSTANCES,
    Resource,
)
from transom.manifests.grants import LABELS

_ROLE_BINDINGS: Final = Resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False, Whole)
_STEP: Final = 1.0
_HEARD: Final = 20.0
"""Seconds in which an operator that works renews its lease at least once (`transom run`: within 10 s)."""
_TOLD: Final = 15.0
"""Seconds after which it is said again what is waited for."""
_UNDONE: Final = 60.0
"""Seconds that are waited for what the settings made."""


class Uninstallation:
    """What is done in a cluster. Raises ApiError; SystemExit where it cannot go on, which was said then."""

    def __init__(self, client: Client, namespace: str, timeout: float) -> None:
        self._client, self._namespace, self._timeout = client, namespace, timeout
        self.standing = "before anything was done"
        """How far it has come, for a Ctrl-C."""

    async def give_back(self) -> None:
        """The operator works on it until there is nothing left."""
        await self._insist_on_its_namespace()
        if await self._there() and not await self._operator_works():
            fail(
                f"no operator works in namespace {self._namespace}, so nobody would give the hosts back, and nothing was done: "
                "start it, or leave the hosts as they are with --leave-hosts",
                ExitCode.NOT_DONE,
            )
        # no ConfigMap entry and no machine becomes an instance any more
        await self._annotate(NAMESPACES, self._namespace, None, UNINSTALL)
        for resource, what in ((WINDOWS_INSTANCES, "host"), (EGRESS_PROXIES, "EgressProxy")):
            for one in await self._list(resource):
                await self._client.delete(resource, one.metadata.name, one.metadata.namespace, one.metadata.uid)
            await self._until_gone(resource, what)
        await self._until_undone()
        await self._rest()

    async def leave(self) -> None:
        """The operator goes first; what it still sees of the deletions says that hosts are left."""
        await self._insist_on_its_namespace()
        self.standing = "while the operator and the definitions were taken off; no host is touched"
        kinds = ((EGRESS_PROXIES, OF_SETTINGS), (WINDOWS_INSTANCES, OF_HOST))
        for resource, _ in kinds:
            for one in await self._list(resource):
                await self._annotate(resource, one.metadata.name, one.metadata.namespace, LEAVE_HOST)
        await self._delete_workloads()
        # an operator whose process has not ended yet takes no wish from settings that go with their definition
        for resource, _ in kinds:
            await self._delete(DEFINITIONS, f"{resource.plural}.{resource.group}", None)
        for resource, finalizer in kinds:
            for one in await self._list(resource):
                await self._let_go(resource, one.metadata, finalizer)
            await self._until_undefined(resource)
            tell(f"transom: {resource.plural}: gone, and the hosts keep what they have")
        await self._rest()

    async def _insist_on_its_namespace(self) -> None:
        """Definitions and roles are the whole cluster's: they must not go from below an installation in another namespace."""
        try:
            bound = (await self._client.get(_ROLE_BINDINGS, "transom")).value.get("subjects") or ()
        except NotFound:
            return
        elsewhere = sorted({str(one.get("namespace")) for one in bound})
        if elsewhere and self._namespace not in elsewhere:
            fail(
                f"Transom is not installed in namespace {self._namespace}: it is in {', '.join(elsewhere)} "
                f"(by ClusterRoleBinding transom), and nothing was done: name it with -n {elsewhere[0]}",
                ExitCode.NOT_DONE,
            )

    async def _let_go(self, resource: Resource[Whole], meta: ObjectMeta, finalizer: str) -> None:
        left = [each for each in meta.finalizers or () if each != finalizer]
        try:
            await self._client.patch(resource, {"metadata": {"finalizers": left}}, meta.name, meta.namespace)
        except NotFound:
            # it had none, and went with its definition
            return
        await self._delete(resource, meta.name, meta.namespace)

    async def _until_undefined(self, resource: Resource[Whole]) -> None:
        """Wait for its definition to go.

        The API server looks every 5 s whether objects are left (apiextensions-apiserver 0.36, crd_finalizer.go).
        """
        waited = 0.0
        while waited < self._timeout:
            try:
                await self._client.get(DEFINITIONS, f"{resource.plural}.{resource.group}")
            except NotFound:
                return
            await asyncio.sleep(_STEP)
            waited += _STEP

    async def _there(self) -> bool:
        """Whether there is anything for an operator to do."""
        return bool([*await self._list(WINDOWS_INSTANCES), *await self._list(EGRESS_PROXIES)])

    async def _operator_works(self) -> bool:
        """Whether the lease is renewed while somebody looks: no two clocks are compared."""
        tell("transom: asking whether an operator works")
        first = await self._renewed()
        for _ in range(int(_HEARD / _STEP)):
            await asyncio.sleep(_STEP)
            if (now := await self._renewed()) is not None and now != first:
                return True
        return False

    async def _renewed(self) -> str | None:
        try:
            lease = await self._client.get(LEASES, "transom", self._namespace)
        except NotFound:
            return None
        return lease.spec.renew_time if lease.spec is not None and lease.spec.holder_identity else None

    async def _list(self, resource: Resource[Whole]) -> list[Whole]:
        try:
            return list((await self._client.list_objects(resource, self._namespace if resource.namespaced else None)).items)
        except NotFound:
            return []

    async def _until_gone(self, resource: Resource[Whole], what: str) -> None:
        known = {one.metadata.name for one in await self._list(resource)}
        waited, told = 0.0, 0.0
        while known:
            self.standing = f"while {counted(len(known), what)} had not gone: {named(sorted(known))}"
            if waited - told >= _TOLD:
                told = waited
                tell(f"transom: {waited:.0f} s: waiting for {counted(len(known), what)}: {named(sorted(known))}")
            if waited >= self._timeout:
                fail(
                    f"{', '.join(sorted(known))}: still there after {self._timeout:.0f} s; their conditions say why. Nothing "
                    "else was taken off: run it again to go on",
                    ExitCode.NOT_DONE,
                )
            await asyncio.sleep(_STEP)
            waited += _STEP
            left = {one.metadata.name for one in await self._list(resource)}
            for name in sorted(known - left):
                tell(f"transom: {what} {name}: {'given back' if what == 'host' else 'gone'}; {counted(len(left), what)} left")
            known = left

    async def _until_undone(self) -> None:
        """What the settings made in other namespaces: an operator that works takes it away."""
        left: list[str] = []
        for _ in range(int(_UNDONE / _STEP)):
            left = [
                f"{kind.kind} {one.metadata.namespace}/{one.metadata.name}"
                for kind in (SECRETS, CONFIG_MAPS)
                for one in (await self._client.list_objects(kind, labels=f"{MANAGED_BY}={TRANSOM}")).items
                if one.metadata.namespace != self._namespace
            ]
            if not left:
                return
            await asyncio.sleep(_STEP)
        tell(f"transom: {counted(len(left), 'object')} of the settings stay: {', '.join(left)}")

    async def _annotate(self, resource: Any, name: str, namespace: str | None, annotation: str) -> None:
        try:
            await self._client.patch(resource, {"metadata": {"annotations": {annotation: "true"}}}, name, namespace)
        except NotFound:
            return

    async def _delete_workloads(self) -> None:
        """The operator and the admission server, and their pods, which may still be at work."""
        deployments = Resource("apps", "v1", "Deployment", "deployments", True, Metadata)
        pods = Resource("", "v1", "Pod", "pods", True, Metadata)
        for name in ("transom", "transom-webhook"):
            await self._delete(deployments, name, self._namespace)
        waited = 0.0
        while waited < self._timeout:
            listed = await self._client.list_objects(pods, self._namespace, labels="app.kubernetes.io/name=transom")
            if not listed.items:
                return
            await asyncio.sleep(_STEP)
            waited += _STEP

    async def _rest(self) -> None:
        """What `transom manifests` has made, last things first: the definitions and the namespace at the end."""
        self.standing = "after the objects of Transom's kinds had gone, before its roles and its namespace had"
        for value in reversed(list(_installed(self._namespace))):
            if value["kind"] != "Namespace":
                await self._delete(_resource(value), value["metadata"]["name"], value["metadata"].get("namespace"))
        tell("transom: definitions, roles, Deployments, registration: gone")
        await self._delete_namespace()

    async def _delete_namespace(self) -> None:
        """Where it was made for Transom: somebody may have installed it into a namespace of theirs."""
        try:
            found = await self._client.get(NAMESPACES, self._namespace)
        except NotFound:
            return
        if LABELS.items() <= (found.metadata.labels or {}).items():
            await self._delete(NAMESPACES, self._namespace, None)
            tell(f"transom: namespace {self._namespace}: being deleted")
        else:
            tell(f"transom: namespace {self._namespace} stays: it is not labelled as Transom's")

    async def _delete(self, resource: Any, name: str, namespace: str | None) -> None:
        try:
            await self._client.delete(resource, name, namespace)
        except NotFound:
            return


def _installed(namespace: str) -> Iterator[dict[str, Any]]:
    yield from everything(namespace)
    # the first to go: an API server must not ask a server that is gone
    yield {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "transom"},
    }


def _resource(value: dict[str, Any]) -> Resource[Any]:
    """Where the API has objects of the kind: the plurals of what `transom manifests` makes are regular."""
    kind = value["kind"]
    group, _, version = value["apiVersion"].rpartition("/")
    name = kind.lower()
    plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}es" if name.endswith("s") else f"{name}s"
    return Resource(group, version, kind, plural, "namespace" in value["metadata"], Metadata)
