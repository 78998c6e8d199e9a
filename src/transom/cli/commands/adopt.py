"""`transom adopt`: what Transom would take over from a peer; with --yes it is handed over."""

import enum
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from transom.cli.cluster import ClusterOptions, describe_server, run_with_client
from transom.cli.host_selection import HostSelection
from transom.cli.messages import print_to_stderr
from transom.cli.options import Output, with_option_groups
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines
from transom.cli.stopping import get_signal_name, mark_stop_reported

if TYPE_CHECKING:
    from transom.controllers.clusters.adoption import ClustersByProxyUse, PeerObject
    from transom.controllers.inventory.adoption import PeerLeftover as WindowsCandidate
    from transom.kube.client import Client
    from transom.proxy.settings import ResolvedSettings
    from transom.sources.objects import Objects
_T = TypeVar("_T")


class AdoptionSource(enum.StrEnum):
    """The value of `--from`."""

    CLUSTER_APPS_OPERATOR = "cluster-apps-operator"
    WMCO = "wmco"


@with_option_groups
def adopt(
    cluster: HostSelection,
    peer: Annotated[AdoptionSource | None, typer.Option("--from", help="The operator to adopt objects from.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Adopt everything that can be adopted without loss.")] = False,
    drop_values: Annotated[
        bool,
        typer.Option("--drop-values", help="Include objects with values that Transom does not write. These values are lost."),
    ] = False,
    services: Annotated[
        bool,
        typer.Option("--services", help="Also adopt the services of Windows hosts, to maintain, upgrade and remove them."),
    ] = False,
    peer_namespace: Annotated[
        str, typer.Option("--peer-namespace", metavar="NS", help="Namespace of the Windows Machine Config Operator.")
    ] = "openshift-windows-machine-config-operator",
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="Timeout for the adoption of hosts.")] = "10m",
    output: Output = Format.TEXT,
) -> None:
    """Show what Transom would adopt from another operator.

    With --from, the command lists all objects of another operator in the cluster. With --yes, it adopts everything that can
    be adopted without loss. It annotates objects with transom.dev/adopt, and copies the key and the entries of the Windows
    Machine Config Operator. Transom's operator does the rest. Stop the other operator first. The exit code is 1 if something
    was not adopted.

    With names, the command adopts hosts that another Transom or `transom apply` manages (ManagedByOther). With --yes, it
    waits until they are adopted. To adopt an object of another owner (Conflict), use secret/NAME or configmap/NAME, with -n.
    """
    if peer is None:
        from transom.cli.object_adoption import adopt_selected_objects

        if drop_values or services:
            fail(f"{'--drop-values' if drop_values else '--services'} is for --from")
        adopt_selected_objects(cluster, timeout, output, yes=yes)
        return
    if not cluster.is_empty:
        fail("--from takes over everything of that operator: leave out names, --all and -l")
    if peer is AdoptionSource.WMCO and drop_values:
        fail("--drop-values is for --from cluster-apps-operator")
    if peer is not AdoptionSource.WMCO and services:
        fail("--services is for --from wmco")
    if yes and not cluster.context:
        fail("--yes hands over hosts and objects: name the cluster with --context NAME")

    async def adopt_clusters(
        client: "Client", objects: "Objects", settings: "ResolvedSettings", report: "Callable[[PeerObject], object]"
    ) -> None:
        from transom.controllers.clusters.adoption import find_peer_objects, find_public_clusters

        public = await find_public_clusters(client, objects, settings)
        if public.clusters:
            _print_selector(public)
        for item in public.objects:
            report(item)
        # nothing is handed over that would give a proxy to who had none
        hand_over = yes and not public.clusters
        await find_peer_objects(client, objects, settings, hand_over=hand_over, drop_values=drop_values, report=report)

    async def adopt_hosts(
        client: "Client", _: "Objects", settings: "ResolvedSettings", report_candidate: "Callable[[WindowsCandidate], object]"
    ) -> None:
        from transom.controllers.inventory.adoption import find_leftovers
        from transom.proxy.settings import Egress

        own = settings.own
        egress = own if own is None or "Nodes" in own.consumers else Egress(windows=own.windows)
        await find_leftovers(
            client,
            cluster.effective_namespace,
            peer_namespace,
            egress,
            hand_over=yes,
            services=services,
            report=report_candidate,
        )

    if peer is AdoptionSource.WMCO:
        taken, stopped = _find_candidates(cluster, adopt_hosts, yes=yes)
        _print_candidates([(item, item.detail) for item in taken], peer, output, stopped=stopped)
    else:
        present, stopped = _find_candidates(cluster, adopt_clusters, yes=yes)
        _print_candidates([(item, ", ".join(item.loses)) for item in present], peer, output, stopped=stopped)


def _print_selector(public: "ClustersByProxyUse") -> None:
    """Print how clusters without a proxy stay unchanged."""
    import json

    from transom.proxy.objects import build_selector_value

    selector = json.dumps(build_selector_value(public.selector))
    print_to_stderr(f"transom: to keep them unchanged, set spec.clusterSelector of EgressProxy/cluster to {selector}")
    ((key, value),) = public.selector.match_labels.items()
    for item in public.to_label:
        name = f"clusters.cluster.x-k8s.io {item.metadata.name} -n {item.metadata.namespace}"
        print_to_stderr(f"transom: first: kubectl label {name} {key}={value}")


def _print_candidates(
    candidates: "Sequence[tuple[PeerObject | WindowsCandidate, str]]", peer: AdoptionSource, output: Format, *, stopped: bool
) -> None:
    if output is Format.TEXT:
        for entry, detail in candidates:
            place = f"{entry.namespace}/" if entry.namespace else ""
            print_lines(f"{entry.kind} {place}{entry.name}: {entry.result}{f' ({detail})' if detail else ''}")
        if not candidates and not stopped:
            print_to_stderr(f"transom: there is nothing of {peer.value}")
    else:
        print_data([item for item, _ in candidates], output)
    if stopped:
        mark_stop_reported()
        fail(
            f"stopped by {get_signal_name()}: the current object may have been handed over; run the command again to continue",
            ExitCode.INTERRUPTED,
        )
    if any(item.result.startswith("kept") for item, _ in candidates):
        raise SystemExit(ExitCode.NOT_DONE)


def _find_candidates(
    cluster: ClusterOptions,
    list_candidates: "Callable[[Client, Objects, ResolvedSettings, Callable[[_T], object]], Coroutine[Any, Any, None]]",
    *,
    yes: bool,
) -> "tuple[list[_T], bool]":
    """List the candidates, each with its present result, and report whether a signal stopped the rest."""
    from datetime import UTC, datetime

    from transom.cli.findings import print_findings
    from transom.sources.api_server import DefinitionsMissing, load_objects
    from transom.sources.examination import examine_objects

    candidates: list[_T] = []

    async def run(client: "Client") -> None:
        try:
            objects = await load_objects(client, cluster.effective_namespace)
        except DefinitionsMissing as error:
            if yes:
                raise
            objects = error.objects
        examined = examine_objects(objects, datetime.now(UTC), client.connection.server)
        if examined.errors:
            print_findings(examined.errors, sys.stderr)
            fail(f"{describe_server(client.connection)}: the settings in the cluster are invalid")
        await list_candidates(client, objects, examined.settings, candidates.append)
        if not candidates:
            print_to_stderr(f"transom: asked {describe_server(client.connection)}")

    try:
        run_with_client(cluster, run, reports=True)
    except KeyboardInterrupt:
        return candidates, True
    return candidates, False
