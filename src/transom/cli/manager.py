"""Whose hosts a command works on: a person's of files, or the operator's whose objects it reads; and which are others'."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from transom.apply import HostReport, Report
from transom.apply.target import Target, report_of
from transom.cli.cluster import ask
from transom.cli.findings import Source
from transom.windows.ledger import FILES, Manager

if TYPE_CHECKING:
    from transom.controllers.runtime.cached import HostNode
    from transom.kube.client import Client


def manager_of(source: Source, *, adopts: bool = False) -> Manager:
    """The manager whose hosts these are: with the operator's own objects it is the operator."""
    if source.filename:
        return Manager(FILES, adopts=adopts)

    async def read(client: "Client") -> str:
        from transom.hosts.owner import operator
        from transom.kube import NotFound
        from transom.kube.resources import NAMESPACES

        try:
            found = await client.get(NAMESPACES, source.own)
        except NotFound:
            return ""
        return operator(source.own, found.metadata.uid).manager if found.metadata.uid else ""

    return Manager(ask(source, read), adopts=adopts)


def pause(targets: Sequence[Target], source: Source) -> None:
    """Pause the operator's instances of these hosts: it connects to none of them any more."""

    async def paused(client: "Client") -> None:
        from transom.cli.output import tell
        from transom.kube.resources import WINDOWS_INSTANCES

        places = {(target.instance.spec.address.casefold(), target.instance.spec.port) for target in targets}
        for one in (await client.list_objects(WINDOWS_INSTANCES, source.own)).items:
            spec = one.value.get("spec") or {}
            if (str(spec.get("address", "")).casefold(), spec.get("port", 22)) in places and not spec.get("paused"):
                await client.patch(WINDOWS_INSTANCES, {"spec": {"paused": True}}, one.metadata.name, source.own)
                tell(f"transom: WindowsInstance {one.metadata.name} is paused: its operator leaves the host alone")

    ask(source, paused)


def worked_on(targets: Sequence[Target], source: Source, work: Callable[[list[Target]], Report]) -> Report:
    """The report on all hosts: what `work` says, and why it is not asked about those whose Node another operator manages.

    Files tell of no Nodes.
    """
    left = {} if source.filename else _left(targets, source)
    report = work([target for target in targets if target.instance.place.object not in left])
    done = iter(report.hosts)
    return Report(tuple(left.get(target.instance.place.object) or next(done) for target in targets), report.stopped)


def _left(targets: Sequence[Target], source: Source) -> dict[str, HostReport]:
    import msgspec

    from transom.controllers.instance.view import managed_message
    from transom.hosts.passes import PassResult
    from transom.windows.nodes import address

    found = {}
    nodes = ask(source, _managed_by_others)
    for target in targets:
        spec = target.instance.spec
        own = {address(text) for text in (spec.address, spec.node_ip) if text} - {None}
        for node in nodes:
            # here nobody has connected: a name that other names lead to is compared as it is
            at = not spec.node_name and (own & node.ips or spec.address.casefold() in node.addresses)
            if node.metadata.name == spec.node_name or at:
                report = report_of(target, PassResult())
                left = msgspec.structs.replace(report, result="skipped", error=f"not connected to: {managed_message(node)}")
                found[target.instance.place.object] = left
    return found


async def _managed_by_others(client: "Client") -> "list[HostNode]":
    from transom.controllers.runtime.cached import NODES

    listing = await client.list_objects(NODES, labels="kubernetes.io/os=windows")
    return [node for node in listing.items if node.managed_by_other]
