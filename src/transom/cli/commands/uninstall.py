"""`transom uninstall`: restores hosts or leaves them, then removes Transom from a cluster."""

from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.cluster import ClusterOptions, describe_server, run_with_client
from transom.cli.messages import print_to_stderr
from transom.cli.options import with_option_groups
from transom.cli.output import ExitCode, fail
from transom.cli.stopping import get_signal_name, mark_stop_reported

if TYPE_CHECKING:
    from transom.kube.client import Client


@with_option_groups
def uninstall(
    cluster: ClusterOptions,
    leave_hosts: Annotated[bool, typer.Option("--leave-hosts", help="Keep proxy, CAs and services on every host.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="Timeout for hosts: 30m, 1h30m.")] = "1h",
) -> None:
    """Uninstall Transom from a cluster.

    First, the operator restores every host, and deletes the objects that it created in the cluster. Then the command deletes
    the rest of Transom. If no operator runs, it does nothing. With --leave-hosts, it does not change hosts. It keeps
    Machines and their MachineSets.
    """
    from transom.cli.options import parse_duration_option
    from transom.cli.uninstallation import Uninstallation

    if not cluster.context:
        fail("it has to be said which cluster: name it with --context NAME (`kubectl config get-contexts` lists them)")

    seconds, started = parse_duration_option("--timeout", timeout), list[Uninstallation]()

    async def run(client: "Client") -> None:
        print_to_stderr(f"transom: on {describe_server(client.connection)}")
        work = Uninstallation(client, cluster.effective_namespace, seconds)
        started.append(work)
        await (work.uninstall_without_hosts() if leave_hosts else work.restore_hosts())

    try:
        run_with_client(cluster, run)
    except KeyboardInterrupt:
        mark_stop_reported()
        standing = started[0].standing if started else "before anything was done"
        fail(
            f"stopped by {get_signal_name()} {standing}; the cluster continues what was started."
            " Run the command again to continue",
            ExitCode.INTERRUPTED,
        )
