"""`transom apply` and `transom diff`: every host of the manifests brought to its settings, or only compared with them."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli.findings import NAMESPACE, Context, FilesOrCluster, Namespace, examine_or_fail
from transom.cli.output import ExitCode, Format, print_data
from transom.cli.timeouts import CHANNEL, CONNECT, WHOLE, ChannelTimeout, ConnectTimeout, PassTimeout, timeouts

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from transom.controllers.windows.report import Report
    from transom.hosts.connection import Timeouts

Output = Annotated[Format, typer.Option("--output", "-o", help="How to write the report.")]
OnlyObjects = Annotated[
    bool,
    typer.Option(
        "--objects",
        help="Not the hosts: the objects of workload clusters, on the API server of --context; needs -f and --context.",
    ),
]
AllAtOnce = Annotated[
    bool, typer.Option("--all-at-once", help="Without a first host and a first tenth, and not stopped by failures: for a lab.")
]
Workers = Annotated[int, typer.Option("--workers", min=1, max=1024, help="Hosts worked on at once.")]


def apply(
    filename: FilesOrCluster = None,
    output: Output = Format.TEXT,
    namespace: Namespace = NAMESPACE,
    context: Context = None,
    workers: Workers = 32,
    connect_timeout: ConnectTimeout = CONNECT,
    channel_timeout: ChannelTimeout = CHANNEL,
    pass_timeout: PassTimeout = WHOLE,
    all_at_once: AllAtOnce = False,
    objects: OnlyObjects = False,
) -> None:
    """Bring hosts to their settings.

    Every host that the manifests (or the cluster) name is compared with its settings; what differs is changed, one host first,
    then a tenth of them, then all. The report says what, where and why. Two hosts that fail stop a change: those that were not
    reached by it stay as they are. Exit code 1 where a host could not be done.
    """
    if objects:
        from transom.cli.fleet import write_objects

        write_objects(filename, namespace, context, output, dry_run=False)
        return
    made = timeouts(connect_timeout, channel_timeout, pass_timeout)
    report = _run(filename, namespace, context, workers, made, dry_run=False, all_at_once=all_at_once)
    print_hosts(report, output, planned=False)
    if any(host.result == "failed" for host in report.hosts):
        raise SystemExit(ExitCode.NOT_DONE)


def diff(
    filename: FilesOrCluster = None,
    output: Output = Format.TEXT,
    namespace: Namespace = NAMESPACE,
    context: Context = None,
    workers: Workers = 32,
    connect_timeout: ConnectTimeout = CONNECT,
    channel_timeout: ChannelTimeout = CHANNEL,
    pass_timeout: PassTimeout = WHOLE,
    objects: OnlyObjects = False,
) -> None:
    """Say what apply would do.

    Nothing is changed on any host. Exit code 1 where a host differs from its settings or could not be read.
    """
    if objects:
        from transom.cli.fleet import write_objects

        write_objects(filename, namespace, context, output, dry_run=True)
        return
    made = timeouts(connect_timeout, channel_timeout, pass_timeout)
    report = _run(filename, namespace, context, workers, made, dry_run=True)
    print_hosts(report, output, planned=True)
    if any(host.result != "unchanged" for host in report.hosts):
        raise SystemExit(ExitCode.NOT_DONE)


def print_hosts(report: "Report", output: Format, *, planned: bool) -> None:
    """A report on hosts; `planned`: what would be done."""
    if output is not Format.TEXT:
        print_data(report, output)
        return
    from transom.cli.tables import print_report

    print_report(report, planned=planned)


def _run(
    paths: list[str] | None,
    namespace: str,
    context: str | None,
    workers: int,
    made: "Timeouts",
    *,
    dry_run: bool,
    all_at_once: bool = False,
) -> "Report":
    from transom.cli.foreign_nodes import worked_on
    from transom.cli.rollout import carry_out, compare
    from transom.controllers.windows.hosts import Target, targets_of
    from transom.controllers.windows.report import Report

    objects, examined = examine_or_fail(paths, namespace, context)
    targets = targets_of(objects, examined.settings, ssh_config=True)
    if targets and not objects.egress_proxies and objects.proxy is None:
        # a file that was left out of -f looks like a wish for no proxy
        sys.stderr.write("transom: warning: there is no EgressProxy here: hosts lose what Transom has set on them\n")

    def work(free: list[Target]) -> Report:
        if dry_run:
            return finished(compare(free, workers=workers, timeouts=made))
        return finished(carry_out(free, workers=workers, timeouts=made, all_at_once=all_at_once))

    return worked_on(targets, paths, context, work)


def finished(work: "Coroutine[Any, Any, Report]") -> "Report":
    """The report of work on hosts, which Ctrl+C ends in order."""
    import asyncio

    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        sys.stderr.write("transom: stopped; what was begun on a host was finished, or nothing was changed there\n")
        raise SystemExit(130) from None
