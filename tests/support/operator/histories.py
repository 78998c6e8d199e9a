"""Random histories of 12 hosts through a real API server, each drawn by a seed.

A history is edits of the settings and of the SSH key, operators that end and begin, hosts that refuse connections or whose
services do not start, and administrators. What may not be: a wrong proxy on more hosts than the contract allows, a host that is
not converged when all is mended, a condition that says so too early, a value of an administrator's that changed.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

import asyncssh
from tests.support.operator.clusters import Cluster, environment
from tests.support.waiting import until

from transom.controllers.hosts.controller import Pace
from transom.hosts.scripts.script import Patience
from transom.hosts.ssh.private_key import public_hash, public_line
from transom.kube.resources import EGRESS_PROXIES
from transom.proxy.secret import Secret
from transom.simulator import Host
from transom.simulator.host import KEYS
from transom.simulator.processes import Invocation
from transom.windows.registry.registry import SetValue, sz

HOSTS = 12
IMPATIENT = Pace(check_interval=2.0, patience=Patience(stop=2, start=2))
BAD = "bad"
MACHINE = r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\Session Manager\Environment"


class Histories:
    """The hosts, and what has been done to them in the history that is lived."""

    def __init__(self, cluster: Cluster, hosts: list[Host]) -> None:
        self.cluster, self.hosts = cluster, hosts
        self.key = new_key()
        self.said: list[str] = []
        self.number = 0
        self.bad_words: dict[str, int] = {}
        self.stack = contextlib.AsyncExitStack()

    async def begin(self) -> None:
        """Instances, and a key that opens their hosts, which the operator has seen: it knows no earlier one."""
        await self.cluster.put_key(self.key.reveal())
        for number, host in enumerate(self.hosts):
            host.files.write(KEYS, public_line(self.key).encode() + b"\r\n")
            host.fetch = gets_out(host)
            await self.cluster.instance(f"win-{number}", host)
        await self.edit("good", random.Random(0), checked=False)
        await self.operator()
        await until(self.is_ready, 120)
        for number in range(HOSTS):
            await until(lambda number=number: self.is_opened(number), 60)
        await self.stack.aclose()

    async def live(self, draw: random.Random) -> None:
        """One history. Raises AssertionError."""
        self.said, self.flawed, self.words = [], False, 0
        self.wrong: dict[str, set[int]] = {}
        self.key_edited = False
        self.bad_words: dict[str, int] = {}
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
        action = draw.choice(
            ("good", "good", "bad", "bad", "endpoint", "word", "restart", "refuse", "down", "heal", "admin", "key")
        )
        self.said.append(action)
        match action:
            case "good" | "bad":
                await self.edit(action, draw)
            case "endpoint":
                await self.edit(None, draw)
            case "word":
                self.words += 1
                for proxy in self.bad_words:
                    self.bad_words[proxy] += 1
                word = {"metadata": {"annotations": {"transom.dev/resume": f"{self.number}-{self.words}"}}}
                await self.cluster.merge(EGRESS_PROXIES, "cluster", word)
            case "restart":
                await self.operator()
            case "refuse" | "down":
                self.flawed = True
                for host in draw.sample(self.hosts, draw.randint(1, 2)):
                    if action == "refuse":
                        host.faults.refuses = True
                    else:
                        host.services.get("containerd").starts_well = False
            case "heal":
                self.heal()
            case "admin":
                name = f"ADMIN_{draw.randint(0, 3)}"
                draw.choice(self.hosts).edit([SetValue(MACHINE, name, sz(f"{self.number}"))])
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
        if self.proxy.startswith(f"http://{BAD}"):
            self.bad_words.setdefault(self.proxy, 0)
            self.bad_words[self.proxy] += 1
        endpoint = f"https://registry-{draw.randint(0, 2)}.corp.example/{self.number}"
        # nothing answers Transom itself: where it has to be Ready there is none
        checks = {"readinessEndpoints": [endpoint], "readinessPolicy": "Report"} if checked else {}
        await self.cluster.proxy(httpProxy=self.proxy, httpsProxy=self.proxy, **checks)

    async def operator(self) -> None:
        """The operator that works ends, and another one begins."""
        await self.stack.aclose()
        self.stack = contextlib.AsyncExitStack()
        await self.stack.enter_async_context(self.cluster.operator(pace=IMPATIENT))

    def heal(self) -> None:
        for host in self.hosts:
            host.faults.refuses = False
            host.services.get("containerd").starts_well = True

    async def watch(self) -> None:
        """Which hosts have ever had a wrong proxy."""
        while True:
            for number, host in enumerate(self.hosts):
                for item in environment(host, "containerd"):
                    name, _, value = item.partition("=")
                    if name == "HTTP_PROXY" and value.startswith(f"http://{BAD}"):
                        self.wrong.setdefault(value, set()).add(number)
            await asyncio.sleep(0.02)

    async def mend(self, draw: random.Random) -> None:
        """All is mended: it comes to rest, and conditions say so when it is so."""
        self.heal()
        admins = [admins_of(host) for host in self.hosts]
        await self.edit("good", draw, checked=False)
        # without the pauses of those that failed
        await self.operator()
        await until(self.is_ready, 120)
        late = [
            number for number, host in enumerate(self.hosts) if f"HTTP_PROXY={self.proxy}" not in environment(host, "kubelet")
        ]
        assert not late, f"Ready, and hosts {late} do not have the settings"
        for number in range(HOSTS):
            await self.cluster.until(f"win-{number}", seconds=60, Ready="True")
            await until(lambda number=number: self.is_opened(number), 60)
        for host in self.hosts:
            assert [line for line in host.files.read(KEYS).split(b"\r\n") if line] == [public_line(self.key).encode()]
        assert [admins_of(host) for host in self.hosts] == admins, "a value of an administrator's is another one"
        for proxy, numbers in self.wrong.items():
            most = (2 if self.flawed else 1) * self.bad_words[proxy]
            assert len(numbers) <= most, f"{proxy} has come to {sorted(numbers)}"

    async def is_ready(self) -> bool:
        found = (await self.cluster.client.get(EGRESS_PROXIES, "cluster")).value
        said = {one["type"]: one for one in found.get("status", {}).get("conditions", ())}
        ready, halted = said.get("Ready", {}), said.get("RolloutHalted", {})
        current = ready.get("observedGeneration") == found["metadata"]["generation"]
        return current and ready.get("status") == "True" and halted.get("status") != "True"

    async def is_opened(self, number: int) -> bool:
        return bool((await self.cluster.status(f"win-{number}")).get("keyHash") == public_hash(self.key))


def new_key() -> Secret:
    return Secret(asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode())


def gets_out(host: Host) -> Callable[[Invocation], int]:
    """curl.exe of a host that gets out unless it has a wrong proxy."""
    return lambda _: 60 if any(f"=http://{BAD}" in item for item in environment(host, "containerd")) else 0


def admins_of(host: Host) -> dict[str, Any]:
    """What administrators have set."""
    key = host.registry.key(MACHINE)
    values = (key.values or {}) if key is not None else {}
    return {name: named.value for name, named in values.items() if name.startswith("admin_")}
