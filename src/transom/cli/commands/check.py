"""`transom check`: whether Transom can be installed, or is installed completely."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from transom.cli.cluster import ClusterOptions, describe_server, run_with_client
from transom.cli.options import Output, with_option_groups
from transom.cli.output import ExitCode, Format, get_columns, print_data, print_lines, wrap_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transom.diagnosis.installation import InstallCheck, Verdict
    from transom.kube.client import Client

_SIGNS: "Final[dict[Verdict, tuple[str, str]]]" = {
    "pass": ("✔", "ok"),
    "warn": ("!", "warn"),
    "fail": ("✗", "FAIL"),
    "unknown": ("?", "?"),
}
"""Of a verdict: the sign on a terminal that can show it, and the word elsewhere."""


@with_option_groups
def check(
    cluster: ClusterOptions,
    pre: Annotated[bool, typer.Option("--pre", help="Check whether Transom can be installed.")] = False,
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="IMAGE", envvar="TRANSOM_IMAGE", help="With --pre, an image to find in its registry."),
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Check an installation, or with --pre the cluster before it.

    With --pre, the command checks the version of Kubernetes, your rights, existing CRDs, other operators, and Windows nodes,
    and lists the options that the cluster requires. Without --pre, it checks the CRDs, the Deployments, the lease, the
    rights of the operator, and the admission server. It changes nothing. To find problems in a running installation, use
    `transom doctor`.
    """
    if image is not None:
        from transom.cli.commands.manifests import require_registry_image

        if pre:
            require_registry_image("--image", image, any_registry=False)

    async def run(client: "Client") -> "tuple[str, tuple[InstallCheck, ...]]":
        work = (
            _check_before_install(client, cluster.effective_namespace, image)
            if pre
            else _check_after_install(client, cluster.effective_namespace)
        )
        return describe_server(client.connection), await work

    try:
        server, checks = run_with_client(cluster, run, failure_code=ExitCode.NOT_READ)
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None
    if output is not Format.TEXT:
        print_data({"server": server, "namespace": cluster.effective_namespace, "pre": pre, "checks": checks}, output)
    else:
        print_lines(
            f"{server}, namespace {cluster.effective_namespace}", *_format_lines(checks), _format_summary(checks, pre=pre)
        )
    if any(item.verdict == "fail" for item in checks):
        raise SystemExit(ExitCode.NOT_DONE)
    if any(item.verdict == "unknown" for item in checks):
        raise SystemExit(ExitCode.NOT_READ)


async def _check_before_install(client: "Client", namespace: str, image: str | None) -> "tuple[InstallCheck, ...]":
    from transom.cli.install_facts import ask_registry, read_cluster_facts, read_own_rights
    from transom.diagnosis.installation import iter_checks_before

    cluster = await read_cluster_facts(client, namespace)
    rights, refused = await read_own_rights(client, namespace, cluster.groups)
    answer = await ask_registry(image) if image is not None else None
    return tuple(iter_checks_before(cluster, rights, refused, answer))


async def _check_after_install(client: "Client", namespace: str) -> "tuple[InstallCheck, ...]":
    from datetime import UTC, datetime

    from transom.cli.install_facts import read_account_rights, read_cluster_facts
    from transom.cli.observation import build_observed, list_status_queries, refresh_stale_objects, run_queries
    from transom.diagnosis.fields import get_name
    from transom.diagnosis.installation import iter_checks_after

    cluster = await read_cluster_facts(client, namespace)
    queries = tuple(item for item in list_status_queries(namespace, namespace, "") if item.resource.kind != "Cluster")
    seen = build_observed(
        await run_queries(client, queries, required=False), describe_server(client.connection), namespace, datetime.now(UTC)
    )
    seen = await refresh_stale_objects(client, seen)
    deployment = next(
        (own_object for own_object in seen.iter_own_objects("Deployment") if get_name(own_object) == "transom"), None
    )
    account = await read_account_rights(client, namespace, deployment)
    return tuple(iter_checks_after(cluster, seen, account))


def _format_lines(checks: "Sequence[InstallCheck]") -> "list[str]":
    columns, signs = get_columns(sys.stdout), _supports_symbols()
    width = max(len(item.id) for item in checks)
    lines = []
    for entry in checks:
        sign = _SIGNS[entry.verdict][0 if signs else 1].ljust(1 if signs else 4)
        first, *rest = wrap_line(f"{sign} {entry.id.ljust(width)}  {entry.claim}: {entry.seen}", columns)
        lines += [first, *(f"    {line.strip()}" for line in rest)]
        if entry.do and entry.verdict != "pass":
            lines += [f"    {line.strip()}" for line in wrap_line(f"do: {entry.do}", columns)]
    return lines


def _supports_symbols() -> bool:
    """Return True on a terminal that takes UTF-8."""
    encoding = (sys.stdout.encoding or "").casefold().replace("-", "")
    return sys.stdout.isatty() and encoding == "utf8"


def _format_summary(checks: "Sequence[InstallCheck]", *, pre: bool) -> str:
    counts = {verdict: [item.id for item in checks if item.verdict == verdict] for verdict in _SIGNS}
    if counts["fail"]:
        return f"{'Transom cannot be installed' if pre else 'the installation is not complete'}: {', '.join(counts['fail'])}"
    unread = f"; could not be read: {', '.join(counts['unknown'])}" if counts["unknown"] else ""
    return f"{'Transom can be installed' if pre else 'the installation is complete'}{unread}"
