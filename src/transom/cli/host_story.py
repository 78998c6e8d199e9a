"""`transom status host NAME`: the story of one host, read and told."""

from collections.abc import Iterator
from datetime import UTC, datetime

from transom.apply.target import targets_of
from transom.cli.cluster import place
from transom.cli.findings import Source, examine_or_fail
from transom.cli.hosts import named
from transom.cli.last_known import LastKnown, directory_story
from transom.cli.observation import LEASES, Asked, answers, observed
from transom.cli.output import ExitCode, broken, fail
from transom.cli.state import directory
from transom.diagnosis import Observed
from transom.diagnosis.fields import age, at, moment, name_of
from transom.diagnosis.story import HostSettings, Story, story
from transom.kube.client import Client
from transom.kube.objects import Whole
from transom.kube.resources import EGRESS_PROXIES, NODES, WINDOWS_INSTANCES, Resource

_EVENTS = Resource("", "v1", "Event", "events", True, Whole)


async def of_cluster(client: Client, namespace: str, name: str) -> Story:
    """The story of a host of a cluster; ends the command where there is none of this name. Raises ApiError."""
    events = f"involvedObject.kind=WindowsInstance,involvedObject.name={name}"
    asked = (
        Asked(EGRESS_PROXIES),
        Asked(WINDOWS_INSTANCES, namespace),
        Asked(LEASES, namespace, fields="metadata.name=transom"),
        Asked(_EVENTS, namespace, fields=events),
    )
    server = place(client.connection)
    seen = observed(await answers(client, asked), server, namespace, datetime.now(UTC))
    hosts = {name_of(one): one for one in seen.of("WindowsInstance")}
    if name not in hosts:
        for one in seen.unread:
            if one.what.startswith(WINDOWS_INSTANCES.plural):
                fail(f"{server}: {one.what}: {one.why}: ask for this right, or name another --context", ExitCode.NOT_DONE)
        fail(
            f"{server}: there is no WindowsInstance {name} in namespace {namespace}; there {named(list(hosts))}",
            ExitCode.NOT_DONE,
        )
    return story(await _with_node(client, seen, at(hosts[name], "status", "nodeName")), hosts[name])


async def _with_node(client: Client, seen: Observed, node: str | None) -> Observed:
    """With the Node of that name, where it may be read."""
    import msgspec

    if not node:
        return seen
    found = await answers(client, (Asked(NODES, fields=f"metadata.name={node}"),), needed=False)
    return msgspec.structs.replace(seen, objects={**seen.objects, **found.objects}, unread=(*seen.unread, *found.unread))


def of_directory(source: Source, name: str) -> Story:
    """The story of a host of manifests, as it was last known from here."""
    objects, examined = examine_or_fail(source)
    targets = {one.instance.name: one for one in targets_of(objects, examined.settings, ssh_config=True)}
    if name not in targets:
        fail(f"there is no WindowsInstance {name} in {' '.join(source.filename or ())}; there {named(list(targets))}")
    return directory_story(targets[name], source, LastKnown(directory()))


def story_lines(told: Story, columns: int | None) -> Iterator[str]:
    """The story for people."""
    now, host = datetime.now(UTC), told.host
    yield f"{host.kind}/{host.name}  {host.address or ''}  lifecycle {told.lifecycle}" + (
        f"  (made from {told.origin})" if told.origin else ""
    )
    since = f" for {age(now, moment(host.since))}" if moment(host.since) else ""
    yield from _item("State", f"{host.state}: {host.reason}{since}" + (f": {host.message}" if host.message else ""), columns)
    if host.next:
        yield from _item("Next", host.next, columns)
    if host.page:
        yield from _item("See", host.page, columns)
    for wait in told.waits:
        yield from _item("Waits for", wait, columns)
    if told.settings is not None:
        for line in _settings(told.settings):
            yield from _item("Settings", line, columns)
    if told.node is not None:
        node = told.node
        words = [f"Ready {node.ready}" if node.ready else "not read", node.version, "cordoned" if node.cordoned else ""]
        yield from _item("Node", f"{node.name}: {', '.join(filter(None, words))}", columns)
    for words_, value in told.facts.items():
        yield from _item("Known", f"{words_} {value}", columns)
    for kind, state in told.changes.items():
        yield from _item("Change", f"{kind}: {state}", columns)
    for one in told.conditions:
        line = f"{one.type}={one.status}  {one.reason}  {age(now, moment(one.since))}  {one.message}"
        yield from _item("Condition", line, columns)
    for event in told.events:
        times = f" (x{event.count})" if event.count > 1 else ""
        yield from _item("Event", f"{age(now, moment(event.at))} ago  {event.reason}: {event.message}{times}", columns)
    for missing in told.unread:
        yield from _item("Not read", f"{missing.what}: {missing.why}", columns)


def _settings(one: HostSettings) -> Iterator[str]:
    yield f"{one.source}: {one.why}"
    for name, value in (("HTTP_PROXY", one.http_proxy), ("HTTPS_PROXY", one.https_proxy), ("NO_PROXY", one.no_proxy)):
        if value:
            yield f"{name} {value}"
    if one.certificates:
        yield f"{one.certificates} trusted certificate{'s' * (one.certificates != 1)}"
    if one.services:
        yield f"for the services {', '.join(one.services)}; restart {one.restart}"
    if one.current is not None:
        yield "the host was last judged by these" if one.current else "the host was last judged by others: these come to it yet"


def _item(heading: str, text: str, columns: int | None) -> Iterator[str]:
    first, *rest = broken(text, None if columns is None else columns - 11)
    yield f"{heading:<10} {first}"
    yield from (f"{'':<10} {line.strip()}" for line in rest)
