"""What the Windows Machine Config Operator keeps in a cluster, and what of it Transom would take over.

Its objects are those of github.com/openshift/windows-machine-config-operator: the Secret `cloud-private-key`, the ConfigMaps
`windows-instances` and `windows-services-<version>` in its namespace, annotations on Nodes. Handing over writes objects alone;
no host is connected to.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from transom.controllers.runtime.cached import ADOPT, MANAGED_BY_WMCO
from transom.controllers.runtime.machine_api import MACHINES
from transom.controllers.userdata import PRIVATE_KEY
from transom.kube.client import Client
from transom.kube.errors import NotFound
from transom.kube.objects import Whole
from transom.kube.resources import CONFIG_MAPS, NODES, SECRETS, Resource
from transom.proxy.settings import Egress
from transom.windows.nodes.instance import KEY
from transom.windows.nodes.inventory import CONFIG_MAP, OS_ID, InventoryEntry, from_config_map, from_machine, machine_addresses

NAMESPACE: Final = "openshift-windows-machine-config-operator"
OPERATOR: Final = "windows-machine-config-operator"
SERVICES: Final = "windows-services-"
DESIRED: Final = "windowsmachineconfig.openshift.io/desired-version"
"""Without it the daemon of the operator on a host does nothing (pkg/daemon/controller, Reconcile)."""
_DEPLOYMENTS: Final = Resource("apps", "v1", "Deployment", "deployments", True, Whole)
_MACHINES: Final = Resource(MACHINES.group, MACHINES.version, MACHINES.kind, MACHINES.plural, True, Whole)
_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
Result = Literal["to take over", "taken over", "there already", "read", "kept"]


class PeerLeftover(msgspec.Struct, frozen=True):
    """An object of the peer. `result` is what becomes of it, `detail` more on that, without any value."""

    kind: str
    namespace: str
    name: str
    result: Result
    detail: str = ""


async def candidates(
    client: Client, namespace: str, peer: str, egress: Egress | None, *, hand_over: bool
) -> list[PeerLeftover]:
    """What the operator in namespace `peer` has; with `hand_over`, Transom in `namespace` gets it. Raises ApiError.

    Nothing is handed over while the operator runs: it would go on to work on the hosts.
    """
    running = await _running(client, peer)
    taking = _Taking(client, namespace, peer, egress, hand_over=hand_over and not running)
    found = [PeerLeftover("Deployment", peer, OPERATOR, "kept", _STOP)] if running else []
    return [*found, *(await taking.found())]


_STOP: Final = "it runs: stop it first (delete its Subscription and ClusterServiceVersion, or scale it to 0)"


async def _running(client: Client, peer: str) -> bool:
    try:
        cached = (await client.get(_DEPLOYMENTS, OPERATOR, peer)).value
    except NotFound:
        return False
    return bool((cached.get("spec") or {}).get("replicas", 1))


class _Taking:
    """The objects one after the other: what makes an instance comes before the annotation that lets it be worked on."""

    def __init__(self, client: Client, namespace: str, peer: str, egress: Egress | None, *, hand_over: bool) -> None:
        self._client, self._namespace, self._peer, self._egress = client, namespace, peer, egress
        self._hand_over = hand_over
        self._done: Result = "taken over" if hand_over else "to take over"

    async def found(self) -> list[PeerLeftover]:
        entries = await self._data(self._peer, CONFIG_MAPS, CONFIG_MAP)
        machines = await self._machines()
        found = [
            *(await self._copied(SECRETS, PRIVATE_KEY, (KEY,))),
            *(await self._copied(CONFIG_MAPS, CONFIG_MAP, tuple(entries))),
        ]
        for node in (await self._client.list_objects(NODES, labels="node.openshift.io/os_id=Windows")).items:
            annotations = node.metadata.annotations or {}
            if MANAGED_BY_WMCO in annotations:
                found.append(await self._node(node, _reached(node.value, entries, machines)))
        return [*found, *(await self._services())]

    async def _data(self, namespace: str, resource: Resource[Whole], name: str) -> dict[str, str]:
        try:
            return dict((await self._client.get(resource, name, namespace)).value.get("data") or {})
        except NotFound:
            return {}

    async def _machines(self) -> list[dict[str, Any]]:
        try:
            return [one.value for one in (await self._client.list_objects(_MACHINES, labels=f"{OS_ID}=Windows")).items]
        except NotFound:
            # there is no Machine API here
            return []

    async def _copied(self, resource: Resource[Whole], name: str, fields: tuple[str, ...]) -> list[PeerLeftover]:
        """The fields of an object of the peer's that are missing in Transom's object of that name."""
        theirs = await self._data(self._peer, resource, name)
        ours = await self._data(self._namespace, resource, name)
        given = {field: theirs[field] for field in fields if field in theirs}
        if not given:
            return []
        missing = {field: value for field, value in given.items() if field not in ours}
        others = sorted(field for field, value in given.items() if field in ours and ours[field] != value)
        if missing and self._hand_over:
            value = {"metadata": {"name": name, "namespace": self._namespace}, "data": ours | missing}
            if ours:
                await self._client.patch(resource, {"data": missing}, name, self._namespace)
            else:
                made = {"apiVersion": resource.api_version, "kind": resource.kind, **value}
                await self._client.server_side_apply(resource, made, name, self._namespace, force=False)
        detail = f"into namespace {self._namespace}"
        if others:
            detail = f"{', '.join(others)} is another one in namespace {self._namespace}, and stays"
        result: Result = self._done if missing else "kept" if others else "there already"
        return [PeerLeftover(resource.kind, self._peer, name, result, detail)]

    async def _node(self, node: Whole, reached: str) -> PeerLeftover:
        annotations = node.metadata.annotations or {}
        name, version = node.metadata.name, annotations[MANAGED_BY_WMCO]
        if not reached:
            why = f"set up by version {version}; neither {CONFIG_MAP} nor a Machine says how its host is reached"
            return PeerLeftover("Node", "", name, "kept", why)
        detail = f"set up by version {version}; {reached}"
        if annotations.get(ADOPT) == "true" and DESIRED not in annotations:
            return PeerLeftover("Node", "", name, "there already", detail)
        if self._hand_over:
            change = {"metadata": {"uid": node.metadata.uid, "annotations": {ADOPT: "true", DESIRED: None}}}
            await self._client.patch(NODES, change, name)
        return PeerLeftover("Node", "", name, self._done, detail)

    async def _services(self) -> list[PeerLeftover]:
        found = []
        for cached in (await self._client.list_objects(CONFIG_MAPS, self._peer)).items:
            if cached.metadata.name.startswith(SERVICES):
                data = cached.value.get("data") or {}
                detail = "; ".join(_told(data, self._egress))
                found.append(PeerLeftover("ConfigMap", self._peer, cached.metadata.name, "read", detail))
        return found


def _reached(node: Mapping[str, Any], entries: Mapping[str, str], machines: Iterable[Mapping[str, Any]]) -> str:
    """By what Transom makes an instance for the host of a Node; empty where there is nothing."""
    name = node["metadata"]["name"]
    addresses = {one.get("address", "").casefold() for one in (node.get("status") or {}).get("addresses") or ()} | {name}
    for machine in machines:
        reference = (machine.get("status") or {}).get("nodeRef") or {}
        known = {one.casefold() for one in machine_addresses(machine)}
        if (reference.get("name") == name or known & addresses) and isinstance(made := from_machine(machine), InventoryEntry):
            return f"Machine {made.origin}"
    for made in from_config_map(entries):
        if isinstance(made, InventoryEntry) and str(made.spec["address"]).casefold() in addresses:
            return f"{CONFIG_MAP}, {made.origin}"
    return ""


def _told(data: Mapping[str, str], egress: Egress | None) -> Iterator[str]:
    """What a ConfigMap with services says, beside the settings that Transom has."""
    services = _json(data.get("services"), list)
    if names := [str(one.get("name")) for one in services if isinstance(one, dict)]:
        yield f"services {', '.join(names)} stay as they are"
    given = _json(data.get("environmentVars"), dict)
    wanted = egress.variables if egress is not None else {}
    differing = [name for name in _VARIABLES if given.get(name, "") != wanted.get(name, "")]
    if egress is None:
        yield "the settings of Transom are not valid"
    elif differing:
        yield f"{', '.join(differing)} will be another one by Transom's settings: the first pass restarts the services once"
    elif given:
        yield f"{', '.join(name for name in _VARIABLES if name in given)} as the settings say: nothing is restarted"


def _json(text: str | None, kind: type[Any]) -> Any:
    try:
        found = json.loads(text or "null")
    except ValueError:
        found = None
    return found if isinstance(found, kind) else kind()
