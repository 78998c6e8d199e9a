"""`transom version`, `transom completion` and `transom help`: the words that fingers type first."""

import enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom import __version__
from transom.cli.cluster import ClusterOptions, describe_server, run_with_client
from transom.cli.messages import print_to_stderr
from transom.cli.options import Output, with_option_groups
from transom.cli.output import Format, fail, print_data, print_lines
from transom.common.revision import describe_version, read_revision

if TYPE_CHECKING:
    from transom.kube.client import Client


class CompletionShell(enum.StrEnum):
    """The value of `transom completion`."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@with_option_groups
def version(
    cluster: ClusterOptions,
    client: Annotated[bool, typer.Option("--client", help="Show only the version of this program.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Show the versions of this program and of the cluster.

    The command shows the version of Kubernetes and the images of Transom's Deployments. Without a kubeconfig, it shows only
    the version of this program.
    """
    from transom.kube.errors import ConfigurationError
    from transom.kube.kubeconfig import select_context

    versions: dict[str, Any] = {
        "client": __version__,
        "revision": read_revision(),
        "server": None,
        "kubernetes": None,
        "images": {},
    }
    if output is Format.TEXT:
        print_lines(f"transom {describe_version()}")
    if not client:
        try:
            select_context(cluster.kubeconfig, cluster.context)
        except ConfigurationError as error:
            if cluster.kubeconfig or cluster.context:
                fail(str(error))
            print_to_stderr(f"transom: the version of this program only, since no cluster is configured: {error}")
        else:
            versions |= run_with_client(cluster, lambda item: _read_versions(item, cluster.effective_namespace))
    if output is not Format.TEXT:
        print_data(versions, output)
    elif versions["server"]:
        print_lines(f"Kubernetes {versions['kubernetes']} at {versions['server']}")
        print_lines(*(f"{name}: {image}" for name, image in versions["images"].items()))
        if not versions["images"]:
            print_lines(f"Transom does not run there, in namespace {cluster.effective_namespace}")


async def _read_versions(client: "Client", namespace: str) -> dict[str, Any]:
    from transom.kube.errors import NotFound

    server_version = await client.get_json("/version")
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    try:
        deployments = (await client.get_json(path)).get("items") or ()
    except NotFound:
        deployments = ()
    images = {
        deployment["metadata"]["name"]: deployment["spec"]["template"]["spec"]["containers"][0]["image"]
        for deployment in deployments
        if deployment["metadata"]["name"].startswith("transom")
    }
    return {"server": describe_server(client.connection), "kubernetes": server_version.get("gitVersion"), "images": images}


def completion(
    shell: Annotated[CompletionShell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
) -> None:
    """Print the completion script of a shell."""
    from transom.cli.program import build_program

    build_program()(["--show-completion", shell.value], prog_name="transom")


def show_help(command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="The command.")] = None) -> None:
    """Show the help of a command."""
    from transom.cli.program import build_program

    build_program()([*(command or ()), "--help"], prog_name="transom")
