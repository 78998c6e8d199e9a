"""`transom status`: what is where in a cluster, and what waits and why; what is not ready comes first."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from transom.cli.cluster import ClusterOptions, ask, place
from transom.cli.options import Output, grouped
from transom.cli.output import Format, fail, print_data, print_lines, tell

if TYPE_CHECKING:
    from transom.kube.client import Client
    from transom.kube.objects import Whole
    from transom.kube.resources import Resource

_EVERY: Final = 2.0
"""Seconds between two looks of `--watch`."""
INTERRUPTED: Final = 130


class ObjectStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One EgressProxy or WindowsInstance. `ready`: `True`, `False` or `Unknown`; of a host `address`, of settings the rest."""

    kind: str
    namespace: str | None
    name: str
    ready: str
    reason: str
    message: str
    address: str | None = None
    settings: str | None = None
    hosts: dict[str, int] = {}
    earliest_expiry: str | None = None


class ClusterStatus(msgspec.Struct, frozen=True):
    """All of them, and the server that was asked."""

    server: str
    objects: tuple[ObjectStatus, ...]


@grouped
def status(
    cluster: ClusterOptions,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Also WindowsInstances of namespaces that nobody looks at.")
    ] = False,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="LABELS", help="Only WindowsInstances with these labels: env=prod.")
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on, and tell what changes, until Ctrl-C.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Say what is where, and what waits and why.

    The settings and the hosts of a cluster by their condition Ready, what is not ready first. Where no operator works, `transom
    diff` says it of the hosts themselves.
    """
    if watch and output is not Format.TEXT:
        fail("--watch is for text: `kubectl get windowsinstances -A -w -o json` gives objects")
    namespace = None if all_namespaces else cluster.own

    async def look(client: "Client") -> ClusterStatus:
        return await _look(client, namespace, selector)

    async def follow(client: "Client") -> None:
        import asyncio

        told: dict[tuple[str, str | None, str], ObjectStatus] = {}
        while True:
            now = {(one.kind, one.namespace, one.name): one for one in (await _look(client, namespace, selector)).objects}
            print_lines(*_lines([one for key, one in now.items() if told.get(key) != one]))
            print_lines(*(f"{kind}/{name}: gone" for kind, _, name in told.keys() - now.keys()))
            told = now
            await asyncio.sleep(_EVERY)

    if watch:
        try:
            ask(cluster, follow)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
    found = ask(cluster, look)
    if output is not Format.TEXT:
        print_data(found, output)
        return
    print_lines(*_lines(found.objects))
    if not found.objects:
        tell(f"transom: {found.server}: no EgressProxy, and no WindowsInstance in namespace {cluster.own} (-A: in all)")


async def _look(client: "Client", namespace: str | None, selector: str) -> ClusterStatus:
    from transom.kube.errors import NotFound
    from transom.kube.resources import EGRESS_PROXIES, WINDOWS_INSTANCES
    from transom.sources.api_server import DefinitionsMissing
    from transom.sources.objects import Objects

    async def listed(resource: "Resource[Whole]", where: str | None, labels: str) -> "list[Whole]":
        try:
            return list((await client.list_objects(resource, where, labels=labels)).items)
        except NotFound:
            raise DefinitionsMissing([resource.kind], Objects()) from None

    proxies = await listed(EGRESS_PROXIES, None, "")
    hosts = await listed(WINDOWS_INSTANCES, namespace, selector)
    found = [*(_proxy(one.value) for one in proxies), *(_host(one.value) for one in hosts)]
    # the settings are what hosts wait for: they come first among equals
    found.sort(key=lambda one: (one.ready == "True", one.kind, one.name))
    return ClusterStatus(place(client.connection), tuple(found))


def _proxy(value: dict[str, Any]) -> ObjectStatus:
    status = value.get("status") or {}
    hosts = {str(key): count for key, count in (status.get("hosts") or {}).items() if isinstance(count, int)}
    expiry = (status.get("trustBundle") or {}).get("earliestExpiry")
    return msgspec.structs.replace(
        _ready("EgressProxy", value), settings=status.get("settings"), hosts=hosts, earliest_expiry=expiry
    )


def _host(value: dict[str, Any]) -> ObjectStatus:
    return msgspec.structs.replace(_ready("WindowsInstance", value), address=(value.get("spec") or {}).get("address"))


def _ready(kind: str, value: dict[str, Any]) -> ObjectStatus:
    meta, conditions = value["metadata"], (value.get("status") or {}).get("conditions") or ()
    ready = next((one for one in conditions if one.get("type") == "Ready"), None)
    if ready is None:
        ready = {"status": "Unknown", "reason": "NotSeen", "message": "no operator has looked at it"}
    condition, reason, message = (str(ready.get(field) or "") for field in ("status", "reason", "message"))
    return ObjectStatus(kind, meta.get("namespace"), str(meta["name"]), condition, reason, message)


def _lines(objects: Iterable[ObjectStatus]) -> Iterator[str]:
    rows = [(f"{one.kind}/{one.name}", one.ready, one.reason, _detail(one)) for one in objects]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)]
        yield "  ".join([*cells, row[3]]).rstrip()


def _detail(one: ObjectStatus) -> str:
    """What there is to know beside the reason: of what is ready its address, or its hosts."""
    parts = [one.message] if one.message and one.ready != "True" else []
    if one.hosts:
        counts = ", ".join(f"{count} {name}" for name, count in one.hosts.items() if name != "total" and count)
        parts.append(f"{one.hosts.get('total', 0)} hosts" + (f": {counts}" if counts else ""))
    if one.earliest_expiry:
        parts.append(f"the first CA expires {one.earliest_expiry}")
    if one.address:
        parts.append(one.address)
    return "; ".join(parts)
