"""`transom apply` and `transom diff`: every host of the manifests brought to its settings, or only compared with them."""

import gc
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.findings import Source, examine_or_fail
from transom.cli.hosts import UNTOUCHED, HostOptions, end, finished, print_hosts
from transom.cli.options import Output, grouped
from transom.cli.output import ExitCode, Format, fail, saying_on_ctrl_c

if TYPE_CHECKING:
    from transom.apply import HostReport, Report
    from transom.apply.target import Target

OnlyObjects = Annotated[
    bool,
    typer.Option(
        "--objects",
        help="Not the hosts: the objects of workload clusters, on the API server of --context; needs -f and --context.",
    ),
]
Remove = Annotated[
    bool, typer.Option("--remove", help="Take away what Transom has set on the hosts, whatever the settings say.")
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Also hosts whose ledger names an operator. With --context its instances of these hosts are paused first.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing: say what would change, as `transom diff` does.")]


@grouped
def apply(
    source: Source,
    hosts: HostOptions,
    output: Output = Format.TEXT,
    dry_run: DryRun = False,
    all_at_once: Annotated[
        bool,
        typer.Option("--all-at-once", help="Without a first host and a first tenth, and not stopped by failures: for a lab."),
    ] = False,
    objects: OnlyObjects = False,
    remove: Remove = False,
    take_over: TakeOver = False,
) -> None:
    """Bring hosts to their settings.

    Every host that the manifests (-f), or the cluster (--context), name is compared with its settings; what differs is changed,
    one host first, then a tenth of them, then all. A line for each host goes to stderr as it ends; the report says what, where
    and why, and names the hosts that failed last. Two hosts that fail stop a change: those that were not reached by it stay as
    they are. Exit code 1 where a host could not be done.
    """
    if not dry_run and not objects:
        source.insist("apply")
    _carry_out(
        source, hosts, output, dry_run=dry_run, all_at_once=all_at_once, objects=objects, remove=remove, take_over=take_over
    )


@grouped
def diff(
    source: Source, hosts: HostOptions, output: Output = Format.TEXT, objects: OnlyObjects = False, remove: Remove = False
) -> None:
    """Say what apply would do.

    Nothing is changed on any host. Exit code 0 where nothing differs, 1 where something does, 3 where a host could not be read.
    """
    _carry_out(source, hosts, output, dry_run=True, all_at_once=False, objects=objects, remove=remove)


def _carry_out(
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
        from transom.cli.fleet import write_objects

        write_objects(source, output, dry_run=dry_run)
        return
    with saying_on_ctrl_c(UNTOUCHED):
        report = _report(source, hosts, dry_run=dry_run, all_at_once=all_at_once, remove=remove, take_over=take_over)
    print_hosts(report, source, output, planned=dry_run)
    end(report, planned=dry_run)


def _report(source: Source, hosts: HostOptions, *, dry_run: bool, all_at_once: bool, remove: bool, take_over: bool) -> "Report":
    # one host's pass and what it imports make less than this: a search of all that takes as long as the pass
    gc.set_threshold(100_000, 20, 100)
    import msgspec

    from transom.apply import Report
    from transom.cli.manager import manager_of, pause, worked_on

    operators = source
    if take_over and source.filename:
        # the cluster is named for the operator's instances alone
        source = msgspec.structs.replace(source, context=None, kubeconfig=None)
    targets, outside = _targets(source, hosts, remove=remove)
    manager = manager_of(source, adopts=take_over)
    if take_over and operators.filename and operators.context and not dry_run:
        pause(targets, operators)

    def work(free: "list[Target]") -> Report:
        from transom.cli.rollout import carry_out, compare

        if dry_run:
            return finished(compare(free, hosts, manager), verbose=source.verbose)
        return finished(carry_out(free, hosts, manager, all_at_once=all_at_once), verbose=source.verbose)

    done = worked_on(targets, source, work)
    return Report((*done.hosts, *outside), done.stopped)


def _targets(source: Source, hosts: HostOptions, *, remove: bool) -> "tuple[list[Target], list[HostReport]]":
    """Hosts to work on, and what is to be said of those that nobody works on."""
    from transom.apply import HostReport
    from transom.apply.target import emptied, targets_of
    from transom.sources.examination import BASE_MISSING

    # said before anything is asked
    _ = hosts.timeouts
    objects, examined = examine_or_fail(source)
    targets = hosts.chosen(targets_of(objects, examined.settings, ssh_config=True))
    everybody = not (hosts.limit or hosts.selector)
    outside = [HostReport(one.name, one.address, "skipped", error=one.why) for one in objects.outside if everybody]
    if remove:
        return [emptied(target) for target in targets], outside
    if source.filename and any(target.egress.missing and target.instance.spec.lifecycle == "Egress" for target in targets):
        fail(
            f"{BASE_MISSING}, so it is not known what the hosts are to have: name its file with -f; --remove takes away what "
            "Transom has set on them",
            ExitCode.INVALID,
        )
    return targets, outside
