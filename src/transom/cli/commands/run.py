"""`transom run`: the operator."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from transom.cli.cluster import parse_namespace
from transom.cli.options import (
    NAMESPACE,
    REQUIRE_HOST_KEYS_HELP,
    LocalMetrics,
    configure_logs,
    create_server_option,
    parse_duration_option,
)
from transom.cli.output import ExitCode, fail
from transom.cli.stopping import list_server_signals
from transom.cli.timeouts import (
    CHANNEL,
    CHANNEL_HELP,
    CONNECT,
    CONNECT_HELP,
    LOGIN,
    LOGIN_HELP,
    SERVICE,
    SERVICE_HELP,
    WHOLE,
    WHOLE_HELP,
    parse_timeouts,
)

if TYPE_CHECKING:
    from transom.controllers.runtime.options import Options
    from transom.hosts.passes.base_pass import PassResult
    from transom.kube.connection import Connection
    from transom.kube.permitted_networks import PermittedNetworks
    from transom.operations.traces import Traces

_PAYLOAD = "/payload"


def run(
    kubeconfig: Annotated[
        str | None, create_server_option("--kubeconfig", "The kubeconfig. [default: the pod's service account]")
    ] = None,
    context: Annotated[str | None, create_server_option("--context", "The context of the kubeconfig.")] = None,
    namespace: Annotated[
        str, create_server_option("--namespace", "Transom's own namespace.", short="-n", callback=parse_namespace)
    ] = NAMESPACE,
    bind_address: Annotated[
        str, create_server_option("--bind-address", "Address of /healthz, /readyz and /metrics.")
    ] = "0.0.0.0:8080",
    local_metrics: LocalMetrics = False,
    workers: Annotated[int, create_server_option("--workers", "Maximum number of hosts at a time.", min=1, max=1024)] = 32,
    check_interval: Annotated[
        str, create_server_option("--check-interval", "Interval between two checks of a host: 30m, 1h30m.")
    ] = "30m",
    leader_elect: Annotated[
        bool,
        create_server_option("--leader-elect/--no-leader-elect", "Work only while this process holds the lease `transom`."),
    ] = True,
    controllers: Annotated[
        str | None,
        create_server_option(
            "--controllers",
            "Controllers to run, comma-separated: egress, windows, fleet, pods. [default: all]",
            show_default=False,
        ),
    ] = None,
    payload: Annotated[
        str | None,
        create_server_option(
            "--payload",
            "Payload directory for hosts of lifecycle Node. [default: /payload, if it exists]",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    max_unavailable: Annotated[
        int, create_server_option("--max-unavailable", "Maximum number of nodes that are upgraded at a time.", min=1)
    ] = 1,
    drain_timeout: Annotated[
        str,
        create_server_option("--drain-timeout", "Drain timeout, after which Transom uncordons the node without changing it."),
    ] = "10m",
    gone_after: Annotated[
        str,
        create_server_option(
            "--gone-after", "Time after which an unreachable host no longer blocks the deletion of its instance."
        ),
    ] = "10m",
    connect_timeout: Annotated[str, create_server_option("--connect-timeout", CONNECT_HELP)] = CONNECT,
    login_timeout: Annotated[str, create_server_option("--login-timeout", LOGIN_HELP)] = LOGIN,
    channel_timeout: Annotated[str, create_server_option("--channel-timeout", CHANNEL_HELP)] = CHANNEL,
    pass_timeout: Annotated[str, create_server_option("--pass-timeout", WHOLE_HELP)] = WHOLE,
    service_timeout: Annotated[str, create_server_option("--service-timeout", SERVICE_HELP)] = SERVICE,
    require_host_keys: Annotated[bool, create_server_option("--require-host-keys", REQUIRE_HOST_KEYS_HELP)] = False,
    payload_cache: Annotated[
        Path | None,
        create_server_option(
            "--payload-cache",
            "Directory for files that payload.yaml names by URL. [default: the payload directory]",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    payload_kubeadm: Annotated[
        str | None,
        create_server_option(
            "--payload-kubeadm",
            "Download the shipped payload for kubeadm clusters of this version, such as v1.36.3, through the proxy.",
            metavar="VERSION",
            show_default=False,
        ),
    ] = None,
    payload_cni: Annotated[
        str, create_server_option("--payload-cni", "Network plugin for --payload-kubeadm: calico, flannel or none.")
    ] = "calico",
    openssh_msi: Annotated[
        str | None,
        create_server_option(
            "--openssh-msi",
            "https URL of the OpenSSH installer in user data. [default: a release on GitHub]",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
    system_ca_file: Annotated[
        str | None,
        create_server_option(
            "--system-ca-file",
            "System CAs to add to bundles that replace a trust store. [default: those of the image]",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    workload_cluster_networks: Annotated[
        str,
        create_server_option(
            "--workload-cluster-networks",
            "CIDRs of the API servers of workload clusters, comma-separated. "
            "[default: any but loopback, link-local and cloud metadata]",
            metavar="CIDRS",
            show_default=False,
        ),
    ] = "",
    log_format: Annotated[str, create_server_option("--log-format", "Log format: json or console.")] = "json",
    log_level: Annotated[str, create_server_option("--log-level", "Log level: debug, info, warning or error.")] = "info",
) -> None:
    """Run the operator, which reconciles hosts and clusters.

    It runs until SIGTERM or Ctrl-C, and then finishes the hosts that it is changing. You can also set each option with an
    environment variable.
    """
    import asyncio

    from transom.common.installers import OPENSSH_URL
    from transom.controllers.rollout.operator_condition import VARIABLE
    from transom.controllers.runtime.options import HostTimings, Options
    from transom.hosts.scripts.host_scripts import ServiceTimeouts
    from transom.kube.connection import connect
    from transom.kube.errors import ConfigurationError
    from transom.manifests import roles
    from transom.operations.server import AddressInvalid, parse_address
    from transom.proxy.trust import SYSTEM_CA_FILE

    try:
        named = roles.parse_controllers(controllers)
    except ValueError as error:
        fail(f"--controllers: {error}")
    configure_logs(log_format, log_level)
    if system_ca_file is not None and not Path(system_ca_file).is_file():
        fail(f"--system-ca-file: {system_ca_file} does not exist or is not a file")
    shipped = _prepare_shipped_payload(payload_kubeadm, payload_cni, payload, payload_cache)
    try:
        address = parse_address(bind_address)
        limits = parse_timeouts(connect_timeout, login_timeout, channel_timeout, pass_timeout, service_timeout)
        options = Options(
            namespace=namespace,
            workers=workers,
            leader_elect=leader_elect,
            controllers=named,
            pace=HostTimings(
                check_interval=parse_duration_option("--check-interval", check_interval),
                drain=parse_duration_option("--drain-timeout", drain_timeout),
                gone=parse_duration_option("--gone-after", gone_after),
                timeouts=limits,
                patience=ServiceTimeouts.from_seconds(limits.service),
            ),
            payload=shipped or _find_payload(payload),
            payload_cache=None if shipped else payload_cache,
            payload_builds=shipped is not None,
            openssh_msi=openssh_msi or OPENSSH_URL,
            system_ca_file=system_ca_file or SYSTEM_CA_FILE,
            max_unavailable=max_unavailable,
            require_host_keys=require_host_keys,
            workload_cluster_networks=_parse_networks(workload_cluster_networks),
            operator_condition=os.environ.get(VARIABLE, ""),
        )
        connection = connect(kubeconfig, context)
    except AddressInvalid as error:
        fail(f"--bind-address: {error}")
    except ConfigurationError as error:
        fail(str(error))
    try:
        asyncio.run(_run_operator(connection, options, address, local_metrics=local_metrics))
    except OSError as error:
        fail(f"--bind-address {bind_address}: {error.strerror}", ExitCode.NOT_DONE)


def _parse_networks(text: str) -> "PermittedNetworks":
    """Return the networks of a list with commas; end the command where one is not a CIDR."""
    from transom.kube.permitted_networks import PermittedNetworks

    try:
        return PermittedNetworks.parse(part for part in text.split(",") if part.strip())
    except ValueError as error:
        fail(f"--workload-cluster-networks: {error}")


async def _run_operator(connection: "Connection", options: "Options", address: tuple[str, int], *, local_metrics: bool) -> None:
    import asyncio

    from transom.controllers.operator import Operator
    from transom.http_server.server import raise_file_limit
    from transom.kube.client import Client
    from transom.operations.metrics import OperatorMetrics
    from transom.operations.server import serve

    raise_file_limit()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in list_server_signals():
        loop.add_signal_handler(number, stop.set)
    metrics, traces = OperatorMetrics(), _create_traces()
    if traces is None:
        operator = Operator(Client(connection), options, metrics.observe)
    else:

        def observe(result: "PassResult") -> None:
            metrics.observe(result)
            traces.observe(result)

        operator = Operator(Client(connection), options, observe, trace=traces.trace_reconciliation)
    metrics.register_operator(operator)
    try:
        async with serve(
            address,
            lambda: operator.ready,
            metrics,
            local_metrics=local_metrics,
            describe_unready=operator.describe_unread_kinds,
        ):
            await operator.run(stop)
    finally:
        await connection.close()
        if traces is not None:
            await asyncio.to_thread(traces.close)


def _create_traces() -> "Traces | None":
    """Create the exporter of traces if the environment configures one, as OpenTelemetry's exporters read it."""
    if not {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} & os.environ.keys():
        return None
    try:
        from transom.operations.traces import Traces
    except ModuleNotFoundError as error:
        fail(f"OTEL_EXPORTER_OTLP_ENDPOINT asks for traces, and {error.name} is missing: install transom[traces]")
    return Traces()


def _prepare_shipped_payload(kubernetes: str | None, cni: str, payload: str | None, cache: Path | None) -> Path | None:
    """Prepare the directory, below the cache, with the shipped payload of that version; its programs are fetched later.

    Another Transom may ship other files for the same version, so the directory's name contains their digest: fetched programs
    fit these files only.
    """
    if kubernetes is None:
        return None
    if payload is not None or cache is None:
        fail("--payload-kubeadm: it needs --payload-cache, and no --payload")
    import hashlib

    from transom.cli.commands.payload import build_kubeadm_files

    files = build_kubeadm_files(cni, kubernetes, flags=("--payload-cni", "--payload-kubeadm"))
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:12]
    directory = cache / f"kubeadm-{cni}-{kubernetes}-{digest}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (directory / name).write_bytes(content)
    except OSError as error:
        fail(f"--payload-cache: {directory}: {error.strerror}", ExitCode.NOT_DONE)
    return directory


def _find_payload(option: str | None) -> Path | None:
    """Return the directory of the payload; it is read when the first host needs it."""
    directory = Path(option or _PAYLOAD)
    return directory if option or (directory / "payload.yaml").exists() else None
