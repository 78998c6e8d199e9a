"""From an edit by kubectl to the registry of a Wine host: `python -m benchmarks.edits`.

The clock starts when kubectl has ended, when the API server has the edit, and stops when the host's registry shows it, which is
looked at by `reg export`. Everything is a process of its own: kube-apiserver, etcd, `transom run`, the host. The host's own
time is that of the same change by a pass alone, from its call to the same sight.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web
from lab.control_plane import ControlPlane
from lab.machine import Machine
from tests.support.operator.bundles import ROOT_1, ROOT_2, SHA1_1, SHA1_2
from tests.support.operator.installation import SERVICE, Installation, environment, followed, roots

from transom.apply.host_pass import build_convergence
from transom.apply.target import Target
from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.proxy.finding import Place
from transom.proxy.objects import Meta
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress, WindowsSettings
from transom.proxy.trust import parse_bundle
from transom.windows.nodes.windows_instance import WindowsInstance, WindowsInstanceSpec

ROUNDS = 3
OWN_ROUNDS = 7
PROXY = "http://127.0.0.1:{}"


async def run() -> None:
    with ControlPlane() as plane, Machine() as machine:
        await asyncio.to_thread(machine.boot)
        installed = Installation(plane)
        await installed.install()
        await installed.key(machine.ssh.key)
        proxies = [await answering() for _ in range(2)]
        async with installed.program() as program:
            try:
                for name, spec in (("Report", {}), ("Gate", gated())):
                    await story(name, installed, machine, proxies, spec)
                print(await installed.describe("windowsinstance", "win-1"))
                print(await installed.describe("egressproxy", "cluster"))
            except TimeoutError:
                print(program.log())
                raise
        await own_time(machine, proxies)


async def own_time(machine: Machine, proxies: list[int]) -> None:
    """The same change of a proxy by a pass alone."""
    place, ssh = machine.place, machine.ssh
    spec = WindowsInstanceSpec(place.address, place.port, ssh.user, host_key=ssh.host_key)
    instance = WindowsInstance(metadata=Meta("win-1"), place=Place("bench", "WindowsInstance/win-1"), spec=spec)
    settings = PassSettings(Owner("bench@bench", "pid 1"), adopts=True)
    took = []
    for number in range(OWN_ROUNDS):
        port = proxies[number % 2]
        url = Secret(PROXY.format(port))
        egress = Egress(url, url, "", parse_bundle(ROOT_1).certificates, WindowsSettings(services=(SERVICE,)))
        target = Target(instance, egress, Secret(ssh.key.read_text()))
        convergence = build_convergence(target, settings, change_expected=number > 0)
        begun = time.monotonic()
        passing = asyncio.create_task(convergence.run(target.access, NoHostKeys()))
        # of the first the host asks more
        took += [await followed(partial(has, machine, port)) - begun][: number > 0]
        if (error := (await passing).error) is not None:
            raise error
    each = ", ".join(f"{item:.1f}" for item in took)
    print(f"a pass alone: another proxy: {each} s, median {statistics.median(took):.1f} s", flush=True)


def has(machine: Machine, port: int) -> bool:
    return f"HTTPS_PROXY={PROXY.format(port)}" in environment(machine)


def gated() -> dict[str, object]:
    return {"readinessEndpoints": ["http://registry.example/v2/"], "readinessPolicy": "Gate"}


async def answering() -> int:
    """The port of a proxy that answers everything."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response()

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port: int = runner.addresses[0][1]
    return port


async def story(name: str, installed: Installation, machine: Machine, proxies: list[int], spec: dict[str, object]) -> None:
    def trusts(item: str, entry: str) -> bool:
        shown = roots(machine)
        return item in shown and entry not in shown

    def clean() -> bool:
        return not environment(machine) and SHA1_2 not in roots(machine)

    async def measured(what: str, edit: Callable[[], Awaitable[None]], seen: Callable[[], bool]) -> None:
        await edit()
        begun = time.monotonic()
        print(f"{name}: {what}: {await followed(seen) - begun:.1f} s", flush=True)
        await installed.until_row(proxyapplied="True")

    await installed.kubectl("delete", "windowsinstances", "--all", "-n", installed.namespace)
    ca = {"trustedCA": {"name": "corp-ca"}}
    await installed.bundle(ROOT_1)

    def proxy(port: int) -> Callable[[], Awaitable[None]]:
        url = PROXY.format(port)
        return lambda: installed.proxy(httpProxy=url, httpsProxy=url, **ca, **spec)

    await proxy(proxies[0])()
    await measured("a host that is new", lambda: installed.instance(machine), lambda: has(machine, proxies[0]))
    for number in range(ROUNDS):
        port = proxies[(number + 1) % 2]
        await measured("another proxy", proxy(port), partial(has, machine, port))
    for pem, item, entry in ((ROOT_2, SHA1_2, SHA1_1), (ROOT_1, SHA1_1, SHA1_2), (ROOT_2, SHA1_2, SHA1_1)):
        await measured("another CA", partial(installed.bundle, pem), partial(trusts, item, entry))
    await measured("empty settings", installed.proxy, clean)


if __name__ == "__main__":
    # there is no public image: the manifests want one by name
    os.environ.setdefault("TRANSOM_IMAGE", "registry.example/transom:0.1.0")
    asyncio.run(run())
