"""Random histories of 12 nodes through a real API server, each drawn by a seed.

A history is edits of the settings, of the version and of the SSH key, operators that end and begin, hosts that refuse
connections or whose services do not start, and administrators. What may not be: a wrong proxy or version on more hosts than the
contract allows, more nodes away than may, a host that is not converged when all is mended, a condition that says so too early,
a value of an administrator's that changed.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh
from tests.support.operator.clusters import Cluster, environment
from tests.support.operator.kubelets import Kubelets
from tests.support.operator.nodes import SUBNET, bare, published
from tests.support.operator.upgrades import MARKS, NETWORKS, PROGRAM
from tests.support.waiting import until
from tests.support.workers.payloads import TEXT, write

from transom.controllers.runtime.options import HostTimings
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.ssh.ssh_client import Timeouts, compute_public_hash, format_public_key
from transom.kube.resources import EGRESS_PROXIES
from transom.proxy.secret import Secret
from transom.windows.parts import winhttp, winhttp_value
from transom.windows.parts.powershell import PROFILE
from transom.windows.parts.profile_text import BEGIN, END
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_sz
from winsim import Host
from winsim.computer import Invocation
from winsim.host import KEYS

HOSTS = 12
IMPATIENT = HostTimings(
    check_interval=2.0,
    unready=0.4,
    ready=3600,
    drain_step=0.1,
    # a host that refuses says so at once; on a machine that stands still one that does not may take long
    timeouts=Timeouts(connect=120, progress=120),
    patience=ServiceTimeouts(stop=10, start=10),
)
BAD = "bad"
ACTIONS = (
    *("good", "good", "bad", "bad", "endpoint", "word", "restart", "refuse", "down", "heal", "admin", "key"),
    *("good version", "good version", "bad version"),
)
FIRST = "1.36.3-1"
MACHINE = r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\Session Manager\Environment"


class Histories:
    """The hosts, and what has been done to them in the history that is lived. `directory` is for payloads."""

    def __init__(self, cluster: Cluster, kubelets: Kubelets, directory: Path) -> None:
        self.cluster, self.kubelets, self.directory = cluster, kubelets, directory
        self.hosts: list[Host] = []
        self.key = new_key()
        self.said: list[str] = []
        self.number, self.most = 0, HOSTS
        self.version, self.payload = FIRST, write(directory / FIRST)
        self.bad_words: dict[str, int] = {}
        self.bad_versions: dict[str, int] = {}
        self.windows: dict[str, Any] = {}
        self.profiles: dict[int, bytes] = {}
        """What administrators have written into the profile of Windows PowerShell, by the number of the host."""
        self.stack = contextlib.AsyncExitStack()

    async def begin(self) -> None:
        """Nodes, and a key that opens their hosts, which the operator has seen: it knows no earlier one."""
        await published(self.cluster)
        await self.cluster.put_key(self.key.reveal())
        await self.edit("good", random.Random(0), checked=False)
        self.hosts = [await bare(self.cluster, f"win-{number}") for number in range(HOSTS)]
        for number, host in enumerate(self.hosts):
            host.files.write(KEYS, format_public_key(self.key).encode() + b"\r\n")
            host.fetch = gets_out(host)
            await self.cluster.instance(f"win-{number}", host, lifecycle="Node")
        await self.operator()
        for number, host in enumerate(self.hosts):
            await self.cluster.until(f"win-{number}", 600, NodeReady="False/Registering")
            await self.kubelets.join(host, **SUBNET)
        await until(self.is_ready, 600)
        for number in range(HOSTS):
            await until(lambda number=number: self.is_opened(number), 600)
        await self.stack.aclose()

    async def live(self, draw: random.Random) -> None:
        """One history. Raises AssertionError."""
        self.said, self.flawed, self.words = [], False, 0
        self.wrong: dict[str, set[int]] = {}
        self.runs: dict[str, set[int]] = {}
        self.key_edited = False
        self.bad_words, self.bad_versions = {}, {}
        self.most, self.kubelets.most_away = draw.randint(2, 6), 0
        await self.edit("good", draw)
        await self.operator()
        watching = asyncio.create_task(self.watch())
        try:
            for _ in range(draw.randint(4, 9)):
                await self.act(draw)
            await self.mend(draw)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self.stack.aclose()

    async def act(self, draw: random.Random) -> None:
        """Something happens."""
        action = draw.choice(ACTIONS)
        self.said.append(action)
        match action:
            case "good" | "bad":
                await self.edit(action, draw)
            case "endpoint":
                await self.edit(None, draw)
            case "word":
                self.words += 1
                for words in (self.bad_words, self.bad_versions):
                    words.update({item: count + 1 for item, count in words.items()})
                word = {"metadata": {"annotations": {"transom.dev/resume": f"{self.number}-{self.words}"}}}
                await self.cluster.merge(EGRESS_PROXIES, "cluster", word)
            case "good version" | "bad version":
                await self.upgrade(bad=action.startswith(BAD))
            case "restart":
                await self.operator()
            case "refuse" | "down":
                self.flawed = True
                for host in draw.sample(self.hosts, draw.randint(1, 2)):
                    if action == "refuse":
                        host.faults.refuses = True
                    elif (service := host.services.find("containerd")) is not None:
                        service.starts_well = False
            case "heal":
                self.heal()
            case "admin":
                name = f"ADMIN_{draw.randint(0, 3)}"
                number = draw.randrange(HOSTS)
                self.hosts[number].edit([SetValue(MACHINE, name, build_sz(f"{self.number}"))])
                self.write_line(number, f"# {name} {self.number}\r\n".encode())
            case "key" if not self.key_edited:
                # the one before has come to every host
                self.key_edited, self.key = True, new_key()
                await self.cluster.put_key(self.key.reveal())
        await asyncio.sleep(draw.choice((0.0, 0.0, 0.1, 0.4, 1.0)))

    async def edit(self, what: str | None, draw: random.Random, *, checked: bool = True) -> None:
        """Other settings, or with None another endpoint."""
        self.number += 1
        if what is not None:
            self.proxy = f"http://{what}-{self.number}.corp.example:3128"
            # `draw` decides what happens: what it gives next stays the same
            fields = random.Random(str(draw.getstate()))
            self.windows = {
                "environmentScope": fields.choice(("Services", "Both")),
                "winHTTP": fields.random() < 0.5,
                "powerShell": fields.random() < 0.5,
            }
        if self.proxy.startswith(f"http://{BAD}"):
            self.bad_words.setdefault(self.proxy, 0)
            self.bad_words[self.proxy] += 1
        endpoint = f"https://registry-{draw.randint(0, 2)}.corp.example/{self.number}"
        # nothing answers Transom itself: where it has to be Ready there is none
        checks = {"readinessEndpoints": [endpoint], "readinessPolicy": "Report"} if checked else {}
        await self.cluster.proxy(httpProxy=self.proxy, httpsProxy=self.proxy, networks=NETWORKS, windows=self.windows, **checks)

    def write_line(self, number: int, line: bytes) -> None:
        """An administrator adds a line at the end of the profile of Windows PowerShell."""
        files = self.hosts[number].files
        files.write(PROFILE, (files.read(PROFILE) if files.find(PROFILE) is not None else b"") + line)
        self.profiles[number] = self.profiles.get(number, b"") + line

    async def upgrade(self, *, bad: bool) -> None:
        """Another version, by another operator; a wrong one's kubelet ends as soon as it runs."""
        self.number += 1
        self.version = f"1.36.3-{self.number + 1}"
        self.payload = write(self.directory / self.version, TEXT.replace(FIRST, self.version))
        kubelet = f"{'MZends 1 after 1' if bad else 'MZservice kubelet'} version={self.version}."
        (self.payload / "bin" / "kubelet.exe").write_bytes(kubelet.encode())
        if bad:
            self.bad_versions[self.version] = 1
        await self.operator()

    async def operator(self) -> None:
        """The operator that works ends, and another one begins."""
        await self.stack.aclose()
        self.stack = contextlib.AsyncExitStack()
        operator = self.cluster.operator(pace=IMPATIENT, payload=self.payload, max_unavailable=self.most)
        await self.stack.enter_async_context(operator)

    def heal(self) -> None:
        for host in self.hosts:
            host.faults.refuses = False
            if (service := host.services.find("containerd")) is not None:
                service.starts_well = True

    async def watch(self) -> None:
        """Which hosts have ever had a wrong proxy, or a wrong version."""
        while True:
            for number, host in enumerate(self.hosts):
                for item in environment(host, "containerd"):
                    name, _, value = item.partition("=")
                    if name == "HTTP_PROXY" and value.startswith(f"http://{BAD}"):
                        self.wrong.setdefault(value, set()).add(number)
                if (version := version_of(host)) in self.bad_versions:
                    self.runs.setdefault(version, set()).add(number)
            await asyncio.sleep(0.02)

    async def mend(self, draw: random.Random) -> None:
        """All is mended: it comes to rest, and conditions say so when it is so."""
        self.heal()
        admins = [admins_of(host) for host in self.hosts]
        await self.edit("good", draw, checked=False)
        if self.version in self.bad_versions:
            await self.upgrade(bad=False)
        else:
            # without the pauses of those that failed
            await self.operator()
        # nothing here is about speed: it may be one of four on a machine that stands still for seconds
        await until(self.is_ready, 1800)
        late = [
            number for number, host in enumerate(self.hosts) if f"HTTP_PROXY={self.proxy}" not in environment(host, "kubelet")
        ]
        assert not late, f"Ready, and hosts {late} do not have the settings"
        for number in range(HOSTS):
            await self.cluster.until(f"win-{number}", 600, Ready="True")
            await until(lambda number=number: self.is_opened(number), 600)
            installed = (await self.cluster.status(f"win-{number}")).get("payloadVersion")
            assert installed == self.version, f"Ready, and win-{number} is said to have {installed}, not {self.version}"
        for host in self.hosts:
            assert version_of(host) == self.version, f"{host.name} has {version_of(host)}, not {self.version}"
            node = await self.kubelets.node(host.name.lower())
            assert not node["spec"].get("unschedulable") and not node["metadata"]["annotations"].keys() & set(MARKS), node
            keys = [line.decode() for line in host.files.read(KEYS).split(b"\r\n") if line]
            assert keys == [format_public_key(self.key)], f"{host.name} is opened by {keys}"
        self.check_fields()
        assert [admins_of(host) for host in self.hosts] == admins, "a value of an administrator's is another one"
        for proxy, numbers in self.wrong.items():
            most = (2 if self.flawed else 1) * self.bad_words[proxy]
            assert len(numbers) <= most, f"{proxy} has come to {sorted(numbers)}"
        for version, numbers in self.runs.items():
            assert len(numbers) <= 2 * self.bad_versions[version], f"{version} has come to {sorted(numbers)}"
        assert self.kubelets.most_away <= self.most, f"{self.kubelets.most_away} nodes were away, and {self.most} may be"

    def check_fields(self) -> None:
        """Every host has what the fields of `spec.windows` ask for, and the profile has the lines of administrators."""
        has_machine = self.windows["environmentScope"] == "Both"
        for number, host in enumerate(self.hosts):
            value = host.registry.find_value(MACHINE, "HTTP_PROXY")
            assert (value is not None) == has_machine, f"{host.name}: {value}"
            win_http = host.registry.find_value(winhttp.KEY, winhttp_value.VALUE)
            assert (win_http is not None) == self.windows["winHTTP"], f"{host.name}: {win_http}"
            content = host.files.read(PROFILE) if host.files.find(PROFILE) is not None else b""
            wanted = self.windows["powerShell"]
            assert (self.proxy.encode() in content) == wanted, f"{host.name}: {content!r}"
            assert content.count(BEGIN.encode()) == wanted, f"{host.name}: {content!r}"
            before, _, rest = content.partition(BEGIN.encode())
            after = rest.partition(f"{END}\r\n".encode())[2]
            assert before + after == self.profiles.get(number, b""), f"{host.name}: {content!r}"

    async def is_ready(self) -> bool:
        found = (await self.cluster.client.get(EGRESS_PROXIES, "cluster")).value
        said = {condition["type"]: condition for condition in found.get("status", {}).get("conditions", ())}
        ready, halted = said.get("Ready", {}), said.get("RolloutHalted", {})
        current = ready.get("observedGeneration") == found["metadata"]["generation"]
        return current and ready.get("status") == "True" and halted.get("status") != "True"

    async def is_opened(self, number: int) -> bool:
        return bool((await self.cluster.status(f"win-{number}")).get("keyHash") == compute_public_hash(self.key))


def new_key() -> Secret:
    return Secret(asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode())


def gets_out(host: Host) -> Callable[[Invocation], int]:
    """curl.exe of a host that has egress unless it has a wrong proxy."""
    return lambda _: 60 if any(f"=http://{BAD}" in item for item in environment(host, "containerd")) else 0


def version_of(host: Host) -> str:
    """That of the kubelet's program; the first payload's says nothing."""
    text = host.files.read(PROGRAM) if host.files.exists(PROGRAM) else b""
    return text.partition(b"version=")[2].rstrip(b".").decode() or FIRST


def admins_of(host: Host) -> dict[str, Any]:
    """What administrators have set."""
    key = host.registry.find_key(MACHINE)
    values = (key.values or {}) if key is not None else {}
    return {name: named.value for name, named in values.items() if name.startswith("admin_")}
