"""`transom adopt`: what Transom would take over from a peer; with --yes it is handed over."""

import enum
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from transom.cli.cluster import ClusterOptions, ask, place
from transom.cli.options import Output, grouped
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines, tell

if TYPE_CHECKING:
    from transom.controllers.clusters.adoption import PeerObject, Public
    from transom.controllers.instances.adoption import PeerLeftover as WindowsCandidate
    from transom.kube.client import Client
    from transom.proxy.settings import Effective
    from transom.sources.objects import Objects
_T = TypeVar("_T")


class Peer(enum.StrEnum):
    """The value of `--from`."""

    CLUSTER_APPS_OPERATOR = "cluster-apps-operator"
    WMCO = "wmco"


@grouped
def adopt(
    cluster: ClusterOptions,
    peer: Annotated[Peer, typer.Option("--from", help="Whose objects.")],
    yes: Annotated[bool, typer.Option("--yes", help="Hand over what loses nothing.")] = False,
    drop_values: Annotated[
        bool, typer.Option("--drop-values", help="Hand over also what has values that Transom does not write; they are lost.")
    ] = False,
    services: Annotated[
        bool,
        typer.Option("--services", help="Take over the services of Windows hosts, too: keep, upgrade and remove them."),
    ] = False,
    peer_namespace: Annotated[
        str, typer.Option("--peer-namespace", metavar="NS", help="Where the Windows Machine Config Operator is.")
    ] = "openshift-windows-machine-config-operator",
    output: Output = Format.TEXT,
) -> None:
    """Say what Transom would take over from another operator.

    It is one in the cluster of the kubeconfig; with --yes, what loses nothing is handed over. Objects are handed over by
    the annotation transom.dev/adopt, the key and the entries of the Windows Machine Config Operator by a copy; the operator
    does the rest. Stop the peer first. Exit code 1 where something stays with it.
    """
    if peer is Peer.WMCO and drop_values:
        fail("--drop-values is for --from cluster-apps-operator")
    if peer is not Peer.WMCO and services:
        fail("--services is for --from wmco")
    if yes and not cluster.context:
        fail("--yes hands over hosts and objects: name the cluster with --context NAME")

    async def fleet(client: "Client", objects: "Objects", settings: "Effective") -> "list[PeerObject]":
        from transom.controllers.clusters.adoption import candidates, public_clusters

        public = await public_clusters(client, objects, settings)
        if public.clusters:
            _offer(public)
        # nothing is handed over that would give a proxy to who had none
        listed = await candidates(client, objects, settings, hand_over=yes and not public.clusters, drop_values=drop_values)
        return [*public.found, *listed]

    async def windows(client: "Client", _: "Objects", settings: "Effective") -> "list[WindowsCandidate]":
        from transom.controllers.instances.adoption import candidates
        from transom.proxy.settings import Egress

        own = settings.own
        egress = own if own is None or "Nodes" in own.consumers else Egress(windows=own.windows)
        return await candidates(client, cluster.own, peer_namespace, egress, hand_over=yes, services=services)

    if peer is Peer.WMCO:
        taken = _found(cluster, windows, yes=yes)
        _print([(one, one.detail) for one in taken], peer, output)
    else:
        present = _found(cluster, fleet, yes=yes)
        _print([(one, ", ".join(one.loses)) for one in present], peer, output)


def _offer(public: "Public") -> None:
    """What keeps clusters without a proxy as they are."""
    import json

    from transom.proxy.objects import selector_value

    selector = json.dumps(selector_value(public.selector))
    tell(f"transom: to keep them as they are, set spec.clusterSelector of EgressProxy/cluster to {selector}")
    ((key, value),) = public.selector.match_labels.items()
    for one in public.to_label:
        name = f"clusters.cluster.x-k8s.io {one.metadata.name} -n {one.metadata.namespace}"
        tell(f"transom: first: kubectl label {name} {key}={value}")


def _print(found: "Sequence[tuple[PeerObject | WindowsCandidate, str]]", peer: Peer, output: Format) -> None:
    if output is Format.TEXT:
        for one, detail in found:
            place = f"{one.namespace}/" if one.namespace else ""
            print_lines(f"{one.kind} {place}{one.name}: {one.result}{f' ({detail})' if detail else ''}")
        if not found:
            tell(f"transom: there is nothing of {peer.value}")
    else:
        print_data([one for one, _ in found], output)
    if any(one.result.startswith("kept") for one, _ in found):
        raise SystemExit(ExitCode.NOT_DONE)


def _found(
    cluster: ClusterOptions, look: "Callable[[Client, Objects, Effective], Coroutine[Any, Any, list[_T]]]", *, yes: bool
) -> "list[_T]":
    from datetime import UTC, datetime

    from transom.cli.findings import print_findings
    from transom.sources.api_server import DefinitionsMissing, load
    from transom.sources.examination import examine

    async def run(client: "Client") -> "list[_T]":
        try:
            objects = await load(client, cluster.own)
        except DefinitionsMissing as error:
            if yes:
                raise
            objects = error.objects
        examined = examine(objects, datetime.now(UTC), client.connection.server)
        if examined.errors:
            print_findings(examined.errors, sys.stderr)
            fail(f"{place(client.connection)}: the settings in the cluster are invalid")
        found = await look(client, objects, examined.settings)
        if not found:
            tell(f"transom: asked {place(client.connection)}")
        return found

    return ask(cluster, run)
