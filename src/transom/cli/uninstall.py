"""`transom uninstall`: hosts given back or left, then everything of Transom taken off a cluster."""

from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.cluster import ClusterOptions, ask, place
from transom.cli.options import grouped
from transom.cli.output import fail, saying_on_ctrl_c, tell

if TYPE_CHECKING:
    from transom.kube.client import Client


@grouped
def uninstall(
    cluster: ClusterOptions,
    leave_hosts: Annotated[
        bool, typer.Option("--leave-hosts", help="Leave every host as it is, with proxy, CAs and services.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", min=1, help="Seconds that hosts are waited for.")
    ] = 3600.0,
) -> None:
    """Uninstall Transom from a cluster.

    The operator gives every host back first, and what the settings made in the cluster goes; then the rest of Transom goes.
    Where no operator works nothing is done. With --leave-hosts no host is touched. Machines and their MachineSets stay.
    """
    from transom.cli.uninstallation import Uninstallation

    if not cluster.context:
        fail("it has to be said which cluster: name it with --context NAME (`kubectl config get-contexts` lists them)")

    async def run(client: "Client") -> None:
        tell(f"transom: on {place(client.connection)}")
        work = Uninstallation(client, cluster.own, timeout)
        await (work.leave() if leave_hosts else work.give_back())

    with saying_on_ctrl_c("stopped; what was begun goes on in the cluster. Run it again to go on"):
        ask(cluster, run)
