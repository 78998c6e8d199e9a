"""A Windows host, simulated or Wine, and the `transom` program in front of it, as a person would use them."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import yaml
from cryptography.hazmat.primitives.serialization import Encoding
from lab.machine import Machine
from lab.sshd.journal import sum_traffic
from tests.support.process import Process, start
from tests.windows.authorities import authorities

from transom.windows.registry import reg
from transom.windows.registry.edits import DeleteValue, Edit, SetValue
from transom.windows.registry.registry import NamedValue, Registry
from winsim import Host, Simulator
from winsim.filesystem import list_entries

USER, PASSWORD = "alice", 'hunter2%^&!"\\é x'
ENCODED = "hunter2%25%5E%26%21%22%5C%C3%A9%20x"
PROXY = "http://proxy.corp.example:3128"
URL = f"http://{USER}:{ENCODED}@proxy.corp.example:3128"
NO_PROXY = ".cluster.local,.corp.example,.svc,10.96.0.0/16,127.0.0.1,api.corp.example,localhost"
SERVICES = {"recorder-a": (), "recorder-b": ("recorder-a",)}
"""What each depends on."""
_PLACES = (r"C:\Windows", r"C:\ProgramData")
PEM = [certificate.public_bytes(Encoding.PEM).decode() for certificate in authorities()]
SETTINGS = {
    "httpProxy": PROXY,
    "httpsProxy": PROXY,
    "noProxy": ".corp.example",
    "credentialsSecret": {"name": "egress-credentials"},
    "trustedCA": {"name": "corp-ca"},
}


class Answer(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def hosts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = msgspec.json.decode(self.out)["hosts"]
        return found


class Windows(Protocol):
    """A host as the tests see it past SSH."""

    address: str
    port: int
    user: str
    key: str

    async def edit(self, edits: Iterable[Edit]) -> None:
        """Change the registry, as somebody at the console might."""

    async def registry(self, *paths: str) -> Registry:
        """These keys with all below them."""

    async def environments(self, service: str) -> list[dict[str, str]]:
        """The environment of each start of the service so far."""

    def files(self) -> list[str]:
        """What lies where Transom's directory is, and where it was once."""

    def commands(self) -> list[str]:
        """Every command line that the host was sent."""

    def read_file(self, path: str) -> bytes | None:
        """The bytes of a file; None if it does not exist."""

    def write_file(self, path: str, content: bytes | None) -> None:
        """Write a file as somebody at the console might, or delete it."""

    async def reboot(self) -> None:
        """Off and on again."""


class Simulated:
    """`winsim`."""

    def __init__(self, simulator: Simulator, host: Host) -> None:
        self.simulator, self.host = simulator, host
        self.address, self.port, self.user = host.address, host.port, host.username
        self.key = simulator.client_key.export_private_key().decode()

    async def edit(self, edits: Iterable[Edit]) -> None:
        self.host.edit(edits)

    async def registry(self, *paths: str) -> Registry:
        held = self.host.registry
        found = [key for path in paths for key in (held.find_key(path), *held.list_keys_below(path)) if key is not None]
        return Registry(found)

    async def environments(self, service: str) -> list[dict[str, str]]:
        return [dict(start.environment.items()) for start in self.host.starts(service)]

    def files(self) -> list[str]:
        return [node.name for place in _PLACES for node in list_entries(self.host.files.get_directory(place))]

    def commands(self) -> list[str]:
        return self.host.traffic.commands

    def read_file(self, path: str) -> bytes | None:
        return self.host.files.read(path) if self.host.files.find(path) is not None else None

    def write_file(self, path: str, content: bytes | None) -> None:
        if content is not None:
            self.host.files.write(path, content)
        elif (entry := self.host.files.find(path)) is not None:
            self.host.files.remove(entry)

    async def reboot(self) -> None:
        await self.host.boot()


class Wine:
    """`lab.machine.Machine`."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.address, self.port = machine.place.address, machine.place.port
        self.user, self.key = machine.ssh.user, machine.ssh.key.read_text()

    async def edit(self, edits: Iterable[Edit]) -> None:
        file = self.machine.find_path(r"C:\lab") / "edit.reg"
        file.write_bytes(reg.render(edits))
        self.machine.run("reg", "import", r"C:\lab\edit.reg")

    async def registry(self, *paths: str) -> Registry:
        found = Registry()
        for path in paths:
            out = self.machine.find_path(r"C:\lab") / "export.reg"
            out.unlink(missing_ok=True)
            self.machine.run("reg", "export", path, r"C:\lab\export.reg", "/y")
            if out.exists():
                found = found.merge_with(reg.parse_export(out.read_bytes()))
        return found

    async def environments(self, service: str) -> list[dict[str, str]]:
        starts = [start for start in self.machine.list_starts(service) if start.event == "start"]
        return [dict(item.split("=", 1) for item in start.environment) for start in starts]

    def files(self) -> list[str]:
        return [file.name for place in _PLACES for file in self.machine.find_path(place).iterdir()]

    def commands(self) -> list[str]:
        return list(sum_traffic(self.machine.ssh.read_entries()).commands)

    def read_file(self, path: str) -> bytes | None:
        file = self.machine.find_path(path)
        return file.read_bytes() if file.exists() else None

    def write_file(self, path: str, content: bytes | None) -> None:
        file = self.machine.find_path(path)
        if content is None:
            file.unlink(missing_ok=True)
        else:
            file.write_bytes(content)

    async def reboot(self) -> None:
        await asyncio.to_thread(self.machine.restart_machine)


class Desk:
    """A person's directory of manifests, and their `transom`."""

    def __init__(self, directory: Path, *hosts: Windows) -> None:
        self.directory, self.hosts = directory, hosts
        self.manifests = directory / "manifests"
        self.manifests.mkdir(parents=True)
        self.annotations: dict[str, str] = {}
        """Of every WindowsInstance."""
        self.more_keys: dict[str, str] = {}
        """In the Secret of every host's key."""

    def write(self, spec: Mapping[str, Any], *, bundle: str = "".join(PEM), services: Iterable[str] = SERVICES) -> None:
        networks = {"serviceNetwork": ["10.96.0.0/16"], "internalAPIHost": "api.corp.example"}
        full = {"windows": {"services": list(services)}, "networks": networks, **spec}
        if "windows" in spec:
            full["windows"] = {"services": list(services), **spec["windows"]}
        objects = [
            _object("EgressProxy", "cluster", "transom.dev/v1alpha1", spec=full),
            _object("Secret", "egress-credentials", "v1", stringData={"username": USER, "password": PASSWORD}),
            _object("ConfigMap", "corp-ca", "v1", data={"ca-bundle.crt": bundle}),
            *self._instances(),
        ]
        (self.manifests / "all.yaml").write_text(yaml.safe_dump_all(objects, allow_unicode=True), "utf-8")

    def _instances(self) -> Iterable[dict[str, Any]]:
        for number, host in enumerate(self.hosts, 1):
            spec = {"address": host.address, "port": host.port, "username": host.user, "keySecret": {"name": f"key-{number}"}}
            made = _object("WindowsInstance", f"win-{number}", "transom.dev/v1alpha1", spec=spec)
            made["metadata"]["annotations"] = self.annotations
            yield made
            keys = {"private-key.pem": host.key, **self.more_keys}
            yield _object("Secret", f"key-{number}", "v1", stringData=keys)

    async def start(self, *arguments: str) -> Process:
        environment = {**os.environ, "XDG_STATE_HOME": str(self.directory / "state"), "PYTHONASYNCIODEBUG": ""}
        return await start(*arguments, environment=environment)

    async def transom(self, *arguments: str) -> Answer:
        process = await self.start(*arguments)
        out, err = await process.communicate()
        return Answer(await process.wait(), out.decode(), err.decode())

    async def apply(self, *arguments: str) -> Answer:
        return await self.transom("apply", "-f", str(self.manifests), "-o", "json", *arguments)


def _object(kind: str, name: str, version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def values(registry: Registry) -> dict[str, dict[str, NamedValue]]:
    """For comparing: keys by path without case, and their values."""
    return {key.path.casefold(): dict(key.values or {}) for key in registry}


def difference(before: Registry, after: Registry) -> list[Edit]:
    """The edits that would lead from one to the other, for messages of tests."""
    found: list[Edit] = []
    old, new = values(before), values(after)
    for path in old.keys() | new.keys():
        for name in old.get(path, {}).keys() | new.get(path, {}).keys():
            was, now = old.get(path, {}).get(name), new.get(path, {}).get(name)
            if was != now:
                found.append(SetValue(path, name, now.value) if now else DeleteValue(path, name))
    return found
