"""Bootstrap data that the real CABPK makes of our templates, read by cloud-init and run up to kubeadm's static pods."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.cluster_api import BootstrapProvider
from lab.control_plane import ControlPlane
from lab.first_boot import FirstBoot, check_schema
from tests.support.bundles import certificate
from tests.support.management import machines
from tests.support.management.management import Management
from tests.support.management.manifests import egress_proxy
from tests.support.management.rollouts import CONTROLLERS, SYSTEMD, configuration, initialized, put, until_edited

from lab import cluster_api
from transom.capi.bootstrap.machine_files import DROP_INS, ENV_FILE, build_linux_entries
from transom.capi.bootstrap.template_patches import convert_entries
from transom.kube.resources import EGRESS_PROXIES
from transom.proxy.objects import LinuxSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress

pytestmark = pytest.mark.lab
PROXY = "http://me:hunter2%25&$'+@192.168.52.220:3128"
"""All of these characters may stand in userinfo as they are, but for `%`."""
NAMES = {"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"}
MACHINES = {"clusterSelector": {}, "consumers": ["Nodes", "StaticPods"]}
SETTINGS = egress_proxy(httpProxy=PROXY, httpsProxy=PROXY, noProxy="example.com", trustedCA={"name": "corp-ca"}, **MACHINES)
FIRST = {
    "initConfiguration": {
        "localAPIEndpoint": {"advertiseAddress": "10.0.0.9", "bindPort": 6443},
        "nodeRegistration": {"name": "first", "criSocket": "unix:///run/containerd/containerd.sock"},
    },
    "preKubeadmCommands": ["echo theirs"],
}


@pytest.fixture(scope="session")
def cabpk(management_plane: ControlPlane) -> Iterator[BootstrapProvider]:
    with cluster_api.BootstrapProvider(management_plane) as running:
        yield running


async def bootstrap_data(management: Management, cabpk: BootstrapProvider, spec: dict[str, Any], **more: Any) -> bytes:
    name = await asyncio.to_thread(cabpk.start_machine, management.org, "mycluster", spec, **more)
    return await asyncio.to_thread(cabpk.wait_data, management.org, name)


@pytest.mark.parametrize("format_", ["cloud-config", "ignition"])
async def test_first_control_plane_gives_its_static_pods_all_six_variables(
    management: Management, cabpk: BootstrapProvider, tmp_path: Path, format_: str
) -> None:
    pem = certificate("corp")
    await management.cluster()
    await management.bundle(pem)
    await put(management, machines.control_plane(spec=FIRST | {"format": format_}))
    await management.put(SETTINGS)
    async with management.operator(controllers=CONTROLLERS):
        await until_edited(management, "KubeadmControlPlane", "mycluster")
        spec = await configuration(management, "KubeadmControlPlane", "mycluster")
        data = await bootstrap_data(management, cabpk, spec, control_plane=True)
    root = tmp_path / "root"
    root.mkdir()
    machine = FirstBoot(root)
    if format_ == "ignition":
        said = await asyncio.to_thread(machine.boot_ignition, data)
    else:
        assert "Valid" in check_schema(data, tmp_path)
        said = await asyncio.to_thread(machine.boot_cloud_config, data)
    assert "hunter2" not in said
    assert "theirs" in said
    pods = machine.read_static_pods()
    assert set(pods) == {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
    secret = await management.data("Secret", SYSTEMD)
    assert secret is not None
    for environment in pods.values():
        assert set(environment) >= NAMES
        # an empty one would be copied, too, and breaks a control plane
        assert all(environment.values())
        assert environment["HTTP_PROXY"] == environment["https_proxy"] == PROXY
        assert environment["NO_PROXY"].startswith("cluster.local,100.64.0.0/13,")
    for path in DROP_INS:
        assert machine.get_host_path(path).read_text() == secret["containerdProxy"]
        assert machine.get_host_path(path).stat().st_mode & 0o777 == 0o600
    assert machine.get_host_path(ENV_FILE).read_text() == secret["env"]
    assert machine.get_host_path(ENV_FILE).stat().st_mode & 0o777 == 0o600
    assert pem in machine.get_host_path("/etc/ssl/certs/ca-certificates.crt").read_text()


async def test_worker_waits_for_the_secret_and_joins(management: Management, cabpk: BootstrapProvider, tmp_path: Path) -> None:
    proxied = Egress(Secret(PROXY), Secret(PROXY), "example.com", linux=LinuxSettings("Both"))
    spec = convert_entries(build_linux_entries(SYSTEMD, proxied))
    spec["preKubeadmCommands"].append('printf %s "$https_proxy" > /etc/theirs')
    await management.cluster()
    name = await asyncio.to_thread(cabpk.start_machine, management.org, "mycluster", spec)

    async def waits() -> bool:
        return SYSTEMD in await asyncio.to_thread(cabpk.read_condition, management.org, name)

    await management.until(waits)
    await management.settings()
    async with management.operator(controllers=CONTROLLERS):
        data = await asyncio.to_thread(cabpk.wait_data, management.org, name)
    assert "Valid" in check_schema(data, tmp_path)
    root = tmp_path / "root"
    root.mkdir()
    machine = FirstBoot(root)
    await asyncio.to_thread(machine.boot_cloud_config, data)
    assert "join" in machine.get_host_path("/joined").read_text()
    secret = await management.data("Secret", SYSTEMD)
    assert secret is not None
    assert machine.get_host_path(DROP_INS[0]).read_text() == secret["containerdProxy"]
    assert not machine.get_host_path(ENV_FILE).exists()
    url = secret["shell"].partition("https_proxy='")[2].partition("'")[0]
    assert machine.get_host_path("/etc/theirs").read_text() == url
    assert (
        f"https_proxy={url}".replace("%", "%%")
        in machine.get_host_path("/etc/systemd/system.conf.d/transom-proxy.conf").read_text()
    )


async def test_a_pool_without_nodes_is_edited_and_boots_with_the_entries(
    management: Management, cabpk: BootstrapProvider
) -> None:
    await management.cluster()
    await put(management, *machines.pool("pool", None))
    await management.settings()
    async with management.operator(controllers=CONTROLLERS):
        await until_edited(management, "KubeadmConfig", "pool")
        await asyncio.to_thread(cabpk.start_pool, management.org, "mycluster", "pool")
        data = (await asyncio.to_thread(cabpk.wait_data, management.org, "pool")).decode()
    assert all(path in data for path in DROP_INS)
    assert "echo theirs" in data


@pytest.mark.parametrize("format_", ["cloud-config", "ignition"])
async def test_machine_added_after_the_proxy_was_removed_gets_its_bootstrap_data(
    management: Management, cabpk: BootstrapProvider, format_: str
) -> None:
    await management.cluster()
    await put(management, machines.control_plane(spec=FIRST | {"format": format_}))
    await management.settings(**MACHINES)
    async with management.operator(controllers=CONTROLLERS):
        await until_edited(management, "KubeadmControlPlane", "mycluster")
        await management.until_data("Secret", SYSTEMD, "env", "HTTP_PROXY")
        await initialized(management)
        await management.client.delete(EGRESS_PROXIES, "cluster")

        async def emptied() -> bool:
            return (await management.data("Secret", SYSTEMD) or {}).get("env") == ""

        await management.until(emptied)
        spec = await configuration(management, "KubeadmControlPlane", "mycluster")
        data = await bootstrap_data(management, cabpk, spec, control_plane=True)
    if format_ == "ignition":
        files = {file["path"]: file["contents"]["source"] for file in json.loads(data)["storage"]["files"]}
        assert files[DROP_INS[0]] == "data:,%5BService%5D%0A"
        assert files[ENV_FILE] == "data:,"
    assert b"PROXY=" not in data
