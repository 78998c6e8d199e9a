"""`/healthz`, `/readyz` and `/metrics` over HTTP."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv6Address, ip_address
from typing import Final, Protocol

from aiohttp import web

from transom.common.escaping import escape_unprintable
from transom.http_server.server import BoundedServer, ServerBounds

BOUNDS: Final = ServerBounds(connections=64, idle=75.0)
"""A kubelet and a few scrapers open some five connections. Prometheus scrapes once a minute at the most usual setting."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class AddressInvalid(ValueError):
    """An address to bind that is not HOST:PORT."""


class MetricsSource(Protocol):
    """What is scraped."""

    def render(self) -> bytes:
        """All metrics in the exposition format 0.0.4."""
        ...


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `0.0.0.0:8080`, `[::]:8080` or `:8080`. Raises AddressInvalid."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not int(port) < 65536 or (":" in host and not host.startswith("[")):
        raise AddressInvalid(f"{text!r} is not HOST:PORT; for example 0.0.0.0:8080 or [::]:8080")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104  # as asked for: the kubelet's probes come from outside


def is_loopback(remote: str | None) -> bool:
    """Return True if a request came from this machine or pod."""
    address = ip_address(remote or "::")
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


@asynccontextmanager
async def serve(
    address: tuple[str, int],
    ready: Callable[[], bool],
    metrics: MetricsSource,
    *,
    local_metrics: bool = False,
    describe_unready: Callable[[], str] = lambda: "the cluster's objects have not all been read",
) -> AsyncIterator[int]:
    """Answer until the end of the block; gives the port. Raises OSError where the address cannot be had.

    While it is not `ready`, /readyz answers with `describe_unready`.
    With `local_metrics` the metrics are for this machine's, a pod's, own loopback address: a proxy that authenticates clients.
    """

    def get_health(_: web.BaseRequest) -> web.Response:
        return web.Response(text="ok\n")

    def get_readiness(_: web.BaseRequest) -> web.Response:
        if ready():
            return web.Response(text="ok\n")
        return web.Response(status=503, text=f"{escape_unprintable(describe_unready())}\n")

    def scrape(request: web.BaseRequest) -> web.Response:
        if local_metrics and not is_loopback(request.remote):
            return web.Response(status=403, text="metrics are behind the proxy of this pod\n")
        return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    paths = {"/healthz": get_health, "/readyz": get_readiness, "/metrics": scrape}

    async def handle(request: web.BaseRequest) -> web.Response:
        respond = paths.get(request.rel_url.raw_path)
        if respond is None:
            return web.Response(status=404, text=f"there are {', '.join(paths)}\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="GET and HEAD are answered\n", headers={"Allow": "GET, HEAD"})
        return respond(request)

    async with BoundedServer(handle, BOUNDS).serve(address) as port:
        yield port
