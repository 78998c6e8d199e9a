"""The networks that the operator is started with hold for the kubeconfigs that propagation reads."""

import base64
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.kube.hostile_kubeconfigs import HOSTILE_KUBECONFIGS, build_kubeconfig

from transom.controllers.operator import Operator
from transom.controllers.propagation.controller import PropagationController, _PropagationFailed
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.options import Options
from transom.kube.client import Client
from transom.kube.permitted_networks import PermittedNetworks
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress


async def propagate(kubeconfig: dict[str, Any], networks: PermittedNetworks) -> str:
    """Return why nothing can be written into a cluster with such a kubeconfig."""
    client = cast(Client, SimpleNamespace(connection=SimpleNamespace(server="https://api.example")))
    controller = Operator(client, Options(workload_cluster_networks=networks)).controllers["propagation"]
    assert isinstance(controller, PropagationController)

    async def get(resource: Any, name: str, namespace: str) -> Any:
        value = base64.b64encode(msgspec.json.encode(kubeconfig)).decode()
        return resource.type(data={"value": value})

    leadership = cast(Leadership, SimpleNamespace(client=SimpleNamespace(get=get), permit=lambda: 5.0))
    with pytest.raises(_PropagationFailed) as raised:
        await controller._propagate(ObjectKey("org", "alpha"), Egress(), leadership)
    return str(raised.value)


@pytest.mark.parametrize("name", HOSTILE_KUBECONFIGS)
async def test_a_hostile_kubeconfig_leads_nowhere(name: str) -> None:
    told = await propagate(HOSTILE_KUBECONFIGS[name](), PermittedNetworks())
    assert "is not permitted" in told or "is not a canonical IPv4 address" in told


async def test_a_list_of_networks_holds_for_them() -> None:
    networks = PermittedNetworks.parse(("127.0.0.0/8",))
    assert "is not permitted" in await propagate(build_kubeconfig("https://10.0.0.1"), networks)
    assert "is not permitted" not in await propagate(build_kubeconfig("https://127.0.0.1:1"), networks)
