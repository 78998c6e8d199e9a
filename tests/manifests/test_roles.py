"""The roles of `transom manifests` are what `transom run` needs: nothing it asks for is refused, and no verb is left over."""

import asyncio
from typing import Any

import asyncssh
import pytest
from tests.support.operator.bundles import ROOT_1
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.programs import Program
from tests.support.operator.rights import Use, asked, granted
from tests.support.waiting import PATIENCE, until

from lab import cluster_api, openshift
from transom.hosts.ssh.ssh_client import compute_public_hash
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, WINDOWS_INSTANCES
from transom.manifests.roles import iter_roles
from transom.proxy.secret import Secret
from transom.sources.infrastructure import KINDS

pytestmark = pytest.mark.lab
LABEL = "transom.dev/inject-trusted-cabundle"


def bare(kind: str, group: str, plural: str) -> dict[str, Any]:
    """A definition of a kind of an infrastructure provider, with nothing in it."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": schema}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, "metadata": {"name": f"{plural}.{group}"}, "spec": spec}


async def test_the_roles_suffice_and_no_verb_is_left_over(cluster: Cluster) -> None:
    control_plane, namespace = cluster.control_plane, cluster.namespace
    objects = list(iter_roles(namespace, ("egress", "hosts")))
    clusters = [
        definition
        for definition in cluster_api.read_definitions()
        if definition["spec"]["names"]["kind"] in ("Cluster", "Machine")
    ]
    kinds = [*openshift.read_definitions(), *clusters, *(bare(kind, *names) for kind, names in KINDS.items())]
    await asyncio.to_thread(control_plane.apply, objects)
    await asyncio.to_thread(control_plane.define, kinds)
    token = await asyncio.to_thread(control_plane.create_service_account_token, namespace, "transom")
    kubeconfig = control_plane.write_kubeconfig(f"{namespace}-limited", token)
    user = f"system:serviceaccount:{namespace}:transom"

    host, other = await cluster.simulator.add_host(), await cluster.simulator.add_host()
    await cluster.bundle(ROOT_1)
    await cluster.put(CONFIG_MAPS, "asks", metadata={"name": "asks", "namespace": namespace, "labels": {LABEL: "bundle-only"}})
    valid = {"httpProxy": PROXY, "httpsProxy": PROXY, "trustedCA": {"name": "corp-ca"}}
    invalid = valid | {"noProxy": "*.example.com"}
    await cluster.proxy(**valid)
    await cluster.instance("win-1", host)
    await cluster.instance("win-2", other)

    async def is_valid(wanted: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                held = (await cluster.client.get(EGRESS_PROXIES, "cluster")).value.get("status") or {}
                if any(
                    condition["type"] == "Valid" and condition["status"] == wanted for condition in held.get("conditions", ())
                ):
                    return
                await asyncio.sleep(0.05)

    wanted = {
        "ClusterRole": (None, granted(objects, "ClusterRole")),
        "own": (namespace, granted(objects, "Role", namespace)),
        "default": ("default", granted(objects, "Role", "default")),
    }

    def left_over() -> dict[str, list[Use]]:
        uses = asked(control_plane, user, cluster.began)
        return {
            role: sorted(uses_of - {use for use, where, _ in uses if place is None or where == place})
            for role, (place, uses_of) in wanted.items()
        }

    async with Program(cluster, kubeconfig=kubeconfig, controllers="egress,hosts") as program:
        await cluster.until("win-1", ProxyApplied="True/Applied", TrustApplied="True/Applied")
        # the key that opened the host is kept, and then the one after it
        key = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
        await cluster.put_key(key)
        async with asyncio.timeout(PATIENCE):
            while (await cluster.status("win-1")).get("keyHash") != compute_public_hash(Secret(key)):
                await asyncio.sleep(0.05)
        # a thing that happens again is told by another count of the same event
        for _ in range(2):
            await cluster.proxy(**invalid)
            await is_valid("False")
            await cluster.proxy(**valid)
            await is_valid("True")
        # which hosts are begun is written for the first change, and written anew for the next one
        await cluster.proxy(**valid, noProxy="one.example.com")
        await until(lambda: all("one.example.com" in str(environment(item, "containerd")) for item in (host, other)))
        for port in (1, host.port, 1):
            await cluster.instance("win-1", host, port=port)
            await cluster.until("win-1", Reachable="True" if port == host.port else "False")
        await cluster.delete(EGRESS_PROXIES, "cluster")
        # an instance of a Machine: it is asked whether its host goes with it
        marks = {"labels": {"transom.dev/source": "ClusterMachine"}, "annotations": {"transom.dev/origin": f"{namespace}/m"}}
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": marks})
        await cluster.delete(WINDOWS_INSTANCES, "win-1")
        await cluster.gone("win-1")
        for _ in range(60):
            if not any(left_over().values()):
                break
            await asyncio.sleep(0.5)
        assert await program.terminate() == 0
        log = program.log()
    refused = [(use, where) for use, where, code in asked(control_plane, user, cluster.began) if code in (401, 403)]
    assert refused == []
    assert "forbidden" not in log
    assert left_over() == {"ClusterRole": [], "own": [], "default": []}
    await asyncio.to_thread(control_plane.delete, objects)
    await asyncio.to_thread(control_plane.forget, kinds)
