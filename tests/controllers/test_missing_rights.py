"""Each right is taken from the ServiceAccount of a running operator: events, condition, /readyz, status and doctor name it."""

import asyncio
import contextlib
import copy
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple
from urllib.error import HTTPError

import msgspec
import pytest
from lab.control_plane import ControlPlane
from tests.support.operator.clusters import PROXY, QUICK, Cluster, admin, at_work, environment
from tests.support.operator.foreign import definition
from tests.support.waiting import until

from transom.cli.commands.manifests import find_other_install
from transom.cli.observation import ListQuery, build_observed, list_doctor_queries, run_queries, with_missing_rights
from transom.controllers.operator import Operator, Options
from transom.controllers.runtime.options import HostTimings
from transom.diagnosis.checks import diagnose
from transom.diagnosis.overview import build_overview
from transom.diagnosis.snapshot import ClusterSnapshot
from transom.kube.backoff import Backoff
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import ConnectionFailed, StatusError
from transom.kube.objects import UnstructuredObject
from transom.kube.reflector import ReflectorTimings
from transom.kube.resources import EGRESS_PROXIES, Resource
from transom.manifests.definitions import build_crds
from transom.manifests.roles import ALWAYS, GRANTS, iter_roles
from transom.manifests.templates import OWN
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
    Right("update", "", "configmaps", own=True),
)
HASH_KEY = Right("create", "", "secrets", own=True)
"""Without it no host is judged: Secret transom-hash-key is made before the first status."""
START = (
    Right("list", "", "secrets", own=True),
    HASH_KEY,
    Right("patch", "", "secrets", own=True),
    Right("list", "", "configmaps"),
    Right("list", "", "nodes"),
    Right("list", "transom.dev", "windowsinstances", own=True),
    Right("list", "transom.dev", "egressproxies"),
    Right("list", "admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    Right("list", "", "pods"),
)
"""What an operator reads or makes as it starts."""
DELETION = Right("get", "apiextensions.k8s.io", "customresourcedefinitions")
"""What it needs when the settings are deleted."""
NO_REQUESTS = {
    Right("approve", "certificates.k8s.io", "signers"): "no request has this verb: the server's admission plugin"
    " CertificateApproval asks for it when a certificate is approved",
}
"""Rights that no request can lack, with the reason."""
CLUSTER_SCOPED = frozenset(
    (
        "certificatesigningrequests",
        "certificatesigningrequests/approval",
        "controllerconfigs",
        "customresourcedefinitions",
        "egressproxies",
        "egressproxies/status",
        "imagedigestmirrorsets",
        "images",
        "imagetagmirrorsets",
        "infrastructures",
        "machineconfigpools",
        "machineconfigs",
        "mutatingwebhookconfigurations",
        "namespaces",
        "nodes",
        "proxies",
        "servicecidrs",
        "signers",
    )
)
OPTIONAL = Right("list", "infrastructure.cluster.x-k8s.io", "awsclusters")
"""A kind that the operator treats as absent while it may not read it: the networks of its clusters are not in NO_PROXY then."""
LISTED = 5
"""Rights that a condition names."""
BASE_KINDS = ("secrets", "configmaps", "nodes", "windowsinstances", "egressproxies")
"""Without these nothing can be decided."""


@pytest.fixture(scope="module")
def own_control_plane() -> Iterator[ControlPlane]:
    with ControlPlane(definitions=build_crds()) as running:
        yield running


class Need(NamedTuple):
    """A right where the roles grant it: in a namespace or (empty) everywhere, and for a name or (empty) any."""

    right: Right
    namespace: str
    name: str

    def build_request(self, own: str) -> tuple[str, str, dict[str, str], str]:
        """Return method, path, query and content type of a request that needs the right."""
        verb, group, resource, _ = self.right
        plural, _, subresource = resource.partition("/")
        namespace, name = ((own if item == OWN else item) for item in (self.namespace or "default", self.name or "absent"))
        path = f"/apis/{group}/v1" if group else "/api/v1"
        if resource not in CLUSTER_SCOPED and (self.namespace or verb not in ("list", "watch")):
            path += f"/namespaces/{namespace}"
        named = verb not in ("list", "watch", "create") or bool(subresource) or (verb == "create" and bool(self.name))
        path += f"/{plural}" + f"/{name}" * named + f"/{subresource}" * bool(subresource)
        if verb == "create" and self.name:
            # only an apply names the object that it creates; of an object that exists it needs no `create`
            query = {"fieldManager": "transom", "dryRun": "All"}
            return "PATCH", path, query, "application/apply-patch+yaml"
        query = {"watch": "true"} if verb == "watch" else {}
        if self.name and verb in ("list", "watch"):
            query["fieldSelector"] = f"metadata.name={name}"
        return METHODS[verb], path, query, "application/merge-patch+json" if verb == "patch" else "application/json"


METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "patch": "PATCH",
    "update": "PUT",
    "delete": "DELETE",
}


def derive_needs() -> list[Need]:
    """Return each right of each controller."""
    needs = []
    for grants in (ALWAYS, *GRANTS.values()):
        for place, rules in (("", grants.everywhere), *grants.iter_namespaced_rules(OWN, openshift=True)):
            needs += [
                Need(Right(verb, rule.group, resource, own=place == OWN), place, name)
                for rule in rules
                for resource in rule.resources
                for verb in rule.verbs
                for name in rule.names or ("",)
            ]
    return list(dict.fromkeys(needs))


def derive_rest() -> list[Need]:
    """Return the rights that have no test of their own."""
    tested = {*LIVE, *START, DELETION, *NO_REQUESTS}
    return [need for need in derive_needs() if need.right not in tested]


def iter_batches(needs: list[Need]) -> Iterator[list[Need]]:
    """Yield as many rights at a time as a condition names, of one verb: an apply needs `patch` to be refused `create`."""
    by_verb: dict[str, list[Need]] = {}
    for need in needs:
        by_verb.setdefault(need.right.verb, []).append(need)
    for group in by_verb.values():
        yield from (group[start : start + LISTED] for start in range(0, len(group), LISTED))


class Installed:
    """Transom's roles and Deployment in the namespace of a test."""

    def __init__(self, cluster: Cluster, controllers: tuple[str, ...] = CONTROLLERS, *, openshift: bool = False) -> None:
        self.cluster, self.controllers = cluster, controllers
        made = iter_roles(cluster.namespace, controllers, openshift=openshift)
        self.objects = [role for role in made if role["kind"] != "Namespace"]

    async def grant(self) -> None:
        await asyncio.to_thread(self.cluster.control_plane.apply, self.objects)

    async def deploy(self) -> None:
        arguments = ["run", f"--controllers={','.join(self.controllers)}"]
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

    async def revoke_everywhere(self, rights: set[Right]) -> None:
        """Take the verbs out of each role, of whatever namespace."""
        roles = [copy.deepcopy(item) for item in self.objects if item["kind"] in ("ClusterRole", "Role")]
        for role in roles:
            for right in rights:
                role["rules"] = [item for rule in role["rules"] for item in without(rule, right)]
        changed = [role for role in roles if role not in self.objects]
        await asyncio.to_thread(self.cluster.control_plane.apply, changed)

    @contextlib.asynccontextmanager
    async def operator(self, reflector: ReflectorTimings = QUICK) -> AsyncIterator[Operator]:
        plane, namespace = self.cluster.control_plane, self.cluster.namespace
        token = await asyncio.to_thread(plane.create_service_account_token, namespace, "transom")
        connection = connect(str(plane.write_kubeconfig(f"{namespace}-run", token)))
        pace = HostTimings(rights=0.6)
        options = Options(namespace=namespace, reflector=reflector, workers=4, controllers=self.controllers, pace=pace)
        try:
            async with at_work(Operator(Client(connection), options)) as running:
                yield running
        finally:
            await connection.close()

    async def seen(self) -> ClusterSnapshot:
        """What `transom doctor` looks at, of the kinds that these checks need."""
        client, namespace = self.cluster.client, self.cluster.namespace
        asked: list[ListQuery] = list(list_doctor_queries(namespace))
        found = build_observed(await run_queries(client, asked), "here", namespace, self.cluster.began.time)
        return await with_missing_rights(client, found)

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


def test_each_right_of_the_roles_is_in_a_table() -> None:
    rights = {need.right for need in derive_needs()}
    # none that the roles do not grant
    assert {*LIVE, *START, DELETION, *NO_REQUESTS} <= rights
    assert rights == {*LIVE, *START, DELETION, *NO_REQUESTS} | {need.right for need in derive_rest()}
    # and a request for each of the rest
    assert {need.right.verb for need in derive_rest()} <= set(METHODS)
    assert all(NO_REQUESTS.values())


async def test_each_other_right_is_named_and_comes_back(own_control_plane: ControlPlane, simulator: Simulator) -> None:
    """Of all controllers, with OpenShift's: what a request is refused for lack of, whichever part of Transom sends it.

    Up to five at a time, since each round asks for the rights of two ServiceAccounts and waits for the condition: one by one,
    the 120 rights take minutes longer. How soon each is used again is in runtime/test_rights_watch.py.
    """
    plane = own_control_plane
    openshift = definition("config.openshift.io", "v1", "Proxy", "proxies", "Cluster")
    places = sorted({need.namespace for need in derive_needs() if need.namespace.startswith("openshift-")})
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}} for place in places]
    await asyncio.to_thread(plane.define, [openshift])
    await asyncio.to_thread(plane.apply, namespaces)
    async with admin(plane) as client:
        cluster = Cluster(plane, client, simulator)
        await cluster.prepare()
        installed = Installed(cluster, tuple(GRANTS), openshift=True)
        await installed.grant()
        await installed.deploy()
        await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
        async with installed.operator() as operator:
            await until(lambda: is_observed(installed))
            assert build_overview(await installed.seen()).rights == ()
            for batch in iter_batches(derive_rest()):
                await check_batch(installed, operator, batch)
        await cluster.leave()
    await asyncio.to_thread(plane.delete, installed.objects)
    await asyncio.to_thread(plane.forget, [openshift])


async def check_batch(installed: Installed, operator: Operator, batch: list[Need]) -> None:
    client, own = operator._client, installed.cluster.namespace
    await installed.revoke_everywhere({need.right for need in batch})

    async def is_refused(need: Need) -> bool:
        """Ask until it is refused: the server's authorizer follows the roles by a watch."""
        method, path, query, content_type = need.build_request(own)
        body = None
        if content_type.startswith("application/apply"):
            kind = {"secrets": "Secret", "configmaps": "ConfigMap"}[need.right.resource]
            body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": path.split("/")[-1]}}
        elif method in ("POST", "PATCH", "PUT"):
            body = {}
        try:
            async with asyncio.timeout(2):
                await client.request(method, path, query, body, content_type=content_type)
        except StatusError as error:
            return error.code == 403
        except (TimeoutError, ConnectionFailed):
            # a watch that was admitted goes on
            return False
        return False

    for need in batch:
        await until(lambda need=need: is_refused(need))
    for need in batch:
        await until(lambda need=need: installed.reported(need.right))
    seen = await installed.seen()
    overview = build_overview(seen)
    (finding,) = [item for item in diagnose(seen) if item.id == "rights-missing"]
    for need in batch:
        assert str(need.right) in finding.evidence
        assert any(str(need.right) in item for item in overview.rights)
    await installed.grant()
    try:
        await until(lambda: not operator.rights.missing)
    except AssertionError:
        raise AssertionError(f"granted again, and still reported: {operator.rights.missing}") from None


async def test_a_kind_that_counts_as_absent_without_the_right(own_control_plane: ControlPlane, installed: Installed) -> None:
    cluster = installed.cluster
    kind = definition(OPTIONAL.group, "v1beta2", "AWSCluster", OPTIONAL.resource, "Namespaced")
    await asyncio.to_thread(own_control_plane.define, [kind])
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await installed.revoke(OPTIONAL)
    async with installed.operator() as operator:
        # nothing waits for it
        await until(lambda: operator.ready)
        await until(lambda: is_observed(installed))
        await until(lambda: installed.reported(OPTIONAL))
        await check_status_and_doctor(installed, OPTIONAL)
        await installed.grant()
        await until(lambda: not operator.rights.missing)
        reflector = next(item for item in operator.informers.reflectors if item.resource.plural == OPTIONAL.resource)
        await until(lambda: reflector.present)
    await asyncio.to_thread(own_control_plane.forget, [kind])


async def test_the_right_to_see_that_the_definition_is_kept(installed: Installed) -> None:
    """Without it a deletion of the settings could be the end of the CRD: hosts keep what they have until it is known."""
    cluster = installed.cluster
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    async with installed.operator() as operator:
        await cluster.until("win-1", Configured="True", ProxyApplied="True/Applied")
        await installed.revoke(DELETION)
        await cluster.delete(EGRESS_PROXIES, "cluster")
        await until(lambda: installed.reported(DELETION))
        await check_status_and_doctor(installed, DELETION)
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")
        await installed.grant()
        await until(lambda: not environment(host, "kubelet"))
        await until(lambda: not operator.rights.missing)


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
    # the first host of several is recorded before it is changed
    others = ("win-3", "win-4") if right.resource == "configmaps" else ()
    for name in others:
        await cluster.instance(name, await cluster.simulator.add_host())
    async with installed.operator() as operator:
        for name in ("win-1", *others):
            await cluster.until(name, ProxyApplied="True/Applied")
        assert build_overview(await installed.seen()).rights == ()
        # a change to a host that has settings makes ConfigMap transom-rollouts, which later ones update
        await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, noProxy=".first.example")
        await until(lambda: any(".first.example" in item for item in environment(host, "kubelet")))
        for name in ("win-1", *others):
            await cluster.until(name, Configured="True", ProxyApplied="True/Applied")
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
            assert right.resource.rstrip("s") in operator.describe_unread_kinds().lower()
        if right.resource in BASE_KINDS and right.verb == "list":
            assert not operator.ready
        elif right == HASH_KEY:
            await until(lambda: operator.ready)
            assert (await cluster.conditions("win-1"))["ProxyApplied"][0] == "Unknown"
        else:
            # what does not need it works
            await until(lambda: operator.ready)
            await cluster.until("win-1", ProxyApplied="True/Applied")
        await installed.grant()
        await until(lambda: operator.ready and all(operator._decided.values()))
        await cluster.until("win-1", Configured="True", ProxyApplied="True/Applied")
        await until(lambda: not operator.rights.missing)


async def test_what_was_refused_is_tried_again_when_the_right_is_back(installed: Installed) -> None:
    """Whatever the backoff has come to: after an hour without a right that is minutes."""
    cluster = installed.cluster
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    status, nodes = Right("patch", "transom.dev", "egressproxies/status"), Right("list", "", "nodes")
    await installed.revoke(nodes)
    never = msgspec.structs.replace(QUICK, backoff=Backoff(10_000, 10_000))
    async with installed.operator(never) as operator:
        await until(lambda: installed.reported(nodes))
        await installed.grant()
        await until(lambda: operator.ready)
        await cluster.until("win-1", Configured="True", ProxyApplied="True/Applied")
        await until(lambda: not operator.rights.missing)
        await installed.revoke(status)
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await until(lambda: installed.reported(status))
        egress = operator.controllers["egress"].queue
        egress._backoff = Backoff(10_000, 10_000)
        before = egress.count_failures((None, "cluster"))
        await until(lambda: egress.count_failures((None, "cluster")) > before)
        await installed.grant()
        await until(lambda: is_observed(installed))


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
