"""`transom rollback`: hosts put back to the settings that they were last well with."""

from typing import TYPE_CHECKING

from transom.cli.apply import Output, Workers, finished, print_hosts
from transom.cli.findings import NAMESPACE, Context, FilesOrCluster, Namespace, examine_or_fail
from transom.cli.output import ExitCode, Format
from transom.cli.timeouts import CHANNEL, CONNECT, WHOLE, ChannelTimeout, ConnectTimeout, PassTimeout, timeouts

if TYPE_CHECKING:
    from transom.controllers.windows.hosts import Target
    from transom.controllers.windows.report import Report
    from transom.hosts.connection import Timeouts


def rollback(
    filename: FilesOrCluster = None,
    output: Output = Format.TEXT,
    namespace: Namespace = NAMESPACE,
    context: Context = None,
    workers: Workers = 32,
    connect_timeout: ConnectTimeout = CONNECT,
    channel_timeout: ChannelTimeout = CHANNEL,
    pass_timeout: PassTimeout = WHOLE,
) -> None:
    """Put hosts back to the settings that they were last well with.

    Of the hosts that the manifests (or the cluster) name, each gets the newest settings that `apply` of this user on this
    machine has seen it well with, and that are not those of the manifests: none, where it had none. Mend the manifests before
    the next `apply`. Where an operator works, edit the EgressProxy instead.
    """
    from transom.cli.foreign_nodes import worked_on
    from transom.controllers.windows.hosts import targets_of

    made = timeouts(connect_timeout, channel_timeout, pass_timeout)
    objects, examined = examine_or_fail(filename, namespace, context)
    targets = targets_of(objects, examined.settings, ssh_config=True)
    report = worked_on(targets, filename, context, lambda free: finished(_roll_back(free, workers, made)))
    print_hosts(report, output, planned=False)
    if any(host.result == "failed" for host in report.hosts):
        raise SystemExit(ExitCode.NOT_DONE)


async def _roll_back(targets: "list[Target]", workers: int, made: "Timeouts") -> "Report":
    import msgspec

    from transom.cli.passed import PassedSettings
    from transom.cli.progress import Progress
    from transom.cli.state import directory, host_keys, settings
    from transom.controllers.windows.hosts import passing, report_of
    from transom.controllers.windows.report import Report
    from transom.controllers.windows.rollout import roll_out
    from transom.hosts.passes import PassResult

    passed = PassedSettings(directory())
    known = {target.instance.place.object: passed.before(target) for target in targets}
    found = {
        target.instance.place.object: msgspec.structs.replace(
            report_of(target, PassResult()),
            result="failed",
            error="not changed: nothing is known here of other settings that this host was well with",
        )
        for target in targets
        if known[target.instance.place.object] is None
    }
    goals = [
        msgspec.structs.replace(target, egress=egress)
        for target in targets
        if (egress := known[target.instance.place.object]) is not None
    ]
    with Progress(len(goals), "put back") as progress:
        # those that are not well must not wait for each other
        async for target, report in roll_out(goals, passing(host_keys(), settings(made)), at_once=workers, all_at_once=True):
            found[target.instance.place.object] = report
            progress.done(report)
    return Report(tuple(found[target.instance.place.object] for target in targets))
