"""From an edit by kubectl to the registry of a Wine host: `python -m benchmarks.edits`.

The clock starts when kubectl has ended, when the API server has the edit, and stops when the host's registry shows it, which is
looked at by `reg export`. Everything is a process of its own: kube-apiserver, etcd, `transom run`, the host.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web
from lab.control_plane import ControlPlane
from lab.machine import Machine
from tests.support.operator.bundles import ROOT_1, ROOT_2, SHA1_1, SHA1_2
from tests.support.operator.installation import Installation, environment, followed, roots

ROUNDS = 3
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
    def has(port: int) -> bool:
        return f"HTTPS_PROXY={PROXY.format(port)}" in environment(machine)

    def trusts(there: str, gone: str) -> bool:
        shown = roots(machine)
        return there in shown and gone not in shown

    def clean() -> bool:
        return not environment(machine) and SHA1_2 not in roots(machine)

    async def measured(what: str, edit: Callable[[], Awaitable[None]], seen: Callable[[], bool]) -> None:
        await edit()
        begun = time.monotonic()
        print(f"{name}: {what}: {await followed(seen) - begun:.1f} s", flush=True)
        await installed.until_row(configured="True")

    await installed.kubectl("delete", "windowsinstances", "--all", "-n", installed.namespace)
    ca = {"trustedCA": {"name": "corp-ca"}}
    await installed.bundle(ROOT_1)

    def proxy(port: int) -> Callable[[], Awaitable[None]]:
        url = PROXY.format(port)
        return lambda: installed.proxy(httpProxy=url, httpsProxy=url, **ca, **spec)

    await proxy(proxies[0])()
    await measured("a host that is new", lambda: installed.instance(machine), lambda: has(proxies[0]))
    for number in range(ROUNDS):
        port = proxies[(number + 1) % 2]
        await measured("another proxy", proxy(port), partial(has, port))
    for pem, there, gone in ((ROOT_2, SHA1_2, SHA1_1), (ROOT_1, SHA1_1, SHA1_2), (ROOT_2, SHA1_2, SHA1_1)):
        await measured("another CA", partial(installed.bundle, pem), partial(trusts, there, gone))
    await measured("empty settings", installed.proxy, clean)


if __name__ == "__main__":
    asyncio.run(run())
