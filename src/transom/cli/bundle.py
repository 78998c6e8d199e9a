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
from transom.apply.target import targets_of
from transom.cli.facts import looked
from transom.cli.observation import DEPLOYMENTS, Answers, Asked, answers
from transom.cli.output import ExitCode, fail
from transom.cli.timeouts import CHANNEL, CONNECT, WHOLE, timeouts
from transom.diagnosis import Observed, Unread, Value
from transom.diagnosis.checks import diagnose
from transom.diagnosis.fields import mapping, name_of
from transom.diagnosis.masking import Masker
from transom.diagnosis.overview import overview
from transom.diagnosis.story import story
from transom.hosts.errors import HostError
from transom.kube import ApiError
from transom.kube.client import Client
from transom.kube.objects import Whole
from transom.kube.resources import EVENTS, NODES, Resource
from transom.proxy.secret import Secret
from transom.proxy.settings import WindowsSettings, effective
from transom.sources.objects import Objects

_EVENTS: Final = Resource("", "v1", "Event", EVENTS.plural, True, Whole)
_PODS: Final = Resource("", "v1", "Pod", "pods", True, Whole)
_LOG_LINES: Final = 5000
_LOG_BYTES: Final = 4 << 20
_FEW: Final = ("EgressProxy", "WindowsInstance", "Secret", "Lease", "MutatingWebhookConfiguration", "Cluster", "Namespace")
"""Kinds whose objects are in it as they were looked at; others stand in findings."""


async def write_bundle(client: Client | None, path: Path, seen: Observed, facts: dict[str, Any]) -> int:
    """Write the file, for its owner alone; how many files are in it. Ends the command where it cannot be written.

    `client` is None for a directory. `facts` are those of hosts, by name.
    """
    masker = Masker(_secrets(seen))
    more = await _more(client, seen.namespace) if client is not None else Answers({}, (), ())
    files = dict(_files(seen, more.objects, masker, (*seen.unread, *more.unread)))
    files |= {f"facts/{name}.json": _json(masker.value(told)) for name, told in facts.items()}
    if client is not None:
        for pod in more.objects.get("Pod", ()):
            files[f"logs/{name_of(pod)}.log"] = masker.text(await _log(client, seen.namespace, name_of(pod))).encode()
    try:
        _write(path, files)
    except OSError as error:
        fail(f"--bundle {path}: cannot be written: {error.strerror}", ExitCode.NOT_DONE)
    return len(files)


async def host_facts(objects: Objects, seen: Observed) -> dict[str, Any]:
    """What each host looks like now, by name; where it could not be read, why."""
    settings = seen.settings or effective(objects, seen.now)
    targets = targets_of(objects, settings, ssh_config=True)
    names = tuple(WindowsSettings().services)
    found = await looked(
        [one.access for one in targets], names, timeouts(CONNECT, CHANNEL, WHOLE), show_secrets=False, required=False
    )
    return {
        target.instance.name: {"error": str(told)} if isinstance(told, HostError) else told
        for target, (_, told) in zip(targets, found, strict=True)
    }


async def _more(client: Client, own: str) -> Answers:
    asked = (
        Asked(_EVENTS, own),
        # events about what has no namespace
        Asked(_EVENTS, "default", fields="involvedObject.kind=EgressProxy"),
        Asked(DEPLOYMENTS, own),
        Asked(_PODS, own),
        Asked(NODES, labels="kubernetes.io/os=windows"),
    )
    return await answers(client, asked, needed=False)


def _secrets(seen: Observed) -> Iterator[Secret]:
    for one in seen.of("Secret"):
        yield from (text for text in mapping(one, "data").values() if isinstance(text, Secret))


def _files(
    seen: Observed,
    more: dict[str, tuple[Value, ...]],
    masker: Masker,
    unread: tuple[Unread, ...],
) -> Iterator[tuple[str, bytes]]:
    versions = {"transom": __version__, "kubernetes": seen.kubernetes, "server": seen.source, "at": f"{seen.now:%FT%TZ}"}
    told: dict[str, Any] = {"versions": versions, "findings": diagnose(seen), "unread": unread, "status": overview(seen)}
    for name, value in told.items():
        yield f"{name}.json", _json(masker.value(msgspec.to_builtins(value)))
    for kind, objects in {**{kind: seen.of(kind) for kind in _FEW}, **more}.items():
        if objects:
            yield f"objects/{kind.lower()}.yaml", _yaml(masker.value(one) for one in objects)
    events = more.get("Event", ())
    for host in seen.of("WindowsInstance"):
        its = tuple(one for one in events if mapping(one, "involvedObject").get("name") == name_of(host))
        known = msgspec.structs.replace(seen, objects={**seen.objects, "Event": its})
        yield f"hosts/{name_of(host)}.json", _json(masker.value(msgspec.to_builtins(story(known, host))))


async def _log(client: Client, namespace: str, pod: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    query = {"tailLines": str(_LOG_LINES), "limitBytes": str(_LOG_BYTES), "timestamps": "true"}
    try:
        return (await client.request("GET", path, query)).decode(errors="replace")
    except ApiError as error:
        return f"not read: {error}\n"


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _yaml(values: Iterable[Any]) -> bytes:
    text: str = yaml.dump_all(values, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    return text.encode("utf-8", "backslashreplace")


def _write(path: Path, files: dict[str, bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as out, tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"transom/{name}")
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
