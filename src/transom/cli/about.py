"""`transom version`, `transom completion` and `transom help`: the words that fingers type first."""

import enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom import __version__
from transom.cli.cluster import ClusterOptions, ask, place
from transom.cli.options import Output, grouped
from transom.cli.output import Format, fail, print_data, print_lines, tell

if TYPE_CHECKING:
    from transom.kube.client import Client


class CompletionShell(enum.StrEnum):
    """The value of `transom completion`."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@grouped
def version(
    cluster: ClusterOptions,
    client: Annotated[bool, typer.Option("--client", help="This program alone: ask no cluster.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Show the versions of this program and of the cluster.

    Of the cluster: Kubernetes, and the images of Transom's Deployments. Without a kubeconfig this program alone is told.
    """
    from transom.kube import ConfigurationError
    from transom.kube.kubeconfig import choose

    found: dict[str, Any] = {"client": __version__, "server": None, "kubernetes": None, "images": {}}
    if output is Format.TEXT:
        print_lines(f"transom {found['client']}")
    if not client:
        try:
            choose(cluster.kubeconfig, cluster.context)
        except ConfigurationError as error:
            if cluster.kubeconfig or cluster.context:
                fail(str(error))
            tell(f"transom: no cluster was asked: {error}")
        else:
            found |= ask(cluster, lambda asked: _of_cluster(asked, cluster.own))
    if output is not Format.TEXT:
        print_data(found, output)
    elif found["server"]:
        print_lines(f"Kubernetes {found['kubernetes']} at {found['server']}")
        print_lines(*(f"{name}: {image}" for name, image in found["images"].items()))
        if not found["images"]:
            print_lines(f"Transom does not run there, in namespace {cluster.own}")


async def _of_cluster(client: "Client", namespace: str) -> dict[str, Any]:
    from transom.kube import NotFound

    told = await client.get_json("/version")
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    try:
        deployments = (await client.get_json(path)).get("items") or ()
    except NotFound:
        deployments = ()
    images = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["image"]
        for one in deployments
        if one["metadata"]["name"].startswith("transom")
    }
    return {"server": place(client.connection), "kubernetes": told.get("gitVersion"), "images": images}


def completion(
    shell: Annotated[CompletionShell, typer.Argument(metavar="bash|zsh|fish", help="The shell that is to complete.")],
) -> None:
    """Print the completion of a shell, to be sourced."""
    from transom.cli.program import program

    program()(["--show-completion", shell.value], prog_name="transom")


def help_of(command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="A command.")] = None) -> None:
    """Show the help of a command, as its --help does."""
    from transom.cli.program import program

    program()([*(command or ()), "--help"], prog_name="transom")
