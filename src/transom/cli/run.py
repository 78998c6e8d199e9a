"""`transom run`: the operator."""

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from transom.cli.cluster import namespace_name
from transom.cli.options import NAMESPACE, REQUIRE_HOST_KEYS_HELP, LocalMetrics, configure_logs, duration, server_option
from transom.cli.output import ExitCode, fail
from transom.cli.timeouts import CHANNEL, CHANNEL_HELP, CONNECT, CONNECT_HELP, WHOLE, WHOLE_HELP, timeouts

if TYPE_CHECKING:
    from transom.controllers.runtime.options import Options
    from transom.hosts.passes import PassResult
    from transom.kube.connection import Connection
    from transom.operations.traces import Traces

_PAYLOAD = "/payload"


def run(
    kubeconfig: Annotated[str | None, server_option("--kubeconfig", "Kubeconfig; else the pod's service account.")] = None,
    context: Annotated[str | None, server_option("--context", "Context of the kubeconfig.")] = None,
    namespace: Annotated[
        str, server_option("--namespace", "Transom's own namespace.", short="-n", callback=namespace_name)
    ] = NAMESPACE,
    bind_address: Annotated[str, server_option("--bind-address", "For /healthz, /readyz and /metrics.")] = "0.0.0.0:8080",
    local_metrics: LocalMetrics = False,
    workers: Annotated[int, server_option("--workers", "Hosts worked on at once.", min=1, max=1024)] = 32,
    check_interval: Annotated[str, server_option("--check-interval", "Between two checks of a host: 30m, 1h30m.")] = "30m",
    leader_elect: Annotated[
        bool, server_option("--leader-elect/--no-leader-elect", "Work only while holding the lease `transom`.")
    ] = True,
    controllers: Annotated[
        str | None,
        server_option(
            "--controllers", "Which run, with commas: egress, windows, fleet, pods. [default: all]", show_default=False
        ),
    ] = None,
    payload: Annotated[
        str | None,
        server_option(
            "--payload",
            "The directory with payload.yaml: what hosts of lifecycle Node get. [default: /payload, where it is there]",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    max_unavailable: Annotated[
        int, server_option("--max-unavailable", "Nodes that may be away at once while they are upgraded.", min=1)
    ] = 1,
    drain_timeout: Annotated[
        str,
        server_option(
            "--drain-timeout", "How long a node's pods may take to go; then it takes pods again, and nothing is changed."
        ),
    ] = "10m",
    gone_after: Annotated[
        str,
        server_option(
            "--gone-after", "How long a host may be out of reach before the deletion of its instance does without it."
        ),
    ] = "10m",
    connect_timeout: Annotated[str, server_option("--connect-timeout", CONNECT_HELP)] = CONNECT,
    channel_timeout: Annotated[str, server_option("--channel-timeout", CHANNEL_HELP)] = CHANNEL,
    pass_timeout: Annotated[str, server_option("--pass-timeout", WHOLE_HELP)] = WHOLE,
    require_host_keys: Annotated[bool, server_option("--require-host-keys", REQUIRE_HOST_KEYS_HELP)] = False,
    payload_cache: Annotated[
        Path | None,
        server_option(
            "--payload-cache",
            "Where files are kept that payload.yaml names by URL. [default: the payload's directory]",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    payload_kubeadm: Annotated[
        str | None,
        server_option(
            "--payload-kubeadm",
            "Instead of a directory: the shipped payload for clusters of kubeadm, fetched through the proxy, such as v1.36.3.",
            metavar="VERSION",
            show_default=False,
        ),
    ] = None,
    payload_cni: Annotated[str, server_option("--payload-cni", "calico, flannel or none; of --payload-kubeadm.")] = "calico",
    openssh_msi: Annotated[
        str | None,
        server_option(
            "--openssh-msi",
            "The installer of OpenSSH in user data, an https URL. [default: a release on GitHub]",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
    system_ca_file: Annotated[
        str | None,
        server_option(
            "--system-ca-file",
            "The CAs to which a bundle that replaces a trust store is added. [default: those of the image]",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    log_format: Annotated[str, server_option("--log-format", "json or console.")] = "json",
    log_level: Annotated[str, server_option("--log-level", "debug, info, warning or error.")] = "info",
) -> None:
    """Watch a cluster and keep its Windows hosts right.

    Runs until SIGTERM or Ctrl-C; hosts that are being worked on are finished then. Each option can be given in the environment.
    """
    import asyncio

    from transom.controllers.rollout.operator_condition import VARIABLE
    from transom.controllers.runtime.options import Options, Pace
    from transom.kube import ConfigurationError
    from transom.kube.connection import connect
    from transom.manifests import roles
    from transom.operations.server import AddressInvalid, parse_address
    from transom.proxy.trust import SYSTEM_CA_FILE
    from transom.windows.firstboot import OPENSSH_MSI

    try:
        named = roles.controllers(controllers)
    except ValueError as error:
        fail(f"--controllers: {error}")
    configure_logs(log_format, log_level)
    if system_ca_file is not None and not Path(system_ca_file).is_file():
        fail(f"--system-ca-file: there is no file {system_ca_file}")
    shipped = _shipped(payload_kubeadm, payload_cni, payload, payload_cache)
    try:
        address = parse_address(bind_address)
        options = Options(
            namespace=namespace,
            workers=workers,
            leader_elect=leader_elect,
            controllers=named,
            pace=Pace(
                check_interval=duration("--check-interval", check_interval),
                drain=duration("--drain-timeout", drain_timeout),
                gone=duration("--gone-after", gone_after),
                timeouts=timeouts(connect_timeout, channel_timeout, pass_timeout),
            ),
            payload=shipped or _payload(payload),
            payload_cache=None if shipped else payload_cache,
            payload_builds=shipped is not None,
            openssh_msi=openssh_msi or OPENSSH_MSI,
            system_ca_file=system_ca_file or SYSTEM_CA_FILE,
            max_unavailable=max_unavailable,
            require_host_keys=require_host_keys,
            operator_condition=os.environ.get(VARIABLE, ""),
        )
        connection = connect(kubeconfig, context)
    except AddressInvalid as error:
        fail(f"--bind-address: {error}")
    except ConfigurationError as error:
        fail(str(error))
    try:
        asyncio.run(_run(connection, options, address, local_metrics=local_metrics))
    except OSError as error:
        fail(f"--bind-address {bind_address}: {error.strerror}", ExitCode.NOT_DONE)


async def _run(connection: "Connection", options: "Options", address: tuple[str, int], *, local_metrics: bool) -> None:
    import asyncio

    from transom.controllers.operator import Operator
    from transom.kube.client import Client
    from transom.operations.metrics import OperatorMetrics
    from transom.operations.server import serving

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    metrics, traces = OperatorMetrics(), _traces()
    if traces is None:
        operator = Operator(Client(connection), options, metrics.observe)
    else:

        def observe(found: "PassResult") -> None:
            metrics.observe(found)
            traces.observe(found)

        operator = Operator(Client(connection), options, observe, trace=traces.work)
    metrics.follow(operator)
    try:
        async with serving(address, lambda: operator.ready, metrics, local_metrics=local_metrics):
            await operator.run(stop)
    finally:
        await connection.close()
        if traces is not None:
            await asyncio.to_thread(traces.close)


def _traces() -> "Traces | None":
    """Where the environment says where traces go, as OpenTelemetry's exporters read it."""
    if not {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} & os.environ.keys():
        return None
    try:
        from transom.operations.traces import Traces
    except ModuleNotFoundError as error:
        fail(f"OTEL_EXPORTER_OTLP_ENDPOINT asks for traces, and {error.name} is missing: install transom[traces]")
    return Traces()


def _shipped(kubernetes: str | None, cni: str, payload: str | None, cache: Path | None) -> Path | None:
    """The directory, below the cache, with the shipped payload of that version; its programs are fetched later.

    Another Transom may ship other files for the same version: its name has their digest, for what is fetched fits these alone.
    """
    if kubernetes is None:
        return None
    if payload is not None or cache is None:
        fail("--payload-kubeadm: it needs --payload-cache, and no --payload")
    import hashlib

    from transom.cli.payload import kubeadm_files

    files = kubeadm_files(cni, kubernetes, flags=("--payload-cni", "--payload-kubeadm"))
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:12]
    directory = cache / f"kubeadm-{cni}-{kubernetes}-{digest}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (directory / name).write_bytes(content)
    except OSError as error:
        fail(f"--payload-cache: {directory}: {error.strerror}", ExitCode.NOT_DONE)
    return directory


def _payload(given: str | None) -> Path | None:
    """The directory of the payload; it is read when the first host needs it."""
    directory = Path(given or _PAYLOAD)
    return directory if given or (directory / "payload.yaml").exists() else None
