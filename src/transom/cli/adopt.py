"""`transom adopt`: what Transom would take over from a peer; with --yes it is handed over."""

import enum
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.findings import NAMESPACE, Context, Namespace
from transom.cli.output import ExitCode, Format, fail, print_data

if TYPE_CHECKING:
    from transom.controllers.fleet.adoption import Candidate


class Peer(enum.StrEnum):
    """The value of `--from`."""

    CLUSTER_APPS_OPERATOR = "cluster-apps-operator"


def adopt(
    peer: Annotated[Peer, typer.Option("--from", help="Whose objects.")],
    yes: Annotated[bool, typer.Option("--yes", help="Hand over what loses nothing.")] = False,
    drop_values: Annotated[
        bool, typer.Option("--drop-values", help="Hand over also what has values that Transom does not write; they are lost.")
    ] = False,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write the list.")] = Format.TEXT,
    namespace: Namespace = NAMESPACE,
    context: Context = None,
) -> None:
    """Say what Transom would take over from a peer in the cluster of the kubeconfig; with --yes, hand it over.

    An object is handed over by the annotation transom.dev/adopt; the operator then writes it. Stop the peer first: it would
    write it back. Exit code 1 where something stays with the peer.
    """
    assert peer is Peer.CLUSTER_APPS_OPERATOR  # the one there is
    found = _found(namespace, context, yes=yes, drop_values=drop_values)
    if output is Format.TEXT:
        for one in found:
            loses = f" ({', '.join(one.loses)})" if one.loses else ""
            sys.stdout.write(f"{one.kind} {one.namespace}/{one.name}: {one.result}{loses}\n")
        if not found:
            sys.stderr.write(f"transom: there is nothing of {peer.value}\n")
    else:
        print_data(found, output)
    if any(one.result.startswith("kept") for one in found):
        raise SystemExit(ExitCode.NOT_DONE)


def _found(namespace: str, context: str | None, *, yes: bool, drop_values: bool) -> "list[Candidate]":
    import asyncio
    from datetime import UTC, datetime

    from transom.cli.findings import print_findings
    from transom.controllers.fleet.adoption import candidates
    from transom.kube.client import Client
    from transom.kube.connection import connect
    from transom.kube.errors import ApiError, ConfigurationError
    from transom.sources.api_server import load
    from transom.sources.examination import examine

    async def run() -> "list[Candidate]":
        connection = connect(context=context)
        try:
            client = Client(connection)
            objects = await load(client, namespace)
            examined = examine(objects, datetime.now(UTC), connection.server)
            if examined.errors:
                print_findings(examined.errors, sys.stderr)
                fail("the settings in the cluster are invalid")
            return await candidates(client, objects, examined.settings, hand_over=yes, drop_values=drop_values)
        finally:
            await connection.close()

    try:
        return asyncio.run(run())
    except ConfigurationError as error:
        fail(str(error))
    except ApiError as error:
        fail(str(error), ExitCode.NOT_DONE)
