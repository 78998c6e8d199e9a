"""`transom webhook`: the admission server."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

from transom.cli.cluster import parse_namespace
from transom.cli.options import NAMESPACE, LocalMetrics, configure_logs, create_server_option
from transom.cli.output import ExitCode, fail
from transom.cli.stopping import list_server_signals

if TYPE_CHECKING:
    from transom.kube.connection import Connection
    from transom.webhook.webhook import WebhookOptions

Address = tuple[str, int]


def webhook(
    kubeconfig: Annotated[
        str | None, create_server_option("--kubeconfig", "The kubeconfig. [default: the pod's service account]")
    ] = None,
    context: Annotated[str | None, create_server_option("--context", "The context of the kubeconfig.")] = None,
    namespace: Annotated[
        str, create_server_option("--namespace", "Transom's own namespace.", short="-n", callback=parse_namespace)
    ] = NAMESPACE,
    bind_address: Annotated[
        str, create_server_option("--bind-address", "Address for admission reviews, over TLS.")
    ] = "0.0.0.0:9443",
    metrics_bind_address: Annotated[
        str, create_server_option("--metrics-bind-address", "Address of /healthz, /readyz and /metrics.")
    ] = "0.0.0.0:8080",
    local_metrics: LocalMetrics = False,
    url: Annotated[
        str | None,
        create_server_option("--url", "Register https://HOST:PORT instead of a Service, for a server outside the cluster."),
    ] = None,
    failure_policy: Annotated[
        str, create_server_option("--failure-policy", "Failure policy for pods while no replica answers: Ignore or Fail.")
    ] = "Ignore",
    timeout: Annotated[
        int, create_server_option("--timeout", "Seconds that the API server waits for an answer.", min=1, max=30)
    ] = 5,
    certificate_secret: Annotated[
        str | None,
        create_server_option(
            "--certificate-secret",
            "Secret with tls.crt, tls.key and ca.crt that another program renews, such as cert-manager."
            " [default: Transom's own]",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    log_format: Annotated[str, create_server_option("--log-format", "Log format: json or console.")] = "json",
    log_level: Annotated[str, create_server_option("--log-level", "Log level: debug, info, warning or error.")] = "info",
) -> None:
    """Run the admission server, which configures new pods.

    It also maintains its webhook configuration. After SIGTERM or Ctrl-C, it answers requests for a few more seconds. You can
    also set each option with an environment variable.
    """
    import asyncio

    with _set_memory_environment():
        import aiohttp  # noqa: F401
    from transom.kube.connection import connect
    from transom.kube.errors import ConfigurationError
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
        timeout=timeout,
    )
    try:
        asyncio.run(_run_webhook(connection, options, addresses[0], addresses[1], local_metrics=local_metrics))
    except OSError as error:
        flags = f"--bind-address {bind_address} or --metrics-bind-address {metrics_bind_address}"
        fail(f"{flags}: {error.strerror or error}", ExitCode.NOT_DONE)


_LEAN: Final = {"SSL_CERT_FILE": os.devnull, "FROZENLIST_NO_EXTENSIONS": "1"}
"""How aiohttp is loaded.

It reads the system's CAs then, 3 MB for contexts that a replica, which knows its CA, never uses. And frozenlist's extension is
C++, whose library takes more than 1 MB, for lists of a few callbacks (frozenlist/__init__.py, `NO_EXTENSIONS`).
"""


@contextmanager
def _set_memory_environment() -> Iterator[None]:
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


async def _run_webhook(
    connection: "Connection", options: "WebhookOptions", address: Address, metrics_address: Address, *, local_metrics: bool
) -> None:
    import asyncio

    from transom.kube.client import Client
    from transom.operations.server import serve
    from transom.webhook.metrics import WebhookMetrics
    from transom.webhook.webhook import Webhook

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in list_server_signals():
        loop.add_signal_handler(number, stop.set)
    metrics = WebhookMetrics()
    served = Webhook(Client(connection), options, metrics)
    try:
        async with serve(
            metrics_address,
            lambda: served.ready,
            metrics,
            local_metrics=local_metrics,
            describe_unready=served.describe_unready,
        ):
            await served.run(stop, address)
    finally:
        await connection.close()
