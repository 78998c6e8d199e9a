"""The rights of the controllers of machines and of propagation: nothing is refused, and no verb is left over."""

import asyncio

import pytest
from tests.support.management import machines
from tests.support.management.kubeconfigs import kubeconfig, put_kubeconfig
from tests.support.management.management import Management
from tests.support.management.rights import limited
from tests.support.management.rollouts import initialized, put, rollout_after, status, until_edited

pytestmark = pytest.mark.lab
OURS = ("machines", "propagation")
CONTROLLERS = ("egress", "clusters", *OURS)


async def test_rights_suffice_and_no_verb_is_left_over(management: Management) -> None:
    await management.cluster()
    await put(management, machines.control_plane(), machines.template(), machines.deployment(replicas=1))
    await initialized(management)
    await status(management, "MachineDeployment", "workers", {"replicas": 1, "readyReplicas": 1})
    await put(management, machines.machine("worker"), *machines.pool("pool", None, replicas=0))
    # this very server: its kube-system is read there and here, and nothing is written
    await put_kubeconfig(management, kubeconfig(management.control_plane))
    await asyncio.sleep(1.1)
    await management.settings(rollout="Automatic", propagate=True)
    async with limited(management, CONTROLLERS, OURS):
        await until_edited(management)
        await until_edited(management, "KubeadmControlPlane", "mycluster")

        async def begun() -> str | None:
            return await rollout_after(management, "workers")

        await management.until(begun)
