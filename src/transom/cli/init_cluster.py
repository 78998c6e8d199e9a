"""What `transom init --from-cluster` reads: the cluster's networks, as the operator does, and its Windows Nodes."""

from typing import TYPE_CHECKING, Any

import msgspec

from transom.cli.cluster import ClusterOptions, describe_server, run_with_client
from transom.cli.init_answers import HostAnswer
from transom.cli.messages import print_to_stderr

if TYPE_CHECKING:
    from transom.controllers.runtime.cached_objects import HostNode
    from transom.kube.client import Client


class ClusterAnswers(msgspec.Struct, frozen=True):
    """What a cluster says: `networks` as fields of `spec.networks`, and its Windows Nodes as hosts."""

    networks: dict[str, Any]
    hosts: list[HostAnswer]


def read_cluster(cluster: ClusterOptions) -> ClusterAnswers:
    """Read answers from the cluster. Values that are missing or forbidden are reported on stderr."""

    async def read(client: "Client") -> ClusterAnswers:
        networks = await _read_networks(client)
        return ClusterAnswers(networks, await _list_hosts(client))

    return run_with_client(cluster, read)


async def _read_networks(client: "Client") -> dict[str, Any]:
    from transom.proxy.networks import resolve_own_networks
    from transom.sources.api_server import load_networks

    objects, unread = await load_networks(client)
    networks = resolve_own_networks(objects, None, client.connection.server)
    host = networks.internal_api_host
    if host is not None and _is_loopback(host):
        print_to_stderr(f"transom: {host}: other machines cannot reach the API server by this name: name it with --api-host")
        host = None
    listed = {
        "machineNetwork": list(networks.machine_network),
        "serviceNetwork": list(networks.service_network),
        "podNetwork": list(networks.pod_network),
    }
    known: dict[str, Any] = {field: cidrs for field, cidrs in listed.items() if cidrs}
    if host is not None:
        known["internalAPIHost"] = host
    if networks.dns_domain not in (None, "cluster.local"):
        known["dnsDomain"] = networks.dns_domain
    summary = ", ".join(f"{field} {' '.join(value) if isinstance(value, list) else value}" for field, value in known.items())
    print_to_stderr(f"transom: {describe_server(client.connection)}: {summary or 'says nothing about its networks'}")
    for item in unread:
        print_to_stderr(f"transom: you may not read {item}: what it says is left out")
    return known


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


async def _list_hosts(client: "Client") -> list[HostAnswer]:
    from transom.controllers.runtime.cached_objects import NODES
    from transom.kube.errors import StatusError

    try:
        nodes = (await client.list_objects(NODES, labels="kubernetes.io/os=windows")).items
    except StatusError as error:
        if error.code != 403:
            raise
        print_to_stderr("transom: you may not read Nodes: name the hosts yourself")
        return []
    hosts = []
    for node in nodes:
        if node.is_managed_by_other:
            print_to_stderr(
                f"transom: Node {node.metadata.name} is left out: another operator manages it (transom adopt takes it over)"
            )
        elif (address := _find_address(node)) is not None:
            hosts.append(HostAnswer(address, name=node.metadata.name))
    return hosts


def _find_address(node: "HostNode") -> str | None:
    """Return the address by which the Node is reached: an internal one, else what comes first."""
    from transom.windows.nodes.windows_instance import is_address

    listed = (node.status.addresses if node.status else None) or []
    ordered = sorted(listed, key=lambda item: item.type != "InternalIP")
    return next((item.address for item in ordered if item.address and is_address(item.address)), None)
