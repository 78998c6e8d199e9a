"""The first boot of an image's machines, by cloudbase-init's own InitManager and metadata services."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from lab.windows_setup import create_machine as new_machine
from lab.windows_setup import run
from tests.capi.instances import Instance, Metadata, aws, azure, gcp, nova, openstack, serving, vsphere

from transom.capi.check.upstream import AZURE_AGENT_PLUGIN, NETWORK_PLUGIN
from transom.capi.check.worker_inputs import ProviderName
from transom.capi.image import cloudbase_init
from transom.capi.image.inputs import ImageInputs

PROVIDERS = get_args(ProviderName)
USER_DATA = b"""## template: jinja
#cloud-config
write_files:
- path: C:\\k\\a.txt
  content: hello
runcmd:
- hostname
"""
FIRST_RUNS = ["name win-1", "restart", "random password of Administrator"]


@pytest.fixture
def endpoint() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def boot(instance: Instance, runs: int = 2) -> tuple[list[str], list[str], list[str]]:
    """Two runs, since the machine's new name needs a restart: what was done, and the user data's files and commands."""
    found = [instance.run() for _ in range(runs)][-1]
    return instance.machine.did, [file.path for file in found.files], found.commands


def test_setup_is_not_restarted(tmp_path: Path) -> None:
    machine = new_machine()
    run(machine, cloudbase_init.render_unattended_config(), tmp_path)
    assert machine.did == []
    text = cloudbase_init.render_unattended_config().decode().splitlines()
    assert {"allow_reboot=false", "logfile=cloudbase-init-unattend.log", "stop_service_on_exit=false"} <= set(text)
    assert "logfile=cloudbase-init-unattend.log" not in cloudbase_init.render_service_config(ImageInputs("azure")).decode()


@pytest.mark.parametrize("keys", [True, False], ids=["key-pair", "none"])
def test_ec2_without_a_key_pair(endpoint: str, tmp_path: Path, *, keys: bool) -> None:
    instance = aws(endpoint, USER_DATA, tmp_path, keys=keys, name="ip-10-0-1-2.eu-west-1.compute.internal")
    did, files, commands = boot(instance)
    assert did == ["name ip-10-0-1-2", "restart", "random password of Administrator"]
    assert (files, commands) == ([r"C:\k\a.txt"], ["hostname"])


def test_azure_is_told_once_that_the_machine_is_ready(endpoint: str, tmp_path: Path) -> None:
    instance = azure(endpoint, USER_DATA, tmp_path)
    states = []
    for _ in range(2):
        found = instance.run()
        states.append([text.partition("<State>")[2].partition("</State>")[0] for text in Metadata.posted])
        Metadata.posted.clear()
    assert states == [["NotReady"], ["NotReady", "Ready"]]
    assert instance.machine.did == FIRST_RUNS
    assert [file.path for file in found.files] == [r"C:\k\a.txt"]
    assert AZURE_AGENT_PLUGIN.value in cloudbase_init.render_service_config(ImageInputs("azure")).decode()


def test_a_static_address_of_vsphere_is_applied_first(endpoint: str, tmp_path: Path) -> None:
    """As CAPV gives it with `dhcp4: false`: the network in the metadata."""
    network = {
        "version": 2,
        "ethernets": {
            "id0": {"match": {"macaddress": "00:50:56:00:00:01"}, "addresses": ["192.0.2.7/24"], "gateway4": "192.0.2.1"}
        },
    }
    did, files, _ = boot(vsphere(endpoint, USER_DATA, tmp_path, network=network))
    assert did == ["address 192.0.2.7 24 by 192.0.2.1", *FIRST_RUNS]
    assert files == [r"C:\k\a.txt"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_plugins_are_in_an_order_that_holds(provider: ProviderName) -> None:
    lines = dict(
        line.split("=", 1)
        for line in cloudbase_init.render_service_config(ImageInputs(provider)).decode().splitlines()
        if "=" in line
    )
    plugins = [name.rpartition(".")[2] for name in lines["plugins"].split(",")]
    assert plugins[-1] == "UserDataPlugin"
    assert (NETWORK_PLUGIN.value in lines["plugins"]) == (provider in ("vsphere", "openstack"))
    assert "SetUserPasswordPlugin" in plugins


def test_google_s_metadata_without_keys(endpoint: str, tmp_path: Path) -> None:
    did, files, _ = boot(gcp(endpoint, USER_DATA, tmp_path))
    assert (did, files) == (FIRST_RUNS, [r"C:\k\a.txt"])


def test_a_disk_of_nova_s(endpoint: str, tmp_path: Path) -> None:
    did, files, _ = boot(openstack(endpoint, USER_DATA, tmp_path))
    assert (did, files) == (FIRST_RUNS, [r"C:\k\a.txt"])


@pytest.mark.parametrize("static", [True, False], ids=["static", "dhcp"])
def test_nova_s_metadata_without_keys(endpoint: str, tmp_path: Path, *, static: bool) -> None:
    """By HTTP, where there is no disk."""
    address = {"type": "ipv4", "ip_address": "192.0.2.7", "netmask": "255.255.255.0"} if static else {"type": "ipv4_dhcp"}
    routes = [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"}] if static else []
    network: dict[str, Any] = {
        "links": [{"id": "tap", "type": "ovs", "ethernet_mac_address": "fa:16:3e:00:00:01", "mtu": 1450}],
        "networks": [{"id": "net", "link": "tap", "network_id": "n", "routes": routes, **address}],
        "services": [],
    }
    did, files, _ = boot(nova(endpoint, USER_DATA, tmp_path, network=network))
    expected = ["address 192.0.2.7 24 by 192.0.2.1"] if static else []
    assert (did, files) == ([*expected, *FIRST_RUNS], [r"C:\k\a.txt"])
