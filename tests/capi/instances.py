"""A provider's machine with its user data: wrapped as the provider's controller does, read by cloudbase-init's own class."""

import base64
import functools
import gzip
import importlib.resources
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest import mock

from lab.cloudbase import Outcome
from lab.windows_setup import create_machine as new_machine
from lab.windows_setup import run

from transom.capi.check.worker_inputs import ProviderName
from transom.capi.image import cloudbase_init
from transom.capi.image.inputs import ImageInputs
from transom.capi.providers.nutanix import NAME as NUTANIX_NAME

FILES = Path(str(importlib.resources.files("transom.capi") / "image" / "files"))
NAME = "win-1"
GOAL_STATE = """<GoalState><Incarnation>1</Incarnation><Machine><ExpectedState>Started</ExpectedState></Machine><Container>
<ContainerId>c</ContainerId><RoleInstanceList><RoleInstance><InstanceId>i-1</InstanceId></RoleInstance></RoleInstanceList>
</Container></GoalState>"""
VERSIONS = "<Versions><Supported><Version>2015-04-05</Version><Version>2012-11-30</Version></Supported></Versions>"
ENVIRONMENT = f"""<Environment xmlns:wa="x"><wa:ProvisioningSection><WindowsProvisioningConfigurationSet>
<ComputerName>{NAME}</ComputerName></WindowsProvisioningConfigurationSet></wa:ProvisioningSection>
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


@contextmanager
def serving() -> Iterator[str]:
    """The endpoint, by its address."""
    Metadata.held, Metadata.posted = {}, []
    with ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


class Instance:
    """A machine; each `run` is one of cloudbase-init's service. `options` are those of a metadata service's group."""

    def __init__(
        self,
        provider: ProviderName,
        directory: Path,
        *,
        drives: Sequence[str] = (),
        answers: Mapping[str, str] | None = None,
        options: Mapping[tuple[str, str], Any] | None = None,
        patches: Callable[[], Sequence[Any]] = lambda: (),
    ) -> None:
        self.machine = new_machine(drives, answers)
        self._configuration = cloudbase_init.render_service_config(ImageInputs(provider))
        self._scripts = directory / "scripts"
        self._scripts.mkdir(exist_ok=True)
        self._options, self._patches = options or {}, patches

    def run(self) -> Outcome:
        from cloudbaseinit import conf

        with ExitStack() as stack:
            for (group, name), value in self._options.items():
                conf.CONF.set_override(name, value, group)
                stack.callback(conf.CONF.clear_override, name, group)
            for patch in self._patches():
                stack.enter_context(patch)
            return run(self.machine, self._configuration, self._scripts, modules=[FILES], retry_count=0)


def aws(
    endpoint: str, user_data: bytes, directory: Path, *, keys: bool = True, name: str = NAME, gzipped: bool = True
) -> Instance:
    """CAPA gzips (`uncompressedUserData: false`), but nothing of a pool; EC2 serves what the base64 of its API held."""
    base = "/2009-04-04"
    Metadata.held = {
        f"{base}/meta-data/local-hostname": name.encode(),
        f"{base}/meta-data/instance-id": b"i-1",
        f"{base}/user-data": gzip.compress(user_data) if gzipped else user_data,
    }
    if keys:
        pair = {"meta-data/public-keys": b"0=default", "meta-data/public-keys/0/openssh-key": b"ssh-rsa AA a"}
        Metadata.held |= {f"{base}/{path}": value for path, value in pair.items()}
    options = {("ec2", "metadata_base_url"): f"http://{endpoint}/", ("ec2", "add_metadata_private_ip_route"): False}
    return Instance("aws", directory, options=options)


def azure(endpoint: str, user_data: bytes, directory: Path) -> Instance:
    """Azure puts custom data beside its answer file, on a disk; the wire server is the endpoint."""
    Metadata.held = {"/machine?comp=goalstate": GOAL_STATE.encode(), "/?comp=Versions": VERSIONS.encode()}
    drive = directory / "drive"
    drive.mkdir(exist_ok=True)
    (drive / "E6DA6616-8EC4-48E0-BE93-58CE6ACE3CFB.tag").touch()
    (drive / "ovf-env.xml").write_text(ENVIRONMENT)
    (drive / "CustomData.bin").write_bytes(user_data)

    def patches() -> Sequence[Any]:
        # DHCP names the wire server, by an address without a port
        options = mock.patch("cloudbaseinit.utils.dhcp.get_dhcp_options", return_value={245: endpoint})
        return options, mock.patch("socket.inet_ntoa", return_value=endpoint)

    return Instance("azure", directory, drives=[str(drive)], patches=patches)


def vsphere(endpoint: str, user_data: bytes, directory: Path, *, network: Mapping[str, Any] | None = None) -> Instance:
    """CAPV hands both to guestinfo in base64 (SetCloudInitUserData, SetCloudInitMetadata), and says so."""
    metadata = {"instance-id": NAME, "local-hostname": NAME, **({"network": network} if network else {})}
    told = guest_info("metadata", json.dumps(metadata).encode()) | guest_info("userdata", user_data)
    answers = {f"info-get {key}": value for key, value in told.items()}
    tool = directory / "rpctool.exe"
    tool.touch()
    return Instance("vsphere", directory, answers=answers, options={("vmwareguestinfo", "vmware_rpctool_path"): str(tool)})


def guest_info(key: str, value: bytes) -> dict[str, str]:
    """What CAPV sets of a machine."""
    return {f"guestinfo.{key}": base64.b64encode(value).decode(), f"guestinfo.{key}.encoding": "base64"}


def gcp(endpoint: str, user_data: bytes, directory: Path) -> Instance:
    """CAPG makes it the attribute `user-data`, as it is."""
    base = "/computeMetadata/v1/instance"
    Metadata.held = {f"{base}/name": NAME.encode(), f"{base}/id": b"1", f"{base}/attributes/user-data": user_data}
    return Instance("gcp", directory, options={("gce", "metadata_base_url"): f"http://{endpoint}/computeMetadata/v1/"})


def nova(endpoint: str, user_data: bytes, directory: Path, *, network: Mapping[str, Any]) -> Instance:
    """Nova's metadata by HTTP, where a machine has no disk of it; the base64 of its API is taken off."""
    metadata = json.dumps({"uuid": "1", "hostname": f"{NAME}.novalocal"}).encode()
    Metadata.held = {
        "/openstack/latest/meta_data.json": metadata,
        "/openstack/2013-04-04/meta_data.json": metadata,
        "/openstack/2013-04-04/password": b"",
        "/openstack/latest/network_data.json": json.dumps(network).encode(),
        "/openstack/latest/user_data": user_data,
    }
    url, route = ("openstack", "metadata_base_url"), ("openstack", "add_metadata_private_ip_route")
    return Instance("openstack", directory, options={url: f"http://{endpoint}/", route: False})


def openstack(endpoint: str, user_data: bytes, directory: Path) -> Instance:
    """The disk that CAPO asks for (`configDrive: true`)."""
    return _config_drive("openstack", {"uuid": "1", "hostname": f"{NAME}.novalocal"}, user_data, directory)


def nutanix(endpoint: str, user_data: bytes, directory: Path) -> Instance:
    """A disk, too; CAPX takes the mark of the template engine off, and renders one expression by itself."""
    return _config_drive("nutanix", {"uuid": "1", "hostname": NAME}, rendered(user_data), directory)


def rendered(user_data: bytes) -> bytes:
    """What CAPX makes of it."""
    return user_data.removeprefix(b"## template: jinja\n").replace(NUTANIX_NAME.value.encode(), NAME.encode())


def _config_drive(provider: ProviderName, metadata: Mapping[str, str], user_data: bytes, directory: Path) -> Instance:
    def patches() -> Sequence[Any]:
        # each run copies the disk's files, and takes the copy away
        disk = directory / "disk"
        (disk / "openstack" / "latest").mkdir(parents=True, exist_ok=True)
        (disk / "openstack" / "latest" / "meta_data.json").write_text(json.dumps(metadata))
        (disk / "openstack" / "latest" / "user_data").write_bytes(user_data)
        found = SimpleNamespace(target_path=str(disk), get_config_drive_files=lambda **_: True)
        # to find the disk needs a Windows: what it holds is read by the class itself
        return (mock.patch("cloudbaseinit.metadata.services.osconfigdrive.factory.get_config_drive_manager", lambda: found),)

    return Instance(provider, directory, patches=patches)


INSTANCES: Mapping[ProviderName, Callable[[str, bytes, Path], Instance]] = {
    "aws": aws,
    "azure": azure,
    "vsphere": vsphere,
    "openstack": openstack,
    "gcp": gcp,
    "nutanix": nutanix,
}
"""By provider: of the endpoint, the user data and a directory."""
POOL_INSTANCES: Mapping[ProviderName, Callable[[str, bytes, Path], Instance]] = {
    "aws": functools.partial(aws, gzipped=False),
    "azure": azure,
}
"""The same for machines of pools."""
