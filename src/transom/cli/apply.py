"""`transom apply` and `transom diff`: every host of the manifests brought to its settings, or only compared with them."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.findings import NAMESPACE, Context, FilesOrCluster, Namespace, examine_or_fail
from transom.cli.output import ExitCode, Format, print_data

if TYPE_CHECKING:
    from transom.controllers.hosts import Target
    from transom.controllers.report import Report

Output = Annotated[Format, typer.Option("--output", "-o", help="How to write the report.")]
OnlyObjects = Annotated[
    bool,
    typer.Option(
        "--objects",
        help="Not the hosts: the objects of workload clusters, on the API server of --context; needs -f and --context.",
    ),
]
Workers = Annotated[int, typer.Option("--workers", min=1, max=1024, help="Hosts worked on at once.")]


def apply(
    filename: FilesOrCluster = None,
    output: Output = Format.TEXT,
    namespace: Namespace = NAMESPACE,
    context: Context = None,
    workers: Workers = 32,
    objects: OnlyObjects = False,
) -> None:
    """Bring hosts to their settings.

    Every host that the manifests (or the cluster) name is compared with its settings; what differs is changed, and the report
    says what, where and why. Exit code 1 where a host could not be done; the others are done all the same.
    """
    if objects:
        from transom.cli.fleet import write_objects

        write_objects(filename, namespace, context, output, dry_run=False)
        return
    report = _run(filename, namespace, context, workers, dry_run=False)
    _print(report, output, planned=False)
    if any(host.result == "failed" for host in report.hosts):
        raise SystemExit(ExitCode.NOT_DONE)


def diff(
    filename: FilesOrCluster = None,
    output: Output = Format.TEXT,
    namespace: Namespace = NAMESPACE,
    context: Context = None,
    workers: Workers = 32,
    objects: OnlyObjects = False,
) -> None:
    """Say what apply would do.

    Nothing is changed on any host. Exit code 1 where a host differs from its settings or could not be read.
    """
    if objects:
        from transom.cli.fleet import write_objects

        write_objects(filename, namespace, context, output, dry_run=True)
        return
    report = _run(filename, namespace, context, workers, dry_run=True)
    _print(report, output, planned=True)
    if any(host.result != "unchanged" for host in report.hosts):
        raise SystemExit(ExitCode.NOT_DONE)


def _print(report: "Report", output: Format, *, planned: bool) -> None:
    if output is not Format.TEXT:
        print_data(report, output)
        return
    from transom.cli.tables import print_report

    print_report(report, planned=planned)


def _run(paths: list[str] | None, namespace: str, context: str | None, workers: int, *, dry_run: bool) -> "Report":
    import asyncio

    from transom.controllers.hosts import Target
    from transom.proxy.settings import Egress
    from transom.windows.instance import private_key

    objects, examined = examine_or_fail(paths, namespace, context)
    targets = [
        Target(instance, examined.settings.of(instance) or Egress(), private_key(instance, objects))
        for instance in objects.windows_instances
    ]
    try:
        return asyncio.run(_converge(targets, workers, dry_run=dry_run))
    except KeyboardInterrupt:
        sys.stderr.write("transom: stopped; what was begun on a host was finished, or nothing was changed there\n")
        raise SystemExit(130) from None


async def _converge(targets: "list[Target]", workers: int, *, dry_run: bool) -> "Report":
    from transom.cli.progress import Progress
    from transom.cli.state import host_keys, settings
    from transom.controllers.hosts import converging
    from transom.controllers.report import HostReport, Report
    from transom.hosts.fleet import side_by_side

    work = converging(host_keys(), settings(), dry_run=dry_run)
    found: dict[str, HostReport] = {}
    with Progress(len(targets), "compared" if dry_run else "done") as progress:
        async for target, report in side_by_side(targets, work, workers):
            found[target.instance.place.object] = report
            progress.done(report)
    return Report(tuple(found[target.instance.place.object] for target in targets))
