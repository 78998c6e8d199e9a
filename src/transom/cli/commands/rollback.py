"""`transom rollback`: restores the last known good settings of hosts."""

from typing import TYPE_CHECKING

from transom.cli.commands.apply import DryRun
from transom.cli.findings import Source, examine_or_fail
from transom.cli.hosts import UNTOUCHED, HostOptions, exit_with_result, print_hosts, run_host_command
from transom.cli.messages import print_to_stderr
from transom.cli.options import Output, with_option_groups
from transom.cli.output import Format, exit_when_stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transom.apply.report import HostReport
    from transom.apply.target import Target


@with_option_groups
def rollback(source: Source, hosts: HostOptions, output: Output = Format.TEXT, dry_run: DryRun = False) -> None:
    """Roll hosts back to their last known good settings.

    The command applies the latest settings with which your `apply` on this machine found the host healthy, other than those
    of the manifests (-f) or the cluster (--context). If the host had no settings then, the command removes them. Fix the
    manifests before the next `apply`. If an operator manages the hosts, edit the EgressProxy instead.
    """
    if not dry_run:
        source.require_source("rollback")
    _ = hosts.timeouts
    with exit_when_stopped(UNTOUCHED):
        import msgspec

        from transom.apply.report import ROLLBACK_REASONS, merge_reports, replace_change_reasons
        from transom.apply.target import list_targets
        from transom.cli.manager import find_foreign_hosts, find_manager
        from transom.cli.rollout import compare_hosts, roll_back_settings

        objects, examined = examine_or_fail(source)
        targets = hosts.select_targets(list_targets(objects, examined.settings, ssh_config=True))
        manager = find_manager(source)
        skipped = find_foreign_hosts(targets, source)
        free = [target for target in targets if target.instance.place.object not in skipped]
        goals, unknown = _find_previous_settings(free)
        _print_previous_settings(goals)
        # not recorded: what differs from former settings says nothing about the settings of the manifests
        work = compare_hosts(goals, hosts, manager, recorded_as=None) if dry_run else roll_back_settings(goals, hosts, manager)
        done = run_host_command(work, verbose=source.verbose)
        hosts_with_reasons = tuple(replace_change_reasons(host, ROLLBACK_REASONS) for host in done.hosts)
        rolled_back = msgspec.structs.replace(done, hosts=hosts_with_reasons)
        report = merge_reports(targets, skipped | unknown, rolled_back)
    print_hosts(report, source, output, planned=dry_run)
    exit_with_result(report, planned=dry_run)


def _find_previous_settings(targets: "Sequence[Target]") -> "tuple[list[Target], dict[str, HostReport]]":
    """Return the targets with the settings that they go back to, and the reports of those that have no such settings."""
    import msgspec

    from transom.apply.report import build_host_report
    from transom.cli.state import HealthySettingsStore, create_directory
    from transom.hosts.passes.base_pass import PassResult

    directory = create_directory()
    passed = HealthySettingsStore(directory)
    goals, unknown = [], {}
    for target in targets:
        egress = passed.find_previous_settings(target)
        if egress is None:
            why = (
                f"not changed: no earlier settings are recorded in {directory}: roll back on the machine that applied them, "
                "or restore the old manifests and run `transom apply`"
            )
            unknown[target.instance.place.object] = build_host_report(target, PassResult()).as_skipped(why)
        else:
            goals.append(msgspec.structs.replace(target, egress=egress))
    return goals, unknown


def _print_previous_settings(targets: "Sequence[Target]") -> None:
    """Print the settings to which hosts return."""
    from transom.common.counting import format_count
    from transom.proxy.secret import redact_userinfo
    from transom.rollout.fingerprint import compute_settings_key

    groups: dict[object, list[Target]] = {}
    for goal in targets:
        groups.setdefault(compute_settings_key(goal.egress), []).append(goal)
    for group in groups.values():
        egress = group[0].egress
        variables = [f"{name}={redact_userinfo(value)}" for name, value in egress.variables.items()]
        trust = [format_count(len(egress.trust), "trusted CA")] if egress.trust else []
        who = group[0].instance.name if len(group) == 1 else f"{len(group):,} hosts"
        print_to_stderr(f"transom: {who}: back to {', '.join([*variables, *trust]) or 'no proxy and no CAs'}")
