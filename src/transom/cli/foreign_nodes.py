"""Hosts whose Node another operator manages: a command that reads the cluster does not connect to them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from transom.controllers.windows.hosts import Target, report_of
from transom.controllers.windows.report import HostReport, Report

if TYPE_CHECKING:
    from transom.controllers.kept import HostNode


def worked_on(
    targets: Sequence[Target], paths: Sequence[str] | None, context: str | None, work: Callable[[list[Target]], Report]
) -> Report:
    """The report on all hosts: what `work` says, and why it is not asked about some. Files (`paths`) tell of no Nodes."""
    left = {} if paths else _left(targets, context)
    done = iter(work([target for target in targets if target.instance.place.object not in left]).hosts)
    return Report(tuple(left.get(target.instance.place.object) or next(done) for target in targets))


def _left(targets: Sequence[Target], context: str | None) -> dict[str, HostReport]:
    import msgspec

    from transom.controllers.windows.case import managed_message
    from transom.hosts.passes import PassResult

    found = {}
    nodes = _managed_by_others(context)
    for target in targets:
        spec = target.instance.spec
        for node in nodes:
            if node.metadata.name == spec.node_name or (not spec.node_name and spec.address.casefold() in node.addresses):
                report = report_of(target, PassResult())
                left = msgspec.structs.replace(report, result="failed", error=f"not connected to: {managed_message(node)}")
                found[target.instance.place.object] = left
    return found


def _managed_by_others(context: str | None) -> "list[HostNode]":
    import asyncio

    from transom.cli.output import ExitCode, fail
    from transom.controllers.kept import NODES
    from transom.kube.client import Client
    from transom.kube.connection import connect
    from transom.kube.errors import ApiError

    async def read() -> "list[HostNode]":
        connection = connect(context=context)
        try:
            listing = await Client(connection).list_objects(NODES, labels="kubernetes.io/os=windows")
            return [node for node in listing.items if node.managed_by_other]
        finally:
            await connection.close()

    try:
        return asyncio.run(read())
    except ApiError as error:
        fail(str(error), ExitCode.NOT_DONE)
