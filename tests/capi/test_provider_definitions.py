"""Each provider's own definitions, with their CEL rules, on a real API server: they take what is made for each Kubernetes."""

import json
import urllib.error
from typing import Any, get_args

import pytest
from lab.control_plane import ControlPlane
from tests.capi.settings import EGRESS

from transom.capi.check.worker_inputs import InputUser, ProviderName, WorkerInputs
from transom.capi.providers.provider_table import PROVIDERS as ALL
from transom.capi.worker.windows_release import PAUSE
from transom.capi.worker.worker_objects import build_worker

pytestmark = pytest.mark.lab

PROVIDERS = get_args(ProviderName)
WRONG: dict[ProviderName, tuple[dict[str, Any], str]] = {
    "aws": ({"rootVolume": {"size": 7}}, "should be greater than or equal to 8"),
    "azure": ({"osDisk": {"cachingType": "Sometimes"}}, 'Unsupported value: "Sometimes"'),
    "vsphere": ({"powerOffMode": "gently"}, 'Unsupported value: "gently"'),
    "openstack": ({"flavor": None}, "at least one of flavor or flavorID must be set"),
    "gcp": ({"onHostMaintenance": "Wait"}, 'Unsupported value: "Wait"'),
    "nutanix": ({"image": None}, "Either 'image' or 'imageLookup' must be set"),
}
"""What is no machine of the provider, and what its definition says of it."""

POOLS: dict[ProviderName, tuple[dict[str, Any], str]] = {
    "aws": ({"awsLaunchTemplate": {"rootVolume": {"size": 7}}}, "should be greater than or equal to 8"),
    "azure": ({"orchestrationMode": "Rigid"}, 'Unsupported value: "Rigid"'),
}
"""What is no pool of the provider."""


def try_out(server: ControlPlane, item: dict[str, Any]) -> None:
    """Have the server check an object, strictly, and keep nothing."""
    group, _, version = item["apiVersion"].rpartition("/")
    start = f"/apis/{group}/{version}" if group else f"/api/{version}"
    path = f"{start}/namespaces/{item['metadata']['namespace']}/{item['kind'].lower()}s"
    server.request("POST", f"{path}?fieldValidation=Strict&dryRun=All", item)


def pool(provider: ProviderName, **fields: Any) -> WorkerInputs:
    return WorkerInputs(cluster="prod", provider=provider, machine_pool=True, **{"location": "westeurope", **fields})


def inputs(provider: ProviderName, **fields: Any) -> WorkerInputs:
    return WorkerInputs(cluster="prod", provider=provider, machine_name_prefix="win", **fields)


@pytest.mark.parametrize("minor", list(PAUSE))
@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_object_is_taken(management: ControlPlane, provider: ProviderName, minor: int) -> None:
    users = (InputUser("operator", ("Administrators",), ("ssh-ed25519 AAAA a@b",)),)
    version = f"v1.{minor}.1"
    for more in ({}, {"image": "a-name", "disk_gi_b": 200, "instance_type": "large", "users": users}):
        made = build_worker(inputs(provider, kubernetes_version=version, name=f"tried-{minor}-{len(more)}", **more), EGRESS)
        assert len(made.objects) == 6, made.findings
        for item in made.objects:
            try_out(management, item)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_wrong_machine_is_refused(management: ControlPlane, provider: ProviderName) -> None:
    machine, said = WRONG[provider]
    made = build_worker(inputs(provider, name="wrong", machine=machine))
    (template,) = [item for item in made.objects if item["kind"].endswith("MachineTemplate")]
    with pytest.raises(urllib.error.HTTPError) as refused:
        try_out(management, template)
    assert said in json.loads(refused.value.read())["message"]


def test_pools_are_those_of_the_providers_that_have_them() -> None:
    assert set(POOLS) == {name for name, provider in ALL.items() if provider.pool is not None}


@pytest.mark.parametrize("minor", list(PAUSE))
@pytest.mark.parametrize("provider", list(POOLS))
def test_every_object_of_a_pool_is_taken(management: ControlPlane, provider: ProviderName, minor: int) -> None:
    users = (InputUser("operator", ("Administrators",), ("ssh-ed25519 AAAA a@b",)),)
    for more in ({}, {"image": "a-name", "disk_gi_b": 200, "instance_type": "large", "users": users, "api_version": "v1beta1"}):
        made = build_worker(
            pool(provider, kubernetes_version=f"v1.{minor}.1", name=f"pool-{minor}-{len(more)}", **more), EGRESS
        )
        assert [item["kind"] for item in made.objects[1:4]] == ["KubeadmConfig", ALL[provider].pool.kind, "MachinePool"]
        for item in made.objects:
            try_out(management, item)


@pytest.mark.parametrize("provider", list(POOLS))
def test_a_wrong_pool_is_refused(management: ControlPlane, provider: ProviderName) -> None:
    machine, said = POOLS[provider]
    made = build_worker(pool(provider, name="wrong", machine=machine))
    with pytest.raises(urllib.error.HTTPError) as refused:
        try_out(management, made.objects[1])
    assert said in json.loads(refused.value.read())["message"]
