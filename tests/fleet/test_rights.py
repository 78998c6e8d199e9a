"""The rights of the controllers of machines and of propagation: nothing is refused, and no verb is left over."""

import asyncio

import pytest
from tests.fleet import machines
from tests.fleet.management import Management
from tests.fleet.test_machines import initialized, put, rollout_after, status, until_edited
from tests.fleet.test_propagation import kubeconfig, put_kubeconfig
from tests.operator.test_roles import granted

from transom.kube.client import Client
from transom.kube.connection import connect
from transom.manifests.roles import roles

pytestmark = pytest.mark.lab
OURS = ("machines", "propagation")
CONTROLLERS = ("egress", "clusters", *OURS)


async def test_rights_suffice_and_no_verb_is_left_over(management: Management) -> None:
    plane, namespace = management.control_plane, management.namespace
    await asyncio.to_thread(plane.apply, list(roles(namespace, CONTROLLERS)))
    token = await asyncio.to_thread(plane.service_account_token, namespace, "transom")
    connection = connect(str(plane.user_kubeconfig(f"{namespace}-limited", token)))
    user = f"system:serviceaccount:{namespace}:transom"
    wanted = granted(list(roles(namespace, OURS)), "ClusterRole") - granted(list(roles(namespace, ())), "ClusterRole")
    await management.cluster()
    await put(management, machines.control_plane(), machines.template(), machines.deployment(replicas=1))
    await initialized(management)
    await status(management, "MachineDeployment", "workers", {"replicas": 1, "readyReplicas": 1})
    await put(management, machines.machine("worker"))
    # this very server: its kube-system is read there and here, and nothing is written
    await put_kubeconfig(management, kubeconfig(plane))
    await asyncio.sleep(1.1)
    await management.settings(rollout="Automatic", propagate=True)
    administrator, management.client = management.client, Client(connection)
    try:
        async with management.operator(controllers=CONTROLLERS):
            management.client = administrator
            await until_edited(management)
            await until_edited(management, "KubeadmControlPlane", "mycluster")

            async def begun() -> str | None:
                return await rollout_after(management, "workers")

            await management.until(begun)

            async def left_over() -> bool:
                entries = [one for one in plane.audit() if one["user"]["username"] == user and "objectRef" in one]
                refused = [one["requestURI"] for one in entries if one["responseStatus"]["code"] in (401, 403)]
                assert refused == []
                used = {(one["objectRef"].get("apiGroup", ""), one["objectRef"]["resource"], one["verb"]) for one in entries}
                return wanted <= used

            await management.until(left_over)
    finally:
        management.client = administrator
        await connection.close()
