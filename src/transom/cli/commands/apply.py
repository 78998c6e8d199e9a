"""`transom apply` and `transom diff`: every host of the manifests brought to its settings, or only compared with them."""

from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.findings import Source, examine_or_fail
from transom.cli.hosts import UNTOUCHED, HostOptions, exit_with_result, print_hosts, run_host_command
from transom.cli.options import Output, with_option_groups
from transom.cli.output import ExitCode, Format, exit_when_stopped, fail

if TYPE_CHECKING:
    from transom.apply.report import HostReport
    from transom.apply.target import Target

OnlyObjects = Annotated[
    bool,
    typer.Option(
        "--objects",
        help="Apply the objects of workload clusters on --context instead of hosts. Requires -f and --context.",
    ),
]
ComparedObjects = Annotated[
    bool,
    typer.Option(
        "--objects",
        help="Compare the objects of workload clusters on --context instead of hosts. Requires -f and --context.",
    ),
]
Remove = Annotated[
    bool, typer.Option("--remove", help="Remove everything that Transom set on the hosts, regardless of the settings.")
]
ComparedRemoval = Annotated[
    bool,
    typer.Option("--remove", help="Show the removal of everything that Transom set on the hosts, regardless of the settings."),
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Include hosts that an operator manages. With --context, pause their instances first.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, as `transom diff` does, and change nothing.")]


@with_option_groups
def apply(
    source: Source,
    hosts: HostOptions,
    output: Output = Format.TEXT,
    dry_run: DryRun = False,
    all_at_once: Annotated[
        bool,
        typer.Option("--all-at-once", help="Change all hosts at once, and continue after failures. For a lab."),
    ] = False,
    objects: OnlyObjects = False,
    remove: Remove = False,
    take_over: TakeOver = False,
) -> None:
    """Apply the settings to hosts.

    The command compares every host of the manifests (-f) or of the cluster (--context) with its settings, and changes the
    differences on one host first, then on a tenth, then on the rest. It prints a line to stderr when it finishes a host. The
    report lists each change with its reason, and failed hosts at the end. After two failures, the command stops and does not
    change the remaining hosts. The exit code is 1 if a host failed.
    """
    if not dry_run and not objects:
        source.require_source("apply")
    _apply_or_compare(
        source, hosts, output, dry_run=dry_run, all_at_once=all_at_once, objects=objects, remove=remove, take_over=take_over
    )


@with_option_groups
def diff(
    source: Source,
    hosts: HostOptions,
    output: Output = Format.TEXT,
    objects: ComparedObjects = False,
    remove: ComparedRemoval = False,
) -> None:
    """Show what apply would change.

    The command does not change hosts. Exit codes: 0 no differences, 1 differences, 3 a host was not read or was skipped.
    """
    _apply_or_compare(source, hosts, output, dry_run=True, all_at_once=False, objects=objects, remove=remove)


def _apply_or_compare(
    source: Source,
    hosts: HostOptions,
    output: Format,
    *,
    dry_run: bool,
    all_at_once: bool,
    objects: bool,
    remove: bool,
    take_over: bool = False,
) -> None:
    if objects:
        from transom.cli.workload_cluster_objects import write_objects

        write_objects(source, output, dry_run=dry_run)
        return
    with exit_when_stopped(UNTOUCHED):
        import msgspec

        from transom.apply.report import REMOVAL_REASONS, Report, merge_reports, replace_change_reasons
        from transom.cli.manager import find_foreign_hosts, find_manager, pause_instances
        from transom.cli.rollout import apply_settings, compare_hosts

        operators = source
        if take_over and source.filename:
            # the cluster is named for the operator's instances alone
            source = msgspec.structs.replace(source, context=None, kubeconfig=None)
        targets, outside = _read_targets(source, hosts, remove=remove)
        manager = find_manager(source, adopts=take_over)
        if take_over and operators.filename and operators.context and not dry_run:
            pause_instances(targets, operators)
        skipped = find_foreign_hosts(targets, source)
        free = [target for target in targets if target.instance.place.object not in skipped]
        work = compare_hosts(free, hosts, manager) if dry_run else apply_settings(free, hosts, manager, all_at_once=all_at_once)
        merged = merge_reports(targets, skipped, run_host_command(work, verbose=source.verbose))
        changed = [replace_change_reasons(host, REMOVAL_REASONS) for host in merged.hosts] if remove else merged.hosts
        report = Report((*changed, *outside), merged.stopped)
    print_hosts(report, source, output, planned=dry_run)
    exit_with_result(report, planned=dry_run)


def _read_targets(source: Source, hosts: HostOptions, *, remove: bool) -> "tuple[list[Target], list[HostReport]]":
    """Return the targets, and the reports of hosts that are skipped."""
    from transom.apply.report import HostReport
    from transom.apply.target import list_targets
    from transom.sources.examination import BASE_MISSING

    # said before anything is asked
    _ = hosts.timeouts
    objects, examined = examine_or_fail(source, needs_settings=not remove)
    targets = hosts.select_targets(list_targets(objects, examined.settings, ssh_config=True))
    everybody = not (hosts.limit or hosts.selector)
    outside = [HostReport(item.name, item.address, "skipped", error=item.why) for item in objects.outside if everybody]
    if remove:
        return [target.without_settings() for target in targets], outside
    if source.filename and any(target.egress.missing and target.instance.spec.lifecycle == "Egress" for target in targets):
        fail(
            f"{BASE_MISSING}, so the desired settings are unknown: pass its file with -f; --remove deletes what "
            "Transom has set on the hosts",
            ExitCode.INVALID,
        )
    return targets, outside
