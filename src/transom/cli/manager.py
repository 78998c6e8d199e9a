"""Whose hosts a command works on: a person's of files, or the operator's whose objects it reads; and which are others'."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from transom.apply.report import HostReport, build_host_report
from transom.apply.target import Target
from transom.cli.cluster import run_with_client
from transom.cli.findings import Source
from transom.windows.ledger import FILES, Manager

if TYPE_CHECKING:
    from transom.controllers.runtime.cached_objects import HostNode
    from transom.kube.client import Client


def find_manager(source: Source, *, adopts: bool = False) -> Manager:
    """Return the manager of these hosts: the operator, if its own objects are read."""
    if source.filename:
        return Manager(FILES, adopts=adopts)

    async def read(client: "Client") -> str:
        from transom.hosts.owner import build_operator_owner
        from transom.kube.errors import NotFound
        from transom.kube.resources import NAMESPACES

        try:
            namespace = await client.get(NAMESPACES, source.effective_namespace)
        except NotFound:
            return ""
        return (
            build_operator_owner(source.effective_namespace, namespace.metadata.uid).manager if namespace.metadata.uid else ""
        )

    return Manager(run_with_client(source, read), adopts=adopts)


def pause_instances(targets: Sequence[Target], source: Source) -> None:
    """Pause the operator's instances of these hosts: it connects to none of them any more."""

    async def set_paused(client: "Client") -> None:
        from transom.cli.messages import print_to_stderr
        from transom.kube.resources import WINDOWS_INSTANCES

        places = {(target.instance.spec.address.casefold(), target.instance.spec.port) for target in targets}
        for item in (await client.list_objects(WINDOWS_INSTANCES, source.effective_namespace)).items:
            spec = item.value.get("spec") or {}
            if (str(spec.get("address", "")).casefold(), spec.get("port", 22)) in places and not spec.get("paused"):
                await client.patch(
                    WINDOWS_INSTANCES, {"spec": {"paused": True}}, item.metadata.name, source.effective_namespace
                )
                print_to_stderr(f"transom: WindowsInstance {item.metadata.name} is paused: its operator leaves the host alone")

    run_with_client(source, set_paused)


def find_foreign_hosts(targets: Sequence[Target], source: Source) -> dict[str, HostReport]:
    """Return the reports of the hosts whose Node another operator manages, by the object of their instance.

    The source of a directory has no Nodes, so it skips no host.
    """
    if source.filename:
        return {}
    import msgspec

    from transom.controllers.instance_state.view import format_managed_message
    from transom.hosts.passes.base_pass import PassResult
    from transom.windows.nodes.windows_instance import parse_ip_address

    skipped = {}
    nodes = run_with_client(source, _list_foreign_nodes)
    for target in targets:
        spec = target.instance.spec
        own = {parse_ip_address(text) for text in (spec.address, spec.node_ip) if text} - {None}
        for node in nodes:
            # not connected yet: names are compared without resolving them
            at = not spec.node_name and (own & node.ips or spec.address.casefold() in node.addresses)
            if node.metadata.name == spec.node_name or at:
                report = build_host_report(target, PassResult())
                message = f"not connected to: {format_managed_message(node)}"
                skipped[target.instance.place.object] = msgspec.structs.replace(report, result="skipped", error=message)
    return skipped


async def _list_foreign_nodes(client: "Client") -> "list[HostNode]":
    from transom.controllers.runtime.cached_objects import NODES

    listing = await client.list_objects(NODES, labels="kubernetes.io/os=windows")
    return [node for node in listing.items if node.is_managed_by_other]
