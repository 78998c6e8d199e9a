"""What OLM is told by the OperatorCondition: no other version of Transom while hosts are being changed."""

import asyncio
from collections.abc import Iterator

import pytest
from lab.control_plane import ControlPlane
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.waiting import until

from lab import olm
from transom.controllers.rollout.operator_condition import OPERATOR_CONDITIONS
from transom.rollout.queue import RolloutQueue
from transom.rollout.state import Rollout

NAME = "transom.v0.1.0"


@pytest.fixture(scope="module")
def kind(control_plane: ControlPlane) -> Iterator[None]:
    made = [olm.read_definition("operatorconditions")]
    control_plane.define(made)
    yield
    control_plane.forget(made)


async def said(cluster: Cluster) -> tuple[str, str]:
    """Status and reason of the only condition."""
    found = await cluster.client.get(OPERATOR_CONDITIONS, NAME, cluster.namespace)
    assert found.value["spec"]["deployments"] == ["transom"]
    conditions = [
        (condition["type"], condition["status"], condition["reason"]) for condition in found.value["spec"].get("conditions", ())
    ]
    assert len(conditions) <= 1
    return (conditions[0][1], conditions[0][2]) if conditions and conditions[0][0] == "Upgradeable" else ("", "")


@pytest.mark.lab
async def test_no_upgrade_while_a_host_is_being_changed(cluster: Cluster, kind: None) -> None:
    host = await cluster.simulator.add_host()
    await cluster.put(OPERATOR_CONDITIONS, NAME, spec={"deployments": ["transom"]})
    async with cluster.operator(operator_condition=NAME):

        async def is_said(*wanted: str) -> bool:
            return await said(cluster) == wanted

        await until(lambda: is_said("True", "NoRollout"))
        await cluster.proxy(httpProxy=PROXY)
        await cluster.instance("win-1", host)
        await cluster.until("win-1", ProxyApplied="True/Applied")
        await until(lambda: is_said("True", "NoRollout"))
        host.faults.disk_delay = 0.5
        await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
        await until(lambda: is_said("False", "RolloutUnderWay"))
        host.faults.disk_delay = 0.0
        await until(lambda: is_said("True", "NoRollout"))
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")


@pytest.mark.lab
async def test_without_olm_nothing_is_asked_of_it(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until("win-1", ProxyApplied="True/Applied")
    asked = await asyncio.to_thread(lambda: [item["requestURI"] for item in cluster.control_plane.read_audit(cluster.began)])
    assert not [item for item in asked if "operatorconditions" in item and cluster.namespace in item]


def test_what_is_under_way_and_what_is_not() -> None:
    """A host that was changed or waits for that; not one that is out of reach, nor a rollout that was stopped."""

    def ask() -> None:
        pass

    def turns(*failed: str) -> RolloutQueue:
        return RolloutQueue(Rollout(frozenset({"a", "b", "c"}), failed=failed, halted_by=failed))

    one = turns()
    assert not one.is_active
    assert one.admit("a", ask)
    assert not one.admit("b", ask)
    assert one.is_active
    one.record_result("a", "untouched")
    # b was asked for, and is out of reach, too
    assert one.is_active
    one.record_result("b", "untouched")
    one.release_turn("b")
    assert not one.is_active

    stopped = turns("a", "b")
    assert not stopped.admit("c", ask)
    assert not stopped.is_active

    former = turns()
    assert former.admit("a", ask)
    former.supersede()
    assert not former.is_active
