"""What the Windows Machine Config Operator keeps in a cluster, and what of it Transom would take over.

Its objects are those of github.com/openshift/windows-machine-config-operator: the Secret `cloud-private-key`, the ConfigMaps
`windows-instances` and `windows-services-<version>` in its namespace, annotations on Nodes. Handing over writes objects alone;
no host is connected to.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from transom.controllers.runtime.cached_objects import ADOPT, MANAGED_BY_WMCO, TAKE_OVER
from transom.controllers.runtime.informers import MACHINES
from transom.controllers.userdata.controller import PRIVATE_KEY
from transom.kube.client import Client
from transom.kube.errors import NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, NODES, SECRETS, Resource
from transom.proxy.settings import Egress
from transom.windows.nodes.inventory import (
    CONFIG_MAP,
    OS_ID,
    InventoryEntry,
    from_config_map,
    from_machine,
    list_machine_addresses,
)
from transom.windows.nodes.windows_instance import KEY, parse_ip_address
from transom.windows.parts.adopted import PEER, UNATTENDED

OPERATOR: Final = "windows-machine-config-operator"
SERVICES: Final = "windows-services-"
_MADE: Final = (
    "containerd",
    "kubelet",
    "hybrid-overlay-node",
    "kube-proxy",
    "csi-proxy",
    "windows_exporter",
    "cloud-node-manager",
)
"""What it makes on hosts, where its own list is gone (pkg/services/services.go, GenerateManifest)."""
DESIRED: Final = "windowsmachineconfig.openshift.io/desired-version"
"""Without it the daemon of the operator on a host does nothing (pkg/daemon/controller, Reconcile)."""
_DEPLOYMENTS: Final = Resource("apps", "v1", "Deployment", "deployments", True, UnstructuredObject)
_MACHINES: Final = Resource(MACHINES.group, MACHINES.version, MACHINES.kind, MACHINES.plural, True, UnstructuredObject)
_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
Result = Literal["to take over", "taken over", "there already", "read", "kept"]


class PeerLeftover(msgspec.Struct, frozen=True):
    """An object of the peer. `result` is what becomes of it, `detail` more on that, without any value."""

    kind: str
    namespace: str
    name: str
    result: Result
    detail: str = ""


async def find_leftovers(
    client: Client,
    namespace: str,
    peer: str,
    egress: Egress | None,
    *,
    hand_over: bool,
    services: bool = False,
    report: Callable[[PeerLeftover], object] = lambda _: None,
) -> list[PeerLeftover]:
    """Find what the operator in namespace `peer` has; with `hand_over`, transfer it to Transom in `namespace`.

    Each object is reported once its result is known.

    With `services` the hosts' services become Transom's, too: those that the operator's own list names.
    Nothing is handed over while the operator runs: it would continue to work on the hosts. Raises ApiError.
    """
    running = await _is_running(client, peer)
    leftovers: list[PeerLeftover] = []

    def note(leftover: PeerLeftover) -> None:
        leftovers.append(leftover)
        report(leftover)

    if running:
        note(PeerLeftover("Deployment", peer, OPERATOR, "kept", _STOP))
    taking = _Takeover(client, namespace, peer, egress, note, hand_over=hand_over and not running, services=services)
    await taking.run()
    return leftovers


_STOP: Final = "it runs: stop it first (delete its Subscription and ClusterServiceVersion, or scale it to 0)"


async def _is_running(client: Client, peer: str) -> bool:
    try:
        cached = (await client.get(_DEPLOYMENTS, OPERATOR, peer)).value
    except NotFound:
        return False
    return bool((cached.get("spec") or {}).get("replicas", 1))


class _Takeover:
    """The objects one after the other: what makes an instance comes before the annotation that lets it be worked on."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        peer: str,
        egress: Egress | None,
        note: Callable[[PeerLeftover], None],
        *,
        hand_over: bool,
        services: bool,
    ) -> None:
        self._services, self._note = services, note
        self._client, self._namespace, self._peer, self._egress = client, namespace, peer, egress
        self._hand_over = hand_over
        self._done: Result = "taken over" if hand_over else "to take over"

    async def run(self) -> None:
        """Note each object, and what became of it."""
        entries = await self._read_data(self._peer, CONFIG_MAPS, CONFIG_MAP)
        machines = await self._list_openshift_machines()
        lists = [item for item in (await self._client.list_objects(CONFIG_MAPS, self._peer)).items if _is_service_list(item)]
        named = tuple(dict.fromkeys(name for item in lists for name in _list_services(_get_data(item)))) or _MADE
        taken = named if self._services else ()
        places = await _resolve_names(entries)
        await self._copy(SECRETS, PRIVATE_KEY, (KEY,))
        await self._copy(CONFIG_MAPS, CONFIG_MAP, tuple(entries))
        for node in (await self._client.list_objects(NODES, labels="node.openshift.io/os_id=Windows")).items:
            annotations = node.metadata.annotations or {}
            if MANAGED_BY_WMCO in annotations:
                self._note(await self._take_over_node(node, _find_address(node.value, entries, machines, places), taken))
        for entry in lists:
            self._note(self._build_services_leftover(entry))

    async def _read_data(self, namespace: str, resource: Resource[UnstructuredObject], name: str) -> dict[str, str]:
        try:
            return dict((await self._client.get(resource, name, namespace)).value.get("data") or {})
        except NotFound:
            return {}

    async def _list_openshift_machines(self) -> list[dict[str, Any]]:
        try:
            return [item.value for item in (await self._client.list_objects(_MACHINES, labels=f"{OS_ID}=Windows")).items]
        except NotFound:
            # there is no Machine API here
            return []

    async def _copy(self, resource: Resource[UnstructuredObject], name: str, fields: tuple[str, ...]) -> None:
        """Copy the fields of an object of the peer's that are missing in Transom's object of that name."""
        theirs = await self._read_data(self._peer, resource, name)
        ours = await self._read_data(self._namespace, resource, name)
        values = {field: theirs[field] for field in fields if field in theirs}
        if not values:
            return
        missing = {field: value for field, value in values.items() if field not in ours}
        others = sorted(field for field, value in values.items() if field in ours and ours[field] != value)
        if missing and self._hand_over:
            value = {"metadata": {"name": name, "namespace": self._namespace}, "data": ours | missing}
            if ours:
                await self._client.patch(resource, {"data": missing}, name, self._namespace)
            else:
                made = {"apiVersion": resource.api_version, "kind": resource.kind, **value}
                await self._client.apply(resource, made, name, self._namespace, force=False)
        detail = f"into namespace {self._namespace}"
        if others:
            detail = f"{', '.join(others)} is another one in namespace {self._namespace}, and stays"
        result: Result = self._done if missing else "kept" if others else "there already"
        self._note(PeerLeftover(resource.kind, self._peer, name, result, detail))

    async def _take_over_node(self, node: UnstructuredObject, reached: str, taken: tuple[str, ...]) -> PeerLeftover:
        annotations = node.metadata.annotations or {}
        name, version = node.metadata.name, annotations[MANAGED_BY_WMCO]
        if not reached:
            why = f"set up by version {version}; neither {CONFIG_MAP} nor a Machine says how its host is reached"
            return PeerLeftover("Node", "", name, "kept", why)
        detail = f"set up by version {version}; {reached}"
        change: dict[str, str | None] = {ADOPT: "true", DESIRED: None} | ({TAKE_OVER: ",".join(taken)} if taken else {})
        if all(annotations.get(field) == text for field, text in change.items()):
            return PeerLeftover("Node", "", name, "there already", detail)
        if self._hand_over:
            metadata = {"uid": node.metadata.uid, "annotations": change}
            await self._client.patch(NODES, {"metadata": metadata}, name)
        return PeerLeftover("Node", "", name, self._done, detail)

    def _build_services_leftover(self, config_map: UnstructuredObject) -> PeerLeftover:
        detail = "; ".join(_iter_notes(_get_data(config_map), self._egress, is_taken_over=self._services))
        return PeerLeftover("ConfigMap", self._peer, config_map.metadata.name, "read", detail)


def _is_service_list(config_map: UnstructuredObject) -> bool:
    return config_map.metadata.name.startswith(SERVICES)


def _get_data(config_map: UnstructuredObject) -> Mapping[str, str]:
    return dict(config_map.value.get("data") or {})


async def _resolve_names(entries: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Return the IP addresses of entries that are DNS names, as far as they resolve here."""
    loop, addresses = asyncio.get_running_loop(), {}
    for made in from_config_map(entries):
        place = str(made.spec["address"]) if isinstance(made, InventoryEntry) else ""
        if place and parse_ip_address(place) is None:
            with contextlib.suppress(OSError):
                answers = await loop.getaddrinfo(place, None, type=socket.SOCK_STREAM)
                known = (parse_ip_address(str(answer[4][0])) for answer in answers)
                addresses[place] = frozenset(item for item in known if item is not None)
    return addresses


def _find_address(
    node: Mapping[str, Any],
    entries: Mapping[str, str],
    machines: Iterable[Mapping[str, Any]],
    addresses_by_name: Mapping[str, frozenset[str]],
) -> str:
    """Find the object from which Transom creates an instance for the host of a Node; empty if none exists.

    `addresses_by_name` are the IP addresses of entries by name; a name that is not known here leads to the Node that has its
    first label.
    """
    name = node["metadata"]["name"]
    addresses = {item.get("address", "").casefold() for item in (node.get("status") or {}).get("addresses") or ()} | {name}
    for machine in machines:
        reference = (machine.get("status") or {}).get("nodeRef") or {}
        known = {machine_address.casefold() for machine_address in list_machine_addresses(machine)}
        if (reference.get("name") == name or known & addresses) and isinstance(made := from_machine(machine), InventoryEntry):
            return f"Machine {made.origin}"
    for made in from_config_map(entries):
        if not isinstance(made, InventoryEntry):
            continue
        place = str(made.spec["address"]).casefold()
        reached = addresses_by_name.get(place)
        label = "" if reached is not None or parse_ip_address(place) is not None else place.partition(".")[0]
        if ({place, label, str(made.spec.get("nodeName", "")).casefold(), *(reached or ())} - {""}) & addresses:
            return f"{CONFIG_MAP}, {made.origin}"
    return ""


def _list_services(data: Mapping[str, str]) -> list[str]:
    """Return the services of a list."""
    return [str(item.get("name")) for item in _parse_json(data.get("services"), list) if isinstance(item, dict)]


def _iter_notes(data: Mapping[str, str], egress: Egress | None, *, is_taken_over: bool) -> Iterator[str]:
    """Iterate over notes on a ConfigMap with services that go beyond Transom's settings."""
    named = ", ".join(_list_services(data))
    if named and is_taken_over:
        yield (
            f"services {named} become Transom's where its payload has them: each Node is drained once, and they restart "
            "with the payload's programs; they are kept and upgraded from then on, and removed with the WindowsInstance"
        )
    elif named:
        yield (
            f"services {named} stay unchanged: without --services, Transom does not manage {', '.join(UNATTENDED)} "
            "of these nodes"
        )
    if named:
        yield f"service {PEER} stays on the hosts but does nothing: remove it with `sc.exe delete`"
    variables = _parse_json(data.get("environmentVars"), dict)
    wanted = egress.variables if egress is not None else {}
    differing = [name for name in _VARIABLES if variables.get(name, "") != wanted.get(name, "")]
    if egress is None:
        yield "the settings of Transom are not valid"
    elif differing:
        yield f"{', '.join(differing)} will be another one by Transom's settings: the first pass restarts the services once"
    elif variables:
        yield f"{', '.join(name for name in _VARIABLES if name in variables)} as the settings say: nothing is restarted"


def _parse_json(text: str | None, kind: type[Any]) -> Any:
    try:
        value = json.loads(text or "null")
    except ValueError:
        value = None
    return value if isinstance(value, kind) else kind()
