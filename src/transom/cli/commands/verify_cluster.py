"""`transom verify cluster`: whether the Windows nodes of a cluster work from end to end."""

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from transom.cli.checks import JUnit, Suite, print_partial_results, print_results_and_exit
from transom.cli.checks import report_check as tell_check
from transom.cli.cluster import ClusterOptions, run_with_client
from transom.cli.messages import print_to_stderr
from transom.cli.options import Output, with_option_groups
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines
from transom.cli.stopping import StopPlan, register_stop_plan

if TYPE_CHECKING:
    from transom.common.check_results import CheckResult
    from transom.kube.client import Client
    from transom.verification.objects import VerificationRequest

_REFERENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:/@_-]*")


def _check_reference(value: str | None) -> str | None:
    if value is not None and not _REFERENCE.fullmatch(value):
        raise typer.BadParameter(f"{value!r} is not a valid image: for example registry.example/agnhost:2.52")
    return value


def _check_url(value: str) -> str:
    if value and not re.fullmatch(r"https://[^\s@]+", value):
        raise typer.BadParameter(f"{value!r} is not https://HOST/…, without a user")
    return value


def _check_node(value: str) -> str:
    from transom.common.escaping import NAME

    if value and not NAME.match(value):
        raise typer.BadParameter(f"{value!r} is not a valid node name")
    return value


def _parse_labels(values: list[str] | None) -> dict[str, str]:
    from transom.proxy.labels import is_label_key, is_label_value

    labels = dict(value.partition("=")[::2] for value in values or ())
    for key, value in labels.items():
        if not is_label_key(key) or not is_label_value(value):
            fail(f"--label {key}={value}: not a valid label: use KEY=VALUE")
    return labels


@with_option_groups
def cluster(
    options: ClusterOptions,
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="REF", help="Image of the pods. [default: agnhost]", callback=_check_reference),
    ] = None,
    linux_image: Annotated[
        str | None,
        typer.Option(
            "--linux-image", metavar="REF", help="Image of the Linux pod. [default: --image]", callback=_check_reference
        ),
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option("--mirror", metavar="REGISTRY", help="Mirror of the registry of these images.", callback=_check_reference),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY=VALUE", help="Label of the namespace, for example to select it for the proxy."),
    ] = None,
    egress_url: Annotated[
        str,
        typer.Option("--egress-url", metavar="URL", help="URL that pods must reach through the proxy.", callback=_check_url),
    ] = "",
    direct_url: Annotated[
        str,
        typer.Option("--direct-url", metavar="URL", help="URL that pods must reach without the proxy.", callback=_check_url),
    ] = "",
    load_balancer: Annotated[
        bool, typer.Option("--load-balancer", help="Create a Service of type LoadBalancer, and send a request to it.")
    ] = False,
    node_port: Annotated[
        bool, typer.Option("--node-port", help="Create a Service of type NodePort, and send requests to the Windows nodes.")
    ] = False,
    host_process: Annotated[
        bool,
        typer.Option("--host-process", help="Run a HostProcess container on each Windows node. The namespace is privileged."),
    ] = False,
    reboot: Annotated[
        str,
        typer.Option(
            "--reboot",
            metavar="NODE",
            help="Reboot this Windows node after the other checks, and repeat them. The namespace is privileged.",
            callback=_check_node,
        ),
    ] = "",
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1, help="Timeout for pods to become Ready, in seconds.")
    ] = 600.0,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Validate the objects with the API server and create nothing. Pods are validated in -n."
        ),
    ] = False,
    clean: Annotated[bool, typer.Option("--clean", help="Delete the namespaces of other runs, also of running ones.")] = False,
    report: JUnit = None,
    output: Output = Format.TEXT,
) -> None:
    """Test the Windows nodes of a cluster end to end.

    The command creates Pods and Services in its own namespace, and deletes the namespace at the end, even after Ctrl-C. It
    then prints the maximum time for the cleanup. The exit code is 1 if a check fails, and 3 if the cluster does not answer.
    """
    if dry_run and clean:
        fail("--dry-run and --clean exclude each other")
    if clean:
        _delete_leftovers(options, output)
        return
    more = {"load_balancer": load_balancer, "node_port": node_port, "host_process": host_process}
    wanted = _build_verification_request(image, linux_image, mirror, _parse_labels(label), more, egress_url, direct_url, reboot)
    checks, server_url, rebooting = list["CheckResult"](), "", ""

    def report_check(check: "CheckResult") -> None:
        checks.append(check)
        if output is Format.TEXT:
            tell_check(check)

    def print_progress(line: str) -> None:
        # minutes go by while images are pulled
        print_to_stderr(f"transom: {line}")

    async def run_verification(client: "Client") -> "tuple[str, tuple[CheckResult, ...]]":
        from transom.verification.cluster_verification import (
            VerificationTimeouts,
            describe_reboot,
            estimate_stop_seconds,
            validate_with_server,
            verify_cluster,
        )

        nonlocal server_url
        server = server_url = client.connection.server
        if dry_run:
            return server, await validate_with_server(client, wanted, options.namespace or "default", report_check)
        print_progress(f"{server}: the checks take some minutes, most of them for images that are pulled")
        left = f"namespace {wanted.namespace} may stay: `transom verify cluster --clean` deletes it"

        def note_rebooting(node: str) -> None:
            nonlocal rebooting
            rebooting = node

        def plan() -> StopPlan:
            more = f"; {describe_reboot(rebooting)}" if rebooting else ""
            return StopPlan(f"deleting namespace {wanted.namespace}", estimate_stop_seconds(), left + more)

        with register_stop_plan(plan):
            waits = VerificationTimeouts(starting=timeout)
            return server, await verify_cluster(client, wanted, report_check, waits, print_progress, note_rebooting)

    try:
        server, outcome = run_with_client(options, run_verification, failure_code=ExitCode.NOT_READ, reports=True)
    except KeyboardInterrupt:
        place = {"server": server_url, "namespace": wanted.namespace}
        print_partial_results(place, checks, has_output_files=report is not None, output=output)
        raise SystemExit(ExitCode.INTERRUPTED) from None
    print_results_and_exit({"server": server, "namespace": wanted.namespace}, outcome, Suite("cluster", server), report, output)


def _build_verification_request(
    image: str | None,
    linux_image: str | None,
    mirror: str | None,
    labels: dict[str, str],
    options: dict[str, bool],
    egress: str,
    direct: str,
    reboot: str,
) -> "VerificationRequest":
    from transom.verification.cluster_verification import create_namespace_name
    from transom.verification.objects import AGNHOST_IMAGE, VerificationRequest, to_mirror

    windows = image or AGNHOST_IMAGE
    pair = (windows, linux_image or windows)
    windows, linux = (to_mirror(item, mirror) for item in pair) if mirror else pair
    return VerificationRequest(
        create_namespace_name(), windows, linux, labels, egress=egress, direct=direct, reboot=reboot, **options
    )


def _delete_leftovers(options: ClusterOptions, output: Format) -> None:
    async def work(client: "Client") -> list[str]:
        from transom.verification.cluster_verification import delete_old_namespaces

        return await delete_old_namespaces(client, include_running=True)

    leftovers = run_with_client(options, work, failure_code=ExitCode.NOT_READ)
    if output is not Format.TEXT:
        print_data({"removed": leftovers}, output)
    else:
        print_lines(*(f"{name}: gone" for name in leftovers) if leftovers else ("nothing was left",))
