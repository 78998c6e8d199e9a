"""Which WindowsInstances of a cluster a command works on: names, patterns, labels, or all of them."""

from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.cluster import ClusterOptions, describe_server
from transom.cli.completion import complete_instance
from transom.cli.host_names import describe_unknown, select_names
from transom.cli.options import HostSelector
from transom.cli.output import ExitCode, fail

if TYPE_CHECKING:
    from transom.diagnosis.snapshot import Value
    from transom.kube.client import Client


class HostSelection(ClusterOptions, frozen=True):
    """A cluster, and which of its hosts."""

    hosts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[HOST]...", help="Names of WindowsInstances: win-1 win-2, or 'win-*'.", autocompletion=complete_instance
        ),
    ] = None
    every: Annotated[bool, typer.Option("--all", help="Select every host of the namespace.")] = False
    selector: HostSelector = ""

    @property
    def is_empty(self) -> bool:
        """Whether no host is selected."""
        return not (self.hosts or self.every or self.selector)

    def require_selection(self, command: str) -> None:
        """End the command with 2 where it does not say which hosts, or says it twice."""
        if self.is_empty:
            fail(f"{command}: no host selected: name hosts, or use --all or -l LABELS")
        if self.every and (self.hosts or self.selector):
            fail("--all selects every host: leave out the names, and -l")

    async def read_instances(self, client: "Client") -> "list[Value]":
        """Return the selected WindowsInstances; ends the command if a name matches none, or if none exists. Raises ApiError."""
        instances = await list_instances(client, self.effective_namespace, self.selector)
        names = [str(item["metadata"]["name"]) for item in instances]
        where = f"namespace {self.effective_namespace} of {describe_server(client.connection)}"
        labelled = f" with the labels {self.selector}" if self.selector else ""
        if not self.hosts:
            if not instances:
                fail(f"no WindowsInstance{labelled} exists in {where}", ExitCode.NOT_DONE)
            return instances
        selection = select_names(names, self.hosts)
        if selection.unknown:
            fail(describe_unknown(selection.unknown, names, where + labelled), ExitCode.NOT_DONE)
        return [item for item in instances if item["metadata"]["name"] in selection.names]


async def list_instances(client: "Client", namespace: str, labels: str = "") -> "list[Value]":
    """Return the WindowsInstances of a namespace, in the order of their names. Raises ApiError, DefinitionsMissing."""
    from transom.diagnosis.overview import get_natural_key
    from transom.kube.errors import NotFound
    from transom.kube.resources import WINDOWS_INSTANCES
    from transom.sources.api_server import DefinitionsMissing
    from transom.sources.objects import Objects

    try:
        listing = await client.list_objects(WINDOWS_INSTANCES, namespace, labels=labels)
    except NotFound:
        raise DefinitionsMissing((WINDOWS_INSTANCES.kind,), Objects()) from None
    head = {"apiVersion": WINDOWS_INSTANCES.api_version, "kind": WINDOWS_INSTANCES.kind}
    instances = [head | item.value for item in listing.items]
    return sorted(instances, key=lambda item: get_natural_key(str(item["metadata"]["name"])))
