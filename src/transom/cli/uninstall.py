"""`transom uninstall`: hosts given back or left, then everything of Transom taken off a cluster."""

from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.cluster import ClusterOptions, ask, place
from transom.cli.options import grouped
from transom.cli.output import ExitCode, fail, tell

if TYPE_CHECKING:
    from transom.kube.client import Client


@grouped
def uninstall(
    cluster: ClusterOptions,
    leave_hosts: Annotated[
        bool, typer.Option("--leave-hosts", help="Leave every host as it is, with proxy, CAs and services.")
    ] = False,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="How long hosts are waited for: 30m, 1h30m.")
    ] = "1h",
) -> None:
    """Uninstall Transom from a cluster.

    The operator gives every host back first, and what the settings made in the cluster goes; then the rest of Transom goes.
    Where no operator works nothing is done. With --leave-hosts no host is touched. Machines and their MachineSets stay.
    """
    from transom.cli.options import duration
    from transom.cli.uninstallation import Uninstallation

    if not cluster.context:
        fail("it has to be said which cluster: name it with --context NAME (`kubectl config get-contexts` lists them)")

    seconds, standing = duration("--timeout", timeout), "before anything was done"

    async def run(client: "Client") -> None:
        nonlocal standing
        tell(f"transom: on {place(client.connection)}")
        work = Uninstallation(client, cluster.own, seconds)
        try:
            await (work.leave() if leave_hosts else work.give_back())
        finally:
            standing = work.standing

    try:
        ask(cluster, run)
    except KeyboardInterrupt:
        fail(f"stopped {standing}; what was begun goes on in the cluster. Run it again to go on", ExitCode.INTERRUPTED)
