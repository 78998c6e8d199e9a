"""`transom status host NAME`: reads and prints the state of one host."""

from collections.abc import Iterator
from datetime import UTC, datetime

from transom.apply.target import list_targets
from transom.cli.cluster import describe_server
from transom.cli.findings import Source, examine_or_fail
from transom.cli.host_names import format_names
from transom.cli.host_records import HostRecords, read_recorded_details
from transom.cli.observation import LEASES, ListQuery, build_observed, run_queries
from transom.cli.output import ExitCode, fail, wrap_line
from transom.cli.state import create_directory
from transom.common.mappings import get_nested_value
from transom.common.timestamps import parse_timestamp
from transom.diagnosis.fields import format_age, get_name
from transom.diagnosis.host_details import HostDetails, HostSettings, build_host_details
from transom.diagnosis.snapshot import ClusterSnapshot
from transom.kube.client import Client
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import EGRESS_PROXIES, NODES, WINDOWS_INSTANCES, Resource

_EVENTS = Resource("", "v1", "Event", "events", True, UnstructuredObject)


async def read_cluster_details(client: Client, namespace: str, name: str) -> HostDetails:
    """Return the details of a host of a cluster; end the command if no host has this name. Raises ApiError."""
    events = f"involvedObject.kind=WindowsInstance,involvedObject.name={name}"
    queries = (
        ListQuery(EGRESS_PROXIES),
        ListQuery(WINDOWS_INSTANCES, namespace),
        ListQuery(LEASES, namespace, fields="metadata.name=transom"),
        ListQuery(_EVENTS, namespace, fields=events),
    )
    server = describe_server(client.connection)
    seen = build_observed(await run_queries(client, queries), server, namespace, datetime.now(UTC))
    hosts = {get_name(obj): obj for obj in seen.list_objects("WindowsInstance")}
    if name not in hosts:
        for item in seen.unread:
            if item.what.startswith(WINDOWS_INSTANCES.plural):
                fail(f"{server}: {item.what}: {item.why}: ask for this right, or name another --context", ExitCode.NOT_DONE)
        fail(
            f"{server}: no WindowsInstance {name} in namespace {namespace}; there {format_names(list(hosts))}",
            ExitCode.NOT_DONE,
        )
    return build_host_details(await _with_node(client, seen, get_nested_value(hosts[name], "status", "nodeName")), hosts[name])


async def _with_node(client: Client, snapshot: ClusterSnapshot, node: str | None) -> ClusterSnapshot:
    """With the Node of that name, where it may be read."""
    import msgspec

    if not node:
        return snapshot
    node_answers = await run_queries(client, (ListQuery(NODES, fields=f"metadata.name={node}"),), required=False)
    return msgspec.structs.replace(
        snapshot, objects={**snapshot.objects, **node_answers.objects}, unread=(*snapshot.unread, *node_answers.unread)
    )


def read_directory_details(source: Source, name: str) -> HostDetails:
    """Return the details of a host of manifests, as last known on this machine."""
    objects, examined = examine_or_fail(source)
    targets = {target.instance.name: target for target in list_targets(objects, examined.settings, ssh_config=True)}
    if name not in targets:
        fail(f"no WindowsInstance {name} in {' '.join(source.filename or ())}; there {format_names(list(targets))}")
    return read_recorded_details(targets[name], source, HostRecords(create_directory()))


def iter_detail_lines(story: HostDetails, columns: int | None) -> Iterator[str]:
    """Iterate over the lines of the details."""
    now, host = datetime.now(UTC), story.host
    yield f"{host.kind}/{host.name}  {host.address or ''}  lifecycle {story.lifecycle}" + (
        f"  (made from {story.origin})" if story.origin else ""
    )
    since = f" for {format_age(now, parse_timestamp(host.since))}" if parse_timestamp(host.since) else ""
    yield from _iter_item_lines(
        "State", f"{host.state}: {host.reason}{since}" + (f": {host.message}" if host.message else ""), columns
    )
    if host.next:
        yield from _iter_item_lines("Next", host.next, columns)
    if host.page:
        yield from _iter_item_lines("See", host.page, columns)
    for wait in story.waits:
        yield from _iter_item_lines("Waits for", wait, columns)
    if story.settings is not None:
        for line in _iter_settings_lines(story.settings):
            yield from _iter_item_lines("Settings", line, columns)
    if story.node is not None:
        node = story.node
        words = [f"Ready {node.ready}" if node.ready else "not read", node.version, "cordoned" if node.cordoned else ""]
        yield from _iter_item_lines("Node", f"{node.name}: {', '.join(filter(None, words))}", columns)
    for words_, value in story.facts.items():
        yield from _iter_item_lines("Known", f"{words_} {value}", columns)
    for kind, state in story.changes.items():
        yield from _iter_item_lines("Change", f"{kind}: {state}", columns)
    for condition in story.conditions:
        line = (
            f"{condition.type}={condition.status}  {condition.reason}  "
            f"{format_age(now, parse_timestamp(condition.since))}  {condition.message}"
        )
        yield from _iter_item_lines("Condition", line, columns)
    for event in story.events:
        times = f" (x{event.count})" if event.count > 1 else ""
        yield from _iter_item_lines(
            "Event", f"{format_age(now, parse_timestamp(event.at))} ago  {event.reason}: {event.message}{times}", columns
        )
    for missing in story.unread:
        yield from _iter_item_lines("Not read", f"{missing.what}: {missing.why}", columns)


def _iter_settings_lines(host_settings: HostSettings) -> Iterator[str]:
    yield f"{host_settings.source}: {host_settings.why}"
    for name, value in (
        ("HTTP_PROXY", host_settings.http_proxy),
        ("HTTPS_PROXY", host_settings.https_proxy),
        ("NO_PROXY", host_settings.no_proxy),
    ):
        if value:
            yield f"{name} {value}"
    if host_settings.certificates:
        yield f"{host_settings.certificates} trusted certificate{'s' * (host_settings.certificates != 1)}"
    if host_settings.services:
        yield f"for the services {', '.join(host_settings.services)}; restart {host_settings.restart}"
    if host_settings.current is not None:
        yield (
            "the host was last judged by these"
            if host_settings.current
            else "the host was last judged by others: these come to it yet"
        )


def _iter_item_lines(heading: str, text: str, columns: int | None) -> Iterator[str]:
    first, *rest = wrap_line(text, None if columns is None else columns - 11)
    yield f"{heading:<10} {first}"
    yield from (f"{'':<10} {line.strip()}" for line in rest)
