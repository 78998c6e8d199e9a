"""The work of `transom uninstall`, against the API server: the operator restores hosts, then the command deletes the rest."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from transom.capi.values.cluster_identity import MANAGED_BY, TRANSOM
from transom.cli.commands.manifests import build_api_resource, list_all_objects
from transom.cli.messages import print_to_stderr
from transom.cli.output import ExitCode, fail
from transom.cli.tables import format_names
from transom.common.counting import format_count
from transom.controllers.instance_state.instance_writes import FINALIZER as OF_HOST
from transom.controllers.runtime.base_removal import FINALIZER as OF_SETTINGS
from transom.controllers.runtime.base_removal import LEAVE_HOST
from transom.controllers.runtime.cached_objects import UNINSTALL
from transom.kube.client import Client
from transom.kube.errors import NotFound
from transom.kube.objects import Metadata, ObjectMeta, UnstructuredObject
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

_ROLE_BINDINGS: Final = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False, UnstructuredObject
)
_STEP: Final = 1.0
_HEARD: Final = 20.0
"""Seconds in which an operator that works renews its lease at least once (`transom run`: within 10 s)."""
_TOLD: Final = 15.0
"""Seconds after which it is said again what is waited for."""
_UNDONE: Final = 60.0
"""Seconds that are waited for what the settings made."""


class Uninstallation:
    """Removes Transom from a cluster. Raises ApiError; SystemExit, after a message, if it cannot continue."""

    def __init__(self, client: Client, namespace: str, timeout: float) -> None:
        self._client, self._namespace, self._timeout = client, namespace, timeout
        self.standing = "before anything was done"
        """How far it has come, for a Ctrl-C."""

    async def restore_hosts(self) -> None:
        """Delete the objects and wait until the operator has restored all hosts."""
        await self._require_own_namespace()
        if await self._has_managed_objects() and not await self._is_operator_running():
            fail(
                f"no operator works in namespace {self._namespace}, so the hosts cannot be restored, and nothing was changed: "
                "start it, or leave the hosts unchanged with --leave-hosts",
                ExitCode.NOT_DONE,
            )
        self.standing = "before the hosts were restored"
        # no ConfigMap entry and no machine becomes an instance any more
        await self._annotate_if_exists(NAMESPACES, self._namespace, None, UNINSTALL)
        for resource, entry in ((WINDOWS_INSTANCES, "host"), (EGRESS_PROXIES, "EgressProxy")):
            for item in await self._list_objects(resource):
                await self._client.delete(resource, item.metadata.name, item.metadata.namespace, item.metadata.uid)
            await self._wait_until_deleted(resource, entry)
        await self._wait_for_settings_removal()
        await self._delete_installed_objects()

    async def uninstall_without_hosts(self) -> None:
        """Delete the operator first, and leave the hosts unchanged."""
        await self._require_own_namespace()
        self.standing = "while the operator and the CRDs were removed; no host is changed"
        kinds = ((EGRESS_PROXIES, OF_SETTINGS), (WINDOWS_INSTANCES, OF_HOST))
        for resource, _ in kinds:
            for item in await self._list_objects(resource):
                await self._annotate_if_exists(resource, item.metadata.name, item.metadata.namespace, LEAVE_HOST)
        await self._delete_workloads()
        # an operator whose process has not ended yet takes no wish from settings that go with their definition
        for resource, _ in kinds:
            await self._delete_if_exists(DEFINITIONS, f"{resource.plural}.{resource.group}", None)
        for resource, finalizer in kinds:
            for entry in await self._list_objects(resource):
                await self._remove_finalizer(resource, entry.metadata, finalizer)
            await self._wait_until_crd_deleted(resource)
            print_to_stderr(f"transom: {resource.plural}: gone, and the hosts keep what they have")
        await self._delete_installed_objects()

    async def _require_own_namespace(self) -> None:
        """Definitions and roles are the whole cluster's: they must not go from below an installation in another namespace."""
        try:
            bound = (await self._client.get(_ROLE_BINDINGS, "transom")).value.get("subjects") or ()
        except NotFound:
            return
        elsewhere = sorted({str(item.get("namespace")) for item in bound})
        if elsewhere and self._namespace not in elsewhere:
            fail(
                f"Transom is not installed in namespace {self._namespace}: it is in {', '.join(elsewhere)} "
                f"(by ClusterRoleBinding transom), and nothing was done: name it with -n {elsewhere[0]}",
                ExitCode.NOT_DONE,
            )

    async def _remove_finalizer(self, resource: Resource[UnstructuredObject], meta: ObjectMeta, finalizer: str) -> None:
        left = [each for each in meta.finalizers or () if each != finalizer]
        try:
            await self._client.patch(resource, {"metadata": {"finalizers": left}}, meta.name, meta.namespace)
        except NotFound:
            # it had none, and went with its definition
            return
        await self._delete_if_exists(resource, meta.name, meta.namespace)

    async def _wait_until_crd_deleted(self, resource: Resource[UnstructuredObject]) -> None:
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

    async def _has_managed_objects(self) -> bool:
        """Return True if there is work for an operator."""
        return bool([*await self._list_objects(WINDOWS_INSTANCES), *await self._list_objects(EGRESS_PROXIES)])

    async def _is_operator_running(self) -> bool:
        """Return True if the lease is renewed between two reads: no two clocks are compared."""
        print_to_stderr("transom: asking whether an operator works")
        first = await self._read_lease_renewal()
        for _ in range(int(_HEARD / _STEP)):
            await asyncio.sleep(_STEP)
            if (now := await self._read_lease_renewal()) is not None and now != first:
                return True
        return False

    async def _read_lease_renewal(self) -> str | None:
        try:
            lease = await self._client.get(LEASES, "transom", self._namespace)
        except NotFound:
            return None
        return lease.spec.renew_time if lease.spec is not None and lease.spec.holder_identity else None

    async def _list_objects(self, resource: Resource[UnstructuredObject]) -> list[UnstructuredObject]:
        try:
            return list((await self._client.list_objects(resource, self._namespace if resource.namespaced else None)).items)
        except NotFound:
            return []

    async def _wait_until_deleted(self, resource: Resource[UnstructuredObject], what: str) -> None:
        known = {item.metadata.name for item in await self._list_objects(resource)}
        waited, last_report = 0.0, 0.0
        while known:
            self.standing = f"while {format_count(len(known), what)} had not gone: {format_names(sorted(known))}"
            if waited - last_report >= _TOLD:
                last_report = waited
                print_to_stderr(
                    f"transom: {waited:.0f} s: waiting for {format_count(len(known), what)}: {format_names(sorted(known))}"
                )
            if waited >= self._timeout:
                fail(
                    f"{', '.join(sorted(known))}: not deleted after {self._timeout:.0f} s; their conditions say why. Nothing "
                    "else was removed: run the command again to continue",
                    ExitCode.NOT_DONE,
                )
            await asyncio.sleep(_STEP)
            waited += _STEP
            left = {item.metadata.name for item in await self._list_objects(resource)}
            for name in sorted(known - left):
                print_to_stderr(
                    f"transom: {what} {name}: {'restored' if what == 'host' else 'deleted'}; "
                    f"{format_count(len(left), what)} left"
                )
            known = left

    async def _wait_for_settings_removal(self) -> None:
        """Wait until a running operator has removed what the settings created in other namespaces."""
        left: list[str] = []
        for _ in range(int(_UNDONE / _STEP)):
            left = [
                f"{kind.kind} {item.metadata.namespace}/{item.metadata.name}"
                for kind in (SECRETS, CONFIG_MAPS)
                for item in (await self._client.list_objects(kind, labels=f"{MANAGED_BY}={TRANSOM}")).items
                if item.metadata.namespace != self._namespace
            ]
            if not left:
                return
            await asyncio.sleep(_STEP)
        print_to_stderr(f"transom: {format_count(len(left), 'object')} of the settings stay: {', '.join(left)}")

    async def _annotate_if_exists(self, resource: Any, name: str, namespace: str | None, annotation: str) -> None:
        try:
            await self._client.patch(resource, {"metadata": {"annotations": {annotation: "true"}}}, name, namespace)
        except NotFound:
            return

    async def _delete_workloads(self) -> None:
        """Delete the operator, the admission server and their pods, which may still run."""
        deployments = Resource("apps", "v1", "Deployment", "deployments", True, Metadata)
        pods = Resource("", "v1", "Pod", "pods", True, Metadata)
        for name in ("transom", "transom-webhook"):
            await self._delete_if_exists(deployments, name, self._namespace)
        waited = 0.0
        while waited < self._timeout:
            listed = await self._client.list_objects(pods, self._namespace, labels="app.kubernetes.io/name=transom")
            if not listed.items:
                return
            await asyncio.sleep(_STEP)
            waited += _STEP

    async def _delete_installed_objects(self) -> None:
        """Delete what `transom manifests` created in reverse order, with the CRDs and the namespace last."""
        self.standing = "after the objects of Transom's kinds had gone, before its roles and its namespace had"
        for value in reversed(list(_iter_installed(self._namespace))):
            if value["kind"] != "Namespace":
                await self._delete_if_exists(
                    build_api_resource(value), value["metadata"]["name"], value["metadata"].get("namespace")
                )
        print_to_stderr("transom: definitions, roles, Deployments, registration: gone")
        await self._delete_namespace()

    async def _delete_namespace(self) -> None:
        """Delete the namespace if it was created for Transom: it may be one that existed before."""
        try:
            live_namespace = await self._client.get(NAMESPACES, self._namespace)
        except NotFound:
            return
        if LABELS.items() <= (live_namespace.metadata.labels or {}).items():
            await self._delete_if_exists(NAMESPACES, self._namespace, None)
            print_to_stderr(f"transom: namespace {self._namespace}: being deleted")
        else:
            print_to_stderr(f"transom: namespace {self._namespace} stays: it is not labelled as Transom's")

    async def _delete_if_exists(self, resource: Any, name: str, namespace: str | None) -> None:
        try:
            await self._client.delete(resource, name, namespace)
        except NotFound:
            return


def _iter_installed(namespace: str) -> Iterator[dict[str, Any]]:
    yield from list_all_objects(namespace)
    # the first to go: an API server must not ask a server that is gone
    yield {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "transom"},
    }
