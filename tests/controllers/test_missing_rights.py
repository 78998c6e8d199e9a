"""Each right is taken from the ServiceAccount of a running operator: events, condition, /readyz, status and doctor name it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple
from urllib.error import HTTPError

import pytest
from lab.control_plane import ControlPlane
from tests.support.operator.clusters import PROXY, QUICK, Cluster, admin, at_work, environment
from tests.support.waiting import until

from transom.cli.commands.manifests import find_other_install
from transom.cli.observation import Asked, build_observed, list_doctor_queries, read_answers, with_rights
from transom.controllers.operator import Operator, Options
from transom.controllers.runtime.options import HostTimings
from transom.diagnosis.checks import diagnose
from transom.diagnosis.overview import build_overview
from transom.diagnosis.snapshot import Observed
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import EGRESS_PROXIES, Resource
from transom.manifests.definitions import build_crds
from transom.manifests.roles import iter_roles
from winsim import Simulator

pytestmark = pytest.mark.lab
OTHER = "http://other.corp.example:3128"
CONTROLLERS = ("egress", "hosts", "pods")
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", True, UnstructuredObject)


class Right(NamedTuple):
    """A verb on a resource, in the role of Transom's namespace (`own`) or in the ClusterRole."""

    verb: str
    group: str
    resource: str
    own: bool = False

    def __str__(self) -> str:
        kind, slash, subresource = self.resource.partition("/")
        return f"{self.verb} {kind}{'.' * bool(self.group)}{self.group}{slash}{subresource}"


LIVE = (
    Right("update", "coordination.k8s.io", "leases", own=True),
    Right("create", "", "events", own=True),
    Right("patch", "transom.dev", "windowsinstances/status", own=True),
    Right("patch", "transom.dev", "egressproxies/status"),
)
START = (
    Right("list", "", "secrets", own=True),
    Right("list", "", "configmaps"),
    Right("list", "", "nodes"),
    Right("list", "transom.dev", "windowsinstances", own=True),
    Right("list", "transom.dev", "egressproxies"),
    Right("list", "admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    Right("list", "", "pods"),
)
"""What an operator reads or makes as it starts."""
BASE_KINDS = ("secrets", "configmaps", "nodes", "windowsinstances", "egressproxies")
"""Without these nothing can be decided."""


@pytest.fixture(scope="module")
def own_control_plane() -> Iterator[ControlPlane]:
    with ControlPlane(definitions=build_crds()) as running:
        yield running


class Installed:
    """Transom's roles and Deployment in the namespace of a test."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.objects = [role for role in iter_roles(cluster.namespace, CONTROLLERS) if role["kind"] != "Namespace"]

    async def grant(self) -> None:
        await asyncio.to_thread(self.cluster.control_plane.apply, self.objects)

    async def deploy(self) -> None:
        arguments = ["run", f"--controllers={','.join(CONTROLLERS)}"]
        container = {"name": "transom", "image": "r.example/transom:1", "args": arguments}
        labels = {"app": "transom"}
        spec = {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        }
        await self.cluster.put(DEPLOYMENTS, "transom", spec=spec)

    async def revoke(self, right: Right) -> None:
        """Take the verb out of each rule of the role that has it with this resource."""
        kind = "roles" if right.own else "clusterroles"
        place = f"namespaces/{self.cluster.namespace}/" if right.own else ""
        path = f"/apis/rbac.authorization.k8s.io/v1/{place}{kind}/transom"
        role = json.loads(await asyncio.to_thread(self.cluster.control_plane.request, "GET", path))
        rules = [item for rule in role["rules"] for item in without(rule, right)]
        assert rules != role["rules"], right
        body = {**role, "rules": rules}
        await asyncio.to_thread(self.cluster.control_plane.request, "PUT", path, body)

    @contextlib.asynccontextmanager
    async def operator(self) -> AsyncIterator[Operator]:
        plane, namespace = self.cluster.control_plane, self.cluster.namespace
        token = await asyncio.to_thread(plane.create_service_account_token, namespace, "transom")
        connection = connect(str(plane.write_kubeconfig(f"{namespace}-run", token)))
        pace = HostTimings(rights=0.6)
        options = Options(namespace=namespace, reflector=QUICK, workers=4, controllers=CONTROLLERS, pace=pace)
        try:
            async with at_work(Operator(Client(connection), options)) as running:
                yield running
        finally:
            await connection.close()

    async def seen(self) -> Observed:
        """What `transom doctor` looks at, of the kinds that these checks need."""
        client, namespace = self.cluster.client, self.cluster.namespace
        asked: list[Asked] = list(list_doctor_queries(namespace))
        found = build_observed(await read_answers(client, asked), "here", namespace, self.cluster.began.time)
        return await with_rights(client, found)

    async def conditions(self) -> dict[str, tuple[str, str]]:
        base = await self.cluster.client.get(EGRESS_PROXIES, "cluster")
        found = (base.value.get("status") or {}).get("conditions", ())
        return {item["type"]: (item["status"], item["message"]) for item in found}

    async def reported(self, right: Right) -> bool:
        """Whether an event or the condition names the right."""
        events = await self.cluster.events("transom")
        texts = [message for _, reason, message in events if reason == "RightMissing"]
        status, message = (await self.conditions()).get("RightsMissing", ("", ""))
        texts += [message] if status == "True" else []
        return any(str(right) in text for text in texts)


def without(rule: dict[str, Any], right: Right) -> list[dict[str, Any]]:
    if right.group not in rule["apiGroups"] or right.resource not in rule["resources"] or right.verb not in rule["verbs"]:
        return [rule]
    others = [resource for resource in rule["resources"] if resource != right.resource]
    verbs = [verb for verb in rule["verbs"] if verb != right.verb]
    parts = [{**rule, "resources": others}] if others else []
    return [*parts, *([{**rule, "resources": [right.resource], "verbs": verbs}] if verbs else [])]


@pytest.fixture
async def installed(own_control_plane: ControlPlane, simulator: Simulator) -> AsyncIterator[Installed]:
    async with admin(own_control_plane) as client:
        cluster = Cluster(own_control_plane, client, simulator)
        await cluster.prepare()
        made = Installed(cluster)
        await made.grant()
        await made.deploy()
        yield made
        await cluster.leave()
        await asyncio.to_thread(own_control_plane.delete, made.objects)


async def check_status_and_doctor(installed: Installed, right: Right) -> None:
    seen = await installed.seen()
    assert any(str(right) in item for item in build_overview(seen).rights), build_overview(seen).rights
    (finding,) = [item for item in diagnose(seen) if item.id == "rights-missing"]
    assert str(right) in finding.evidence


@pytest.mark.parametrize("right", LIVE, ids=str)
async def test_a_right_that_goes_while_it_works(installed: Installed, right: Right) -> None:
    cluster = installed.cluster
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    async with installed.operator() as operator:
        await cluster.until("win-1", ProxyApplied="True/Applied")
        assert build_overview(await installed.seen()).rights == ()
        # a change to a host that has settings makes ConfigMap transom-rollouts, which later ones update
        await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, noProxy=".first.example")
        await until(lambda: any(".first.example" in item for item in environment(host, "kubelet")))
        await cluster.until("win-1", Configured="True", ProxyApplied="True/Applied")
        await installed.revoke(right)
        if right.resource == "events":
            # a host that gets its first settings is told of
            await cluster.instance("win-2", await cluster.simulator.add_host())
        else:
            await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await until(lambda: installed.reported(right))
        await check_status_and_doctor(installed, right)
        await installed.grant()
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet"))
        await cluster.until("win-1", Configured="True", ProxyApplied="True/Applied")
        await until(lambda: not operator.rights.missing)

        async def is_cleared() -> bool:
            return (await installed.conditions()).get("RightsMissing", ("False", ""))[0] == "False"

        await until(is_cleared)
        assert build_overview(await installed.seen()).rights == ()


@pytest.mark.parametrize("right", START, ids=str)
async def test_a_right_that_is_missing_at_the_start(installed: Installed, right: Right) -> None:
    cluster = installed.cluster
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    await installed.revoke(right)
    async with installed.operator() as operator:
        await until(lambda: installed.reported(right))
        await check_status_and_doctor(installed, right)
        if right.verb == "list":
            assert right.resource.rstrip("s") in operator.describe_unread().lower()
        if right.resource in BASE_KINDS and right.verb == "list":
            assert not operator.ready
        else:
            # what does not need it works
            await until(lambda: operator.ready)
            await cluster.until("win-1", ProxyApplied="True/Applied")
        await installed.grant()
        await until(lambda: operator.ready and all(operator._decided.values()))
        await cluster.until("win-1", Configured="True", ProxyApplied="True/Applied")
        await until(lambda: not operator.rights.missing)


async def test_another_install_takes_the_binding(installed: Installed) -> None:
    """As `transom manifests --namespace OTHER | kubectl apply -f -` does."""
    cluster = installed.cluster
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with installed.operator():
        await until(lambda: is_observed(installed))
        await asyncio.to_thread(cluster.control_plane.apply, list(iter_roles("default", CONTROLLERS)))
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)

        async def is_told() -> bool:
            events = await cluster.events("transom")
            return any(reason == "RightMissing" and "another install" in message for _, reason, message in events)

        await until(is_told)
        assert await find_other_install(cluster.client, cluster.namespace) == "default"
        assert await find_other_install(cluster.client, "default") == ""
        seen = await installed.seen()
        found = {item.id: item for item in diagnose(seen)}
        assert "namespace default" in found["bindings-elsewhere"].evidence
        assert "rights-missing" in found
        await installed.grant()
        await until(lambda: is_observed(installed))
    with contextlib.suppress(HTTPError):
        await asyncio.to_thread(
            cluster.control_plane.delete,
            [role for role in iter_roles("default", CONTROLLERS) if role["metadata"].get("namespace")],
        )


async def is_observed(installed: Installed) -> bool:
    base = (await installed.cluster.client.get(EGRESS_PROXIES, "cluster")).value
    return bool((base.get("status") or {}).get("observedGeneration") == base["metadata"]["generation"])
