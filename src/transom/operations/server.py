"""`/healthz`, `/readyz` and `/metrics` over HTTP."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv6Address, ip_address
from typing import Final, Protocol

from aiohttp import web

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class AddressInvalid(ValueError):
    """An address to bind that is not HOST:PORT."""


class MetricsSource(Protocol):
    """What is scraped."""

    def text(self) -> bytes:
        """All metrics in the exposition format 0.0.4."""
        ...


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `0.0.0.0:8080`, `[::]:8080` or `:8080`. Raises AddressInvalid."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not int(port) < 65536 or (":" in host and not host.startswith("[")):
        raise AddressInvalid(f"{text!r} is not HOST:PORT; for example 0.0.0.0:8080 or [::]:8080")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104  # as asked for: the kubelet's probes come from outside


def is_loopback(remote: str | None) -> bool:
    """Whether a request came from this machine, a pod, itself."""
    address = ip_address(remote or "::")
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


@asynccontextmanager
async def serving(
    address: tuple[str, int], ready: Callable[[], bool], metrics: MetricsSource, *, local_metrics: bool = False
) -> AsyncIterator[int]:
    """Answer until the end of the block; gives the port. Raises OSError where the address cannot be had.

    With `local_metrics` the metrics are for this machine's, a pod's, own loopback address: a proxy that asks who is there.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if ready():
            return web.Response(text="ok\n")
        return web.Response(status=503, text="the cluster's objects have not all been read\n")

    async def scrape(request: web.Request) -> web.Response:
        if local_metrics and not is_loopback(request.remote):
            return web.Response(status=403, text="metrics are behind the proxy of this pod\n")
        return web.Response(body=metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", scrape)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, *address)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
