"""`transom status`: what is where in a cluster, and what waits and why; what is not ready comes first."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from transom.cli.cluster import ClusterOptions, ask, place
from transom.cli.options import Output, grouped
from transom.cli.output import ExitCode, Format, columns_of, fail, print_data, print_lines, tell
from transom.cli.status_table import ObjectStatus, as_counted, group, lines

if TYPE_CHECKING:
    from transom.kube.client import Client
    from transom.kube.objects import Whole
    from transom.kube.resources import Resource

_EVERY: Final = 2.0
"""Seconds between two looks of `--watch`."""


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
            clock = time.strftime("%H:%M:%S ")
            print_lines(*lines(group(one for key, one in now.items() if told.get(key) != one), columns_of(sys.stdout), clock))
            print_lines(*(f"{clock} {kind}/{name}: gone" for kind, _, name in sorted(told.keys() - now.keys(), key=str)))
            sys.stdout.flush()
            told = now
            await asyncio.sleep(_EVERY)

    if watch:
        try:
            ask(cluster, follow)
        except KeyboardInterrupt:
            raise SystemExit(ExitCode.INTERRUPTED) from None
    found = ask(cluster, look)
    if output is not Format.TEXT:
        print_data(found, output)
        return
    print_lines(*lines(group(found.objects), columns_of(sys.stdout)))
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
    found.sort(key=lambda one: (one.ready == "True", one.kind, as_counted(one.name)))
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
