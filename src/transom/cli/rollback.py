"""`transom rollback`: hosts put back to their last known good settings."""

from typing import TYPE_CHECKING

from transom.cli.apply import DryRun
from transom.cli.findings import Source, examine_or_fail
from transom.cli.hosts import UNTOUCHED, HostOptions, end, finished, print_hosts
from transom.cli.options import Output, grouped
from transom.cli.output import Format, saying_on_ctrl_c, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transom.apply import Report
    from transom.apply.target import Target
    from transom.windows.ledger import Manager


@grouped
def rollback(source: Source, hosts: HostOptions, output: Output = Format.TEXT, dry_run: DryRun = False) -> None:
    """Roll hosts back to their last known good settings.

    Hosts that the manifests (-f) or the cluster (--context) name get other settings than these say. They are the newest with
    which `apply` of this user on this machine has seen the host healthy. If it had none then, it gets none. Mend the
    manifests before the next `apply`. Where an operator works, edit the EgressProxy instead.
    """
    if not dry_run:
        source.insist("rollback")
    _ = hosts.timeouts
    with saying_on_ctrl_c(UNTOUCHED):
        from transom.apply.target import targets_of
        from transom.cli.manager import manager_of, worked_on

        objects, examined = examine_or_fail(source)
        targets = hosts.chosen(targets_of(objects, examined.settings, ssh_config=True))
        manager = manager_of(source)
        report = worked_on(
            targets, source, lambda free: _roll_back(free, hosts, manager, dry_run=dry_run, verbose=source.verbose)
        )
    print_hosts(report, source, output, planned=dry_run)
    end(report, planned=dry_run)


def _roll_back(
    targets: "Sequence[Target]", hosts: HostOptions, manager: "Manager", *, dry_run: bool, verbose: bool
) -> "Report":
    import msgspec

    from transom.apply import Report
    from transom.apply.target import report_of
    from transom.cli.rollout import compare, put_back
    from transom.cli.state import PassedFiles, directory
    from transom.hosts.passes import PassResult

    passed = PassedFiles(directory())
    goals, unknown = [], {}
    for target in targets:
        egress = passed.before(target)
        if egress is None:
            why = "not changed: no other settings are known here that this host was healthy with"
            unknown[target.instance.place.object] = report_of(target, PassResult()).skip(why)
        else:
            goals.append(msgspec.structs.replace(target, egress=egress))
    _tell_goals(goals)
    report = finished(compare(goals, hosts, manager) if dry_run else put_back(goals, hosts, manager), verbose=verbose)
    done = iter(report.hosts)
    return Report(tuple(unknown.get(target.instance.place.object) or next(done) for target in targets), report.stopped)


def _tell_goals(goals: "Sequence[Target]") -> None:
    """Which settings hosts go back to."""
    from transom.apply.roll_out import change_of
    from transom.cli.findings import counted
    from transom.proxy.secret import redact_userinfo

    groups: dict[object, list[Target]] = {}
    for goal in goals:
        groups.setdefault(change_of(goal.egress), []).append(goal)
    for group in groups.values():
        egress = group[0].egress
        variables = [f"{name}={redact_userinfo(value)}" for name, value in egress.variables.items()]
        trust = [counted(len(egress.trust), "trusted CA")] if egress.trust else []
        who = group[0].instance.name if len(group) == 1 else f"{len(group):,} hosts"
        tell(f"transom: {who}: back to {', '.join([*variables, *trust]) or 'no proxy and no CAs'}")
