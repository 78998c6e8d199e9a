"""What `transom status` and `transom doctor` say holds while an operator is stopped, cannot read a kind, or lacks a right."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest
from lab.control_plane import ControlPlane
from tests.support.operator.clusters import PROXY, QUICK, Cluster, at_work, environment, open_cluster
from tests.support.waiting import until

from transom.cli.observation import (
    DEPLOYMENTS,
    build_observed,
    list_status_queries,
    observe_for_doctor,
    run_queries,
    with_missing_rights,
)
from transom.cli.status_table import iter_status_lines
from transom.controllers.operator import Operator, Options
from transom.controllers.runtime.options import HostTimings
from transom.diagnosis.checks import diagnose
from transom.diagnosis.overview import Overview, build_overview
from transom.diagnosis.snapshot import ClusterSnapshot, Diagnosis
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.resources import EGRESS_PROXIES, WINDOWS_INSTANCES
from transom.manifests.definitions import build_crds
from transom.manifests.roles import iter_roles
from winsim import Host, Simulator

pytestmark = pytest.mark.lab
OTHER = "http://other.corp.example:3128"
CONTROLLERS = ("egress", "hosts")
PACE = HostTimings(rights=0.6)


@pytest.fixture(scope="module")
def own_plane() -> Iterator[ControlPlane]:
    """One of this file: etcd gets an object that cannot be read."""
    with ControlPlane(definitions=build_crds()) as running:
        yield running


@pytest.fixture
async def reported(own_plane: ControlPlane, simulator: Simulator) -> AsyncIterator[Cluster]:
    async with open_cluster(own_plane, simulator) as made:
        yield made


async def look(cluster: Cluster, client: Client | None = None) -> ClusterSnapshot:
    """Read what `transom status` reads, as an administrator or as another user."""
    answers = await run_queries(client or cluster.client, list_status_queries(cluster.namespace, None, ""))
    seen = build_observed(answers, "here", cluster.namespace, datetime.now(UTC))
    return await with_missing_rights(client or cluster.client, seen)


async def diagnose_now(cluster: Cluster, namespace: str = "") -> dict[str, Diagnosis]:
    seen, _ = await observe_for_doctor(cluster.client, "here", namespace or cluster.namespace, datetime.now(UTC))
    return {item.id: item for item in diagnose(seen)}


def read_screen(overview: Overview) -> str:
    return "\n".join(line.text for line in iter_status_lines(overview, datetime.now(UTC)))


async def add_configured_host(cluster: Cluster) -> Host:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    return host


async def read_condition(cluster: Cluster, type_: str) -> tuple[str, str]:
    base = (await cluster.client.get(EGRESS_PROXIES, "cluster")).value
    found = (base.get("status") or {}).get("conditions", ())
    return next(((item["status"], item["message"]) for item in found if item["type"] == type_), ("", ""))


async def test_an_edit_and_a_deletion_while_no_operator_runs(reported: Cluster) -> None:
    """The statuses are those of before: no row is Ready, and the numbers of the rollout are marked as old."""
    host = await add_configured_host(reported)
    async with reported.operator(controllers=CONTROLLERS):
        await reported.until("win-1", ProxyApplied="True/Applied", Ready="True")
        await reported.wait_ready()
    await reported.proxy(httpProxy=OTHER, httpsProxy=OTHER)
    overview = build_overview(await look(reported))
    assert [(row.kind, row.ready, row.reason) for row in overview.objects if row.kind == "EgressProxy"] == [
        ("EgressProxy", "Unknown", "NotObserved")
    ]
    assert overview.rollout is not None
    assert "generation" in overview.rollout.outdated
    assert "edit-not-observed" in await diagnose_now(reported)
    await reported.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await reported.delete(WINDOWS_INSTANCES, "win-1")
    overview = build_overview(await look(reported))
    (row,) = [row for row in overview.objects if row.kind == "WindowsInstance"]
    assert (row.ready, row.reason) == ("False", "Removing")
    assert "finalizers" in row.next
    assert "deletion-waits" in await diagnose_now(reported)
    assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")


async def test_the_numbers_of_a_rollout_are_old_without_a_leader(reported: Cluster) -> None:
    """Another CA changes the ConfigMap, not the generation of the settings."""
    await add_configured_host(reported)
    async with reported.operator(controllers=CONTROLLERS):
        await reported.until("win-1", ProxyApplied="True/Applied", Ready="True")
        await reported.wait_ready()
        rollout = build_overview(await look(reported)).rollout
        assert rollout is not None
        assert (rollout.updated, rollout.outdated) == (1, "")
    overview = build_overview(await look(reported))
    assert overview.rollout is not None
    assert overview.rollout.updated == 1
    assert "no operator leads" in overview.rollout.outdated
    assert "no operator leads" in read_screen(overview)


async def test_the_last_change_of_a_host_stays(reported: Cluster) -> None:
    """A pass that changes nothing does not overwrite which services were restarted."""
    host = await add_configured_host(reported)
    async with reported.operator(controllers=CONTROLLERS, pace=HostTimings(check_interval=1.0)):
        await reported.until("win-1", ProxyApplied="True/Applied")
        await reported.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet"))
        await reported.says("win-1", "the host matches the settings")
        change = (await reported.status("win-1"))["lastChange"]
        assert "kubelet" in change["summary"]
        begun = len(host.traffic.requests)
        await until(lambda: len(host.traffic.requests) > begun + 1)
        assert (await reported.status("win-1"))["lastChange"] == change


async def test_a_kind_that_etcd_cannot_return(reported: Cluster) -> None:
    """One damaged Secret: the server lists none of its namespace, and the operator goes on with those of before."""
    plane = reported.control_plane
    host = await add_configured_host(reported)
    async with reported.operator(controllers=CONTROLLERS, pace=PACE) as operator:
        await reported.until("win-1", ProxyApplied="True/Applied", Ready="True")
        await asyncio.to_thread(plane.write_damaged_object, "secrets", reported.namespace, "damaged")
        try:

            async def is_reported() -> bool:
                status, message = await read_condition(reported, "ReadsFailed")
                return status == "True" and "Secret" in message

            await until(is_reported)
            assert any("Secret" in text for text in await reported.told("transom", "ReadFailed"))

            async def is_noted() -> bool:
                return "Secret" in build_overview(await look(reported)).failed_reads

            await until(is_noted)
            assert "UNREAD" in read_screen(build_overview(await look(reported)))
            findings = await diagnose_now(reported)
            assert "Secret" in findings["reads-failed"].evidence
            # other work goes on
            await reported.proxy(httpProxy=OTHER, httpsProxy=OTHER)
            await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet"))
        finally:
            await asyncio.to_thread(plane.remove_damaged_object, "secrets", reported.namespace, "damaged")

        async def is_read_again() -> bool:
            return (await read_condition(reported, "ReadsFailed"))[0] == "False"

        await until(is_read_again)
        assert not operator.rights.unread
        await until(lambda: operator.informers.secrets.take_snapshot().find_named("cloud-private-key", reported.namespace))


async def test_a_user_who_may_not_ask_for_the_rights_of_others(reported: Cluster) -> None:
    """The operator may not write the status of the settings: only its lease can say that Ready is old."""
    plane, namespace = reported.control_plane, reported.namespace
    roles = [role for role in iter_roles(namespace, CONTROLLERS) if role["kind"] != "Namespace"]
    await asyncio.to_thread(plane.apply, roles)
    viewer = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer", "namespace": namespace}}
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": f"{namespace}-viewer"}}
    subject = {"kind": "ServiceAccount", "name": "viewer", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{namespace}-viewer"}
    made = [
        viewer,
        {**head, "kind": "ClusterRole", "rules": rules},
        {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
    ]
    await asyncio.to_thread(plane.apply, made)
    token = await asyncio.to_thread(plane.create_service_account_token, namespace, "viewer")
    own_token = await asyncio.to_thread(plane.create_service_account_token, namespace, "transom")
    view = connect(str(plane.write_kubeconfig(f"{namespace}-viewer", token)))
    work = connect(str(plane.write_kubeconfig(f"{namespace}-work", own_token)))
    await add_configured_host(reported)
    options = Options(namespace=namespace, reflector=QUICK, workers=4, controllers=CONTROLLERS, pace=PACE)
    async with at_work(Operator(Client(work), options)):
        await reported.until("win-1", ProxyApplied="True/Applied", Ready="True")
        await reported.wait_ready()
        role = next(role for role in roles if role["kind"] == "ClusterRole")
        kept = [rule for rule in role["rules"] if rule["resources"] != ["egressproxies/status"]]
        assert kept != role["rules"]
        await asyncio.to_thread(plane.apply, [{**role, "rules": kept}])
        # the edit is carried out on the host, and the status of the settings stays as it is
        await reported.proxy(httpProxy=OTHER, httpsProxy=OTHER)

        async def names_the_right() -> bool:
            overview = build_overview(await look(reported, Client(view)))
            return any("patch egressproxies.transom.dev/status" in right for right in overview.rights)

        await until(names_the_right)
        overview = build_overview(await look(reported, Client(view)))
        assert [row.ready for row in overview.objects if row.kind == "EgressProxy"] == ["Unknown"]
        assert "may not patch egressproxies.transom.dev/status" in read_screen(overview)
        await asyncio.to_thread(plane.apply, roles)

        async def is_complete() -> bool:
            overview = build_overview(await look(reported, Client(view)))
            return not overview.rights and all(row.ready == "True" for row in overview.objects)

        await until(is_complete)
    await view.close()
    await work.close()
    await asyncio.to_thread(plane.delete, [*made, *roles])


async def test_the_namespace_of_the_command_is_wrong(reported: Cluster) -> None:
    """No finding advises to install a second Transom."""
    plane = reported.control_plane
    roles = [role for role in iter_roles(reported.namespace, CONTROLLERS) if role["kind"] != "Namespace"]
    await asyncio.to_thread(plane.apply, roles)
    await add_configured_host(reported)
    findings = await diagnose_now(reported, "default")
    assert f"use -n {reported.namespace}" in findings["leader-missing"].command
    assert not any("transom manifests --image" in item.command for item in findings.values())
    await asyncio.to_thread(plane.delete, roles)


async def test_hosts_without_a_controller_for_them(reported: Cluster) -> None:
    """`--controllers` without `hosts`: the settings change, and the hosts keep the statuses of before."""
    host = await add_configured_host(reported)
    async with reported.operator(controllers=CONTROLLERS):
        await reported.until("win-1", ProxyApplied="True/Applied", Ready="True")
    container = {"name": "transom", "image": "r.example/transom:1", "args": ["run", "--controllers=egress"]}
    labels = {"app": "transom"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await reported.put(DEPLOYMENTS, "transom", spec=spec)
    async with reported.operator(controllers=("egress",)):
        await reported.proxy(httpProxy=OTHER, httpsProxy=OTHER)

        async def is_counted() -> bool:
            rollout = build_overview(await look(reported)).rollout
            # the operator before this one may have ended without its last count
            return rollout is not None and rollout.waiting == 1 and "generation" not in rollout.outdated

        await until(is_counted)
        # its status still says Ready
        assert (await reported.conditions("win-1"))["Ready"][0] == "True"
        rows = {row.kind: row for row in build_overview(await look(reported)).objects}
        assert (rows["WindowsInstance"].ready, rows["WindowsInstance"].reason) == ("False", "Pending")
        assert "--controllers=egress" in (await diagnose_now(reported))["controllers-missing"].evidence
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")


async def test_an_operator_of_another_namespace(reported: Cluster, own_plane: ControlPlane, simulator: Simulator) -> None:
    """Two installs with rights of their own: each writes the status of the settings that they share."""
    await add_configured_host(reported)
    async with open_cluster(own_plane, simulator) as other, reported.operator(controllers=CONTROLLERS):
        await reported.until("win-1", ProxyApplied="True/Applied", Ready="True")
        assert "two-operators" not in await diagnose_now(reported)
        async with other.operator(controllers=CONTROLLERS) as second:
            await until(lambda: second.working)
            findings = await diagnose_now(reported)
            assert findings["two-operators"].object == f"Lease/{other.namespace}/transom"
            assert f"leads in namespace {other.namespace}" in read_screen(build_overview(await look(reported)))
