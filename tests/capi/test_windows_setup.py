"""The first boot of an image's machines, by cloudbase-init's own InitManager and metadata services."""

import importlib.resources
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, get_args
from unittest import mock

import pytest
from lab.windows_setup import machine as new_machine
from lab.windows_setup import run

from transom.capi.image import cloudbase_init
from transom.capi.image.inputs import ImageInputs
from transom.capi.inputs import ProviderName
from transom.capi.upstream import AZURE_AGENT_PLUGIN, NETWORK_PLUGIN

FILES = Path(str(importlib.resources.files("transom.capi") / "image" / "files"))
PROVIDERS = get_args(ProviderName)
USER_DATA = b"""#cloud-config
write_files:
- path: C:\\k\\a.txt
  content: hello
runcmd:
- hostname
"""
GOAL_STATE = """<GoalState><Incarnation>1</Incarnation><Machine><ExpectedState>Started</ExpectedState></Machine><Container>
<ContainerId>c</ContainerId><RoleInstanceList><RoleInstance><InstanceId>i-1</InstanceId></RoleInstance></RoleInstanceList>
</Container></GoalState>"""
VERSIONS = "<Versions><Supported><Version>2015-04-05</Version><Version>2012-11-30</Version></Supported></Versions>"
ENVIRONMENT = """<Environment xmlns:wa="x"><wa:ProvisioningSection><WindowsProvisioningConfigurationSet>
<ComputerName>win-1</ComputerName></WindowsProvisioningConfigurationSet></wa:ProvisioningSection>
<wa:PlatformSettingsSection><PlatformSettings/></wa:PlatformSettingsSection></Environment>"""


class Metadata(BaseHTTPRequestHandler):
    """An endpoint of a provider: what stands at each path, and what was posted."""

    held: ClassVar[dict[str, bytes]] = {}
    posted: ClassVar[list[str]] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        found = Metadata.held.get(self.path)
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Length", str(len(found or b"")))
        self.end_headers()
        self.wfile.write(found or b"")

    def do_POST(self) -> None:
        Metadata.posted.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def endpoint() -> Iterator[str]:
    Metadata.held, Metadata.posted = {}, []
    with ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def ec2(*, keys: bool) -> dict[str, bytes]:
    base = "/2009-04-04"
    found = {
        f"{base}/meta-data/local-hostname": b"ip-10-0-1-2.eu-west-1.compute.internal",
        f"{base}/meta-data/instance-id": b"i-1",
        f"{base}/user-data": USER_DATA,
    }
    if keys:
        found |= {f"{base}/meta-data/public-keys": b"0=default", f"{base}/meta-data/public-keys/0/openssh-key": b"ssh-rsa AA a"}
    return found


def test_setup_is_not_restarted(tmp_path: Path) -> None:
    machine = new_machine()
    run(machine, cloudbase_init.unattended(), tmp_path)
    assert machine.did == []
    text = cloudbase_init.unattended().decode().splitlines()
    assert {"allow_reboot=false", "logfile=cloudbase-init-unattend.log", "stop_service_on_exit=false"} <= set(text)
    assert "logfile=cloudbase-init-unattend.log" not in cloudbase_init.service(ImageInputs("azure")).decode()


@pytest.mark.parametrize("keys", [True, False], ids=["key-pair", "none"])
def test_ec2_without_a_key_pair(endpoint: str, tmp_path: Path, *, keys: bool) -> None:
    from cloudbaseinit import conf

    Metadata.held = ec2(keys=keys)
    machine = new_machine()
    conf.CONF.set_override("metadata_base_url", f"http://{endpoint}/", "ec2")
    conf.CONF.set_override("add_metadata_private_ip_route", False, "ec2")
    try:
        for _ in range(2):
            found = run(machine, cloudbase_init.service(ImageInputs("aws")), tmp_path, modules=[FILES], retry_count=0)
    finally:
        conf.CONF.clear_override("metadata_base_url", "ec2")
        conf.CONF.clear_override("add_metadata_private_ip_route", "ec2")
    assert machine.did == ["name ip-10-0-1-2", "restart", "random password of Administrator"]
    assert ([file.path for file in found.files], found.commands) == ([r"C:\k\a.txt"], ["hostname"])


def test_azure_is_told_once_that_the_machine_is_ready(endpoint: str, tmp_path: Path) -> None:
    """Two runs, since the machine's new name needs a restart."""
    Metadata.held = {"/machine?comp=goalstate": GOAL_STATE.encode(), "/?comp=Versions": VERSIONS.encode()}
    drive, scripts = tmp_path / "drive", tmp_path / "scripts"
    scripts.mkdir()
    drive.mkdir()
    (drive / "E6DA6616-8EC4-48E0-BE93-58CE6ACE3CFB.tag").touch()
    (drive / "ovf-env.xml").write_text(ENVIRONMENT)
    (drive / "CustomData.bin").write_bytes(USER_DATA)
    machine = new_machine([str(drive)])
    configuration = cloudbase_init.service(ImageInputs("azure"))
    # DHCP names the wire server, by an address without a port
    dhcp = mock.patch("cloudbaseinit.utils.dhcp.get_dhcp_options", return_value={245: endpoint})
    states = []
    for _ in range(2):
        with dhcp, mock.patch("socket.inet_ntoa", return_value=endpoint):
            found = run(machine, configuration, scripts, retry_count=0)
        states.append([text.partition("<State>")[2].partition("</State>")[0] for text in Metadata.posted])
        Metadata.posted.clear()
    assert states == [["NotReady"], ["NotReady", "Ready"]]
    assert machine.did == ["name win-1", "restart", "random password of Administrator"]
    assert [file.path for file in found.files] == [r"C:\k\a.txt"]
    assert AZURE_AGENT_PLUGIN.value in configuration.decode()


def test_a_static_address_of_vsphere_is_applied_first(tmp_path: Path) -> None:
    """As CAPV gives it with `dhcp4: false`: the network in the metadata."""
    network = {
        "version": 2,
        "ethernets": {
            "id0": {"match": {"macaddress": "00:50:56:00:00:01"}, "addresses": ["192.0.2.7/24"], "gateway4": "192.0.2.1"}
        },
    }
    given = {
        "metadata": json.dumps({"instance-id": "win-1", "local-hostname": "win-1", "network": network}),
        "userdata": USER_DATA.decode(),
    }
    tool, scripts = tmp_path / "rpctool.exe", tmp_path / "scripts"
    scripts.mkdir()
    tool.touch()

    from cloudbaseinit import conf

    answers = {f"info-get guestinfo.{key}": value for key, value in given.items()}
    machine = new_machine(answers=answers)
    conf.CONF.set_override("vmware_rpctool_path", str(tool), "vmwareguestinfo")
    try:
        for _ in range(2):
            found = run(machine, cloudbase_init.service(ImageInputs("vsphere")), scripts)
    finally:
        conf.CONF.clear_override("vmware_rpctool_path", "vmwareguestinfo")
    assert machine.did[0] == "address 192.0.2.7 24 by 192.0.2.1"
    assert machine.did[1:] == ["name win-1", "restart", "random password of Administrator"]
    assert [file.path for file in found.files] == [r"C:\k\a.txt"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_plugins_are_in_an_order_that_holds(provider: ProviderName) -> None:
    lines = dict(
        line.split("=", 1) for line in cloudbase_init.service(ImageInputs(provider)).decode().splitlines() if "=" in line
    )
    plugins = [name.rpartition(".")[2] for name in lines["plugins"].split(",")]
    assert plugins[-1] == "UserDataPlugin"
    assert (NETWORK_PLUGIN.value in lines["plugins"]) == (provider in ("vsphere", "openstack"))
    assert "SetUserPasswordPlugin" in plugins


def served(group: str, endpoint: str, tmp_path: Path, provider: ProviderName) -> tuple[list[str], list[str]]:
    """Two runs with the provider's own class: what was done, and the files of the user data."""
    from cloudbaseinit import conf

    machine = new_machine()
    conf.CONF.set_override("metadata_base_url", f"http://{endpoint}/{'computeMetadata/v1/' if group == 'gce' else ''}", group)
    if group == "openstack":
        conf.CONF.set_override("add_metadata_private_ip_route", False, group)
    try:
        for _ in range(2):
            found = run(machine, cloudbase_init.service(ImageInputs(provider)), tmp_path, retry_count=0)
    finally:
        conf.CONF.clear_override("metadata_base_url", group)
        if group == "openstack":
            conf.CONF.clear_override("add_metadata_private_ip_route", group)
    return machine.did, [file.path for file in found.files]


def test_google_s_metadata_without_keys(endpoint: str, tmp_path: Path) -> None:
    base = "/computeMetadata/v1/instance"
    Metadata.held = {f"{base}/name": b"win-1", f"{base}/id": b"1", f"{base}/attributes/user-data": USER_DATA}
    did, files = served("gce", endpoint, tmp_path, "gcp")
    assert did == ["name win-1", "restart", "random password of Administrator"]
    assert files == [r"C:\k\a.txt"]


@pytest.mark.parametrize("static", [True, False], ids=["static", "dhcp"])
def test_nova_s_metadata_without_keys(endpoint: str, tmp_path: Path, *, static: bool) -> None:
    """By HTTP: the disk that CAPO asks for needs a Windows to be found."""
    address = {"type": "ipv4", "ip_address": "192.0.2.7", "netmask": "255.255.255.0"} if static else {"type": "ipv4_dhcp"}
    routes = [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"}] if static else []
    network = {
        "links": [{"id": "tap", "type": "ovs", "ethernet_mac_address": "fa:16:3e:00:00:01", "mtu": 1450}],
        "networks": [{"id": "net", "link": "tap", "network_id": "n", "routes": routes, **address}],
        "services": [],
    }
    metadata = json.dumps({"uuid": "1", "hostname": "win-1.novalocal"}).encode()
    Metadata.held = {
        "/openstack/latest/meta_data.json": metadata,
        "/openstack/2013-04-04/meta_data.json": metadata,
        "/openstack/2013-04-04/password": b"",
        "/openstack/latest/network_data.json": json.dumps(network).encode(),
        "/openstack/latest/user_data": USER_DATA,
    }
    did, files = served("openstack", endpoint, tmp_path, "openstack")
    expected = ["address 192.0.2.7 24 by 192.0.2.1"] if static else []
    assert did == [*expected, "name win-1", "restart", "random password of Administrator"]
    assert files == [r"C:\k\a.txt"]
