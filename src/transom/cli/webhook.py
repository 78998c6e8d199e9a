"""`transom webhook`: the admission server."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

from transom.cli.cluster import namespace_name
from transom.cli.options import NAMESPACE, LocalMetrics, configure_logs, server_option
from transom.cli.output import ExitCode, fail

if TYPE_CHECKING:
    from transom.kube.connection import Connection
    from transom.webhook.webhook import WebhookOptions

Address = tuple[str, int]


def webhook(
    kubeconfig: Annotated[str | None, server_option("--kubeconfig", "Kubeconfig; else the pod's service account.")] = None,
    context: Annotated[str | None, server_option("--context", "Context of the kubeconfig.")] = None,
    namespace: Annotated[
        str, server_option("--namespace", "Transom's own namespace.", short="-n", callback=namespace_name)
    ] = NAMESPACE,
    bind_address: Annotated[str, server_option("--bind-address", "Where reviews are taken, over TLS.")] = "0.0.0.0:9443",
    metrics_bind_address: Annotated[
        str, server_option("--metrics-bind-address", "For /healthz, /readyz and /metrics.")
    ] = "0.0.0.0:8080",
    local_metrics: LocalMetrics = False,
    url: Annotated[
        str | None,
        server_option("--url", "https://HOST:PORT: register by URL instead of by Service, for a server outside the cluster."),
    ] = None,
    failure_policy: Annotated[
        str, server_option("--failure-policy", "Ignore or Fail: what becomes of pods while no replica answers.")
    ] = "Ignore",
    certificate_secret: Annotated[
        str | None,
        server_option(
            "--certificate-secret",
            "A Secret of the namespace that somebody else renews, as cert-manager does: tls.crt, tls.key, ca.crt. "
            "[default: certificates of its own]",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    log_format: Annotated[str, server_option("--log-format", "json or console.")] = "json",
    log_level: Annotated[str, server_option("--log-level", "debug, info, warning or error.")] = "info",
) -> None:
    """Give pods the proxy and the CAs as they start.

    This is the admission server; it keeps its registration at the API server. Runs until SIGTERM or Ctrl-C; requests are taken
    for some seconds more then. Each option can be given in the environment.
    """
    import asyncio

    with _lean():
        import aiohttp  # noqa: F401
    from transom.kube import ConfigurationError
    from transom.kube.connection import connect
    from transom.operations.server import AddressInvalid, parse_address
    from transom.webhook.webhook import WebhookOptions

    configure_logs(log_format, log_level)
    if failure_policy not in ("Ignore", "Fail"):
        fail(f"--failure-policy: {failure_policy!r} is neither Ignore nor Fail")
    if url is not None:
        _check_url(url)
    addresses = []
    for flag, text in (("--bind-address", bind_address), ("--metrics-bind-address", metrics_bind_address)):
        try:
            addresses.append(parse_address(text))
        except AddressInvalid as error:
            fail(f"{flag}: {error}")
    try:
        connection = connect(kubeconfig, context)
    except ConfigurationError as error:
        fail(str(error))
    if certificate_secret == "transom-webhook":  # noqa: S105  # the name of one
        fail("--certificate-secret: transom-webhook is the Secret that the replicas share: name another one")
    options = WebhookOptions(
        namespace=namespace,
        url=url,
        failure_policy="Fail" if failure_policy == "Fail" else "Ignore",
        certificate_secret=certificate_secret,
    )
    try:
        asyncio.run(_run(connection, options, addresses[0], addresses[1], local_metrics=local_metrics))
    except OSError as error:
        flags = f"--bind-address {bind_address} or --metrics-bind-address {metrics_bind_address}"
        fail(f"{flags}: {error.strerror or error}", ExitCode.NOT_DONE)


_LEAN: Final = {"SSL_CERT_FILE": os.devnull, "FROZENLIST_NO_EXTENSIONS": "1"}
"""How aiohttp is loaded.

It reads the system's CAs then, 3 MB for contexts that a replica, which knows its CA, never uses. And frozenlist's extension is
C++, whose library takes more than 1 MB, for lists of a few callbacks (frozenlist/__init__.py, `NO_EXTENSIONS`).
"""


@contextmanager
def _lean() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _LEAN}
    os.environ.update(_LEAN)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _check_url(url: str) -> None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        fits = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or "@" in url or parts.query or parts.fragment or parts.path not in ("", "/"):
        fail("--url: must be https://HOST:PORT; the paths are Transom's")


async def _run(
    connection: "Connection", options: "WebhookOptions", address: Address, metrics_address: Address, *, local_metrics: bool
) -> None:
    import asyncio

    from transom.kube.client import Client
    from transom.operations.server import serving
    from transom.webhook.metrics import WebhookMetrics
    from transom.webhook.webhook import Webhook

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    metrics = WebhookMetrics()
    served = Webhook(Client(connection), options, metrics)
    try:
        async with serving(metrics_address, lambda: served.ready, metrics, local_metrics=local_metrics):
            await served.run(stop, address)
    finally:
        await connection.close()
