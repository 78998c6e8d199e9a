"""`transom doctor --bundle`: objects, events, logs and what is known of hosts, masked, in one file for support."""

import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from transom import __version__
from transom.apply.target import list_targets
from transom.cli.commands.facts import Host, HostReader
from transom.cli.observation import DEPLOYMENTS, ListQuery, QueryResults, run_queries
from transom.cli.output import ExitCode, fail
from transom.cli.timeouts import CHANNEL, CONNECT, LOGIN, WHOLE, parse_timeouts
from transom.common.revision import read_revision
from transom.diagnosis.checks import diagnose
from transom.diagnosis.fields import get_mapping, get_name
from transom.diagnosis.host_details import build_host_details
from transom.diagnosis.masking import Masker
from transom.diagnosis.overview import build_overview
from transom.diagnosis.snapshot import ClusterSnapshot, ReadFailure, Value
from transom.hosts.errors import HostError
from transom.kube.client import Client
from transom.kube.errors import ApiError
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import EVENTS, NODES, Resource
from transom.proxy.secret import Secret
from transom.proxy.settings import WindowsSettings, resolve_settings
from transom.sources.objects import Objects

_EVENTS: Final = Resource("", "v1", "Event", EVENTS.plural, True, UnstructuredObject)
_PODS: Final = Resource("", "v1", "Pod", "pods", True, UnstructuredObject)
_LOG_LINES: Final = 5000
_LOG_BYTES: Final = 4 << 20
_FEW: Final = ("EgressProxy", "WindowsInstance", "Secret", "Lease", "MutatingWebhookConfiguration", "Cluster", "Namespace")
"""Kinds whose objects it contains; other kinds appear only in findings."""


async def write_bundle(client: Client | None, path: Path, snapshot: ClusterSnapshot, facts: dict[str, Any]) -> int:
    """Write the file, for its owner alone; how many files are in it. Ends the command where it cannot be written.

    `client` is None for a directory. `facts` are those of hosts, by name.
    """
    masker = Masker(_iter_secrets(snapshot))
    more = await _read_events_and_workloads(client, snapshot.namespace) if client is not None else QueryResults({}, (), ())
    files = dict(_iter_bundle_files(snapshot, more.objects, masker, (*snapshot.unread, *more.unread)))
    files |= {f"facts/{name}.json": _to_json(masker.mask_value(fact)) for name, fact in facts.items()}
    if client is not None:
        for pod in more.objects.get("Pod", ()):
            files[f"logs/{get_name(pod)}.log"] = masker.mask_text(
                await _read_pod_log(client, snapshot.namespace, get_name(pod))
            ).encode()
    try:
        _write_archive(path, files)
    except OSError as error:
        fail(f"--bundle {path}: cannot be written: {error.strerror}", ExitCode.NOT_DONE)
    return len(files)


async def read_host_facts(objects: Objects, snapshot: ClusterSnapshot) -> dict[str, Any]:
    """Return the current state of each host by name; why, if it could not be read."""
    settings = snapshot.settings or resolve_settings(objects, snapshot.now)
    targets = list_targets(objects, settings, ssh_config=True)
    names = tuple(WindowsSettings().services)
    hosts = [Host(target.access) for target in targets]
    reading = HostReader(hosts, names, parse_timeouts(CONNECT, LOGIN, CHANNEL, WHOLE), show_secrets=False, required=False)
    await reading.run()
    return {
        target.instance.name: {"error": str(result)} if isinstance(result, HostError) else result
        for target, (_, result) in zip(targets, reading.results, strict=True)
    }


async def _read_events_and_workloads(client: Client, namespace: str) -> QueryResults:
    queries = (
        ListQuery(_EVENTS, namespace),
        # events about what has no namespace
        ListQuery(_EVENTS, "default", fields="involvedObject.kind=EgressProxy"),
        ListQuery(DEPLOYMENTS, namespace),
        ListQuery(_PODS, namespace),
        ListQuery(NODES, labels="kubernetes.io/os=windows"),
    )
    return await run_queries(client, queries, required=False)


def _iter_secrets(snapshot: ClusterSnapshot) -> Iterator[Secret]:
    for obj in snapshot.list_objects("Secret"):
        yield from (text for text in get_mapping(obj, "data").values() if isinstance(text, Secret))


def _iter_bundle_files(
    snapshot: ClusterSnapshot,
    extra_objects: dict[str, tuple[Value, ...]],
    masker: Masker,
    unread: tuple[ReadFailure, ...],
) -> Iterator[tuple[str, bytes]]:
    versions = {
        "transom": __version__,
        "revision": read_revision(),
        "kubernetes": snapshot.kubernetes,
        "server": snapshot.source,
        "at": f"{snapshot.now:%FT%TZ}",
    }
    report: dict[str, Any] = {
        "versions": versions,
        "findings": diagnose(snapshot),
        "unread": unread,
        "status": build_overview(snapshot),
    }
    for name, value in report.items():
        yield f"{name}.json", _to_json(masker.mask_value(msgspec.to_builtins(value)))
    for kind, objects in {**{kind: snapshot.list_objects(kind) for kind in _FEW}, **extra_objects}.items():
        if objects:
            yield f"objects/{kind.lower()}.yaml", _to_yaml(masker.mask_value(obj) for obj in objects)
    events = extra_objects.get("Event", ())
    for host in snapshot.list_objects("WindowsInstance"):
        its = tuple(event for event in events if get_mapping(event, "involvedObject").get("name") == get_name(host))
        known = msgspec.structs.replace(snapshot, objects={**snapshot.objects, "Event": its})
        yield f"hosts/{get_name(host)}.json", _to_json(masker.mask_value(msgspec.to_builtins(build_host_details(known, host))))


async def _read_pod_log(client: Client, namespace: str, pod: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    query = {"tailLines": str(_LOG_LINES), "limitBytes": str(_LOG_BYTES), "timestamps": "true"}
    try:
        return (await client.request("GET", path, query)).decode(errors="replace")
    except ApiError as error:
        return f"not read: {error}\n"


def _to_json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _to_yaml(values: Iterable[Any]) -> bytes:
    text: str = yaml.dump_all(values, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    return text.encode("utf-8", "backslashreplace")


def _write_archive(path: Path, files: dict[str, bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as out, tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"transom/{name}")
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
