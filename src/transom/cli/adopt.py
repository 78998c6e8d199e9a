"""`transom adopt`: what Transom would take over from a peer; with --yes it is handed over."""

import enum
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from transom.cli.findings import NAMESPACE, Context, Namespace
from transom.cli.output import ExitCode, Format, fail, print_data

if TYPE_CHECKING:
    from transom.controllers.fleet.adoption import Candidate
    from transom.controllers.windows.adoption import Candidate as WindowsCandidate
    from transom.kube.client import Client
    from transom.proxy.settings import Effective
    from transom.sources.objects import Objects
_T = TypeVar("_T")


class Peer(enum.StrEnum):
    """The value of `--from`."""

    CLUSTER_APPS_OPERATOR = "cluster-apps-operator"
    WMCO = "wmco"


def adopt(
    peer: Annotated[Peer, typer.Option("--from", help="Whose objects.")],
    yes: Annotated[bool, typer.Option("--yes", help="Hand over what loses nothing.")] = False,
    drop_values: Annotated[
        bool, typer.Option("--drop-values", help="Hand over also what has values that Transom does not write; they are lost.")
    ] = False,
    peer_namespace: Annotated[
        str, typer.Option("--peer-namespace", metavar="NS", help="Where the Windows Machine Config Operator is.")
    ] = "openshift-windows-machine-config-operator",
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write the list.")] = Format.TEXT,
    namespace: Namespace = NAMESPACE,
    context: Context = None,
) -> None:
    """Say what Transom would take over from a peer.

    The peer is one in the cluster of the kubeconfig; with --yes, what loses nothing is handed over. Objects are handed over by
    the annotation transom.dev/adopt, the key and the entries of the Windows Machine Config Operator by a copy; the operator
    does the rest. Stop the peer first. Exit code 1 where something stays with it.
    """
    if peer is Peer.WMCO and drop_values:
        fail("--drop-values is for --from cluster-apps-operator")

    async def fleet(client: "Client", objects: "Objects", settings: "Effective") -> "list[Candidate]":
        from transom.controllers.fleet.adoption import candidates

        return await candidates(client, objects, settings, hand_over=yes, drop_values=drop_values)

    async def windows(client: "Client", _: "Objects", settings: "Effective") -> "list[WindowsCandidate]":
        from transom.controllers.windows.adoption import candidates
        from transom.proxy.settings import Egress

        own = settings.own
        egress = own if own is None or "Nodes" in own.consumers else Egress(windows=own.windows)
        return await candidates(client, namespace, peer_namespace, egress, hand_over=yes)

    if peer is Peer.WMCO:
        taken = _found(namespace, context, windows)
        _print([(one, one.detail) for one in taken], peer, output)
    else:
        held = _found(namespace, context, fleet)
        _print([(one, ", ".join(one.loses)) for one in held], peer, output)


def _print(found: "Sequence[tuple[Candidate | WindowsCandidate, str]]", peer: Peer, output: Format) -> None:
    if output is Format.TEXT:
        for one, detail in found:
            place = f"{one.namespace}/" if one.namespace else ""
            sys.stdout.write(f"{one.kind} {place}{one.name}: {one.result}{f' ({detail})' if detail else ''}\n")
        if not found:
            sys.stderr.write(f"transom: there is nothing of {peer.value}\n")
    else:
        print_data([one for one, _ in found], output)
    if any(one.result.startswith("kept") for one, _ in found):
        raise SystemExit(ExitCode.NOT_DONE)


def _found(
    namespace: str, context: str | None, look: "Callable[[Client, Objects, Effective], Coroutine[Any, Any, list[_T]]]"
) -> "list[_T]":
    import asyncio
    from datetime import UTC, datetime

    from transom.cli.findings import print_findings
    from transom.kube.client import Client
    from transom.kube.connection import connect
    from transom.kube.errors import ApiError, ConfigurationError
    from transom.sources.api_server import load
    from transom.sources.examination import examine

    async def run() -> "list[_T]":
        connection = connect(context=context)
        try:
            client = Client(connection)
            objects = await load(client, namespace)
            examined = examine(objects, datetime.now(UTC), connection.server)
            if examined.errors:
                print_findings(examined.errors, sys.stderr)
                fail("the settings in the cluster are invalid")
            return await look(client, objects, examined.settings)
        finally:
            await connection.close()

    try:
        return asyncio.run(run())
    except ConfigurationError as error:
        fail(str(error))
    except ApiError as error:
        fail(str(error), ExitCode.NOT_DONE)
