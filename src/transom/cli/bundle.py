"""`transom doctor --bundle`: objects, events, logs and what is known of hosts, masked, in one file for support."""

import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from transom.cli.observation import DEPLOYMENTS, Asked, answers
from transom.cli.output import ExitCode, fail
from transom.diagnosis.check import Diagnosis
from transom.diagnosis.masking import Masker
from transom.diagnosis.observed import Observed, Unread, Value, mapping, name_of
from transom.diagnosis.overview import overview
from transom.diagnosis.story import story
from transom.kube.client import Client
from transom.kube.errors import ApiError
from transom.kube.objects import Whole
from transom.kube.resources import EVENTS, NODES, Resource
from transom.proxy.secret import Secret

_EVENTS: Final = Resource("", "v1", "Event", EVENTS.plural, True, Whole)
_PODS: Final = Resource("", "v1", "Pod", "pods", True, Whole)
_LOG_LINES: Final = 5000
_LOG_BYTES: Final = 4 << 20
_FEW: Final = ("EgressProxy", "WindowsInstance", "Secret", "Lease", "MutatingWebhookConfiguration", "Cluster", "Namespace")
"""Kinds whose objects are in it as they were looked at; others stand in findings."""


async def write_bundle(client: Client, path: Path, seen: Observed, found: tuple[Diagnosis, ...]) -> int:
    """Write the file, for its owner alone; how many files are in it. Ends the command where it cannot be written."""
    own = seen.namespace
    asked = (
        Asked(_EVENTS, own),
        # events about what has no namespace
        Asked(_EVENTS, "default", fields="involvedObject.kind=EgressProxy"),
        Asked(DEPLOYMENTS, own),
        Asked(_PODS, own),
        Asked(NODES, labels="kubernetes.io/os=windows"),
    )
    more = await answers(client, asked, needed=False)
    masker = Masker(_secrets(seen))
    files = dict(_files(seen, found, more.objects, masker, (*seen.unread, *more.unread)))
    for pod in more.objects.get("Pod", ()):
        files[f"logs/{name_of(pod)}.log"] = masker.text(await _log(client, own, name_of(pod))).encode()
    try:
        _write(path, files)
    except OSError as error:
        fail(f"--bundle {path}: cannot be written: {error.strerror}", ExitCode.NOT_DONE)
    return len(files)


def _secrets(seen: Observed) -> Iterator[Secret]:
    for one in seen.of("Secret"):
        yield from (text for text in mapping(one, "data").values() if isinstance(text, Secret))


def _files(
    seen: Observed,
    found: tuple[Diagnosis, ...],
    more: dict[str, tuple[Value, ...]],
    masker: Masker,
    unread: tuple[Unread, ...],
) -> Iterator[tuple[str, bytes]]:
    versions = {"transom": version("transom"), "kubernetes": seen.kubernetes, "server": seen.source, "at": f"{seen.now:%FT%TZ}"}
    told: dict[str, Any] = {"versions": versions, "findings": found, "unread": unread, "status": overview(seen)}
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
