"""Objects from files: the manifests that would be applied to a cluster."""

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from transom.common.escaping import escape_key, escape_secret_key
from transom.common.regular_files import open_regular_file, read_regular_file
from transom.proxy.finding import Finding, format_field_path
from transom.proxy.layers import BASE
from transom.sources.objects import ObjectReader, Objects
from transom.sources.yaml_text import MAX_BYTES, InvalidText, read_documents

STANDARD_INPUT: Final = "-"
_URL: Final = re.compile("[a-z]+://")
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_TEXT_SUFFIXES: Final = tuple(f"{suffix}.txt" for suffix in _SUFFIXES)
"""Notepad adds `.txt` to the name of a new file (Notepad, Save as type "Text documents")."""


def load_objects(paths: Iterable[str], namespace: str = "transom-system") -> Objects:
    """Read files, directories (every `*.yaml`, `*.yml`, `*.json` below, by name, that is not hidden) and `-`, standard input.

    Never raises for what it reads: a file that cannot be opened, that is not YAML, or that is too large is a finding.
    `namespace` is where objects without a namespace are.
    """
    reader, listed = ObjectReader(namespace), list(paths)
    for name in _iter_files(listed, reader):
        try:
            _load_file(name, reader)
        except InvalidText as error:
            reader.add_finding(Finding("error", name, "", "", error.reason, error.line, error.column))
        except OSError as error:
            reader.add_finding(Finding("error", name, "", "", f"cannot be read: {error.strerror}{_find_hint(name, error)}"))
    if reader.empty:
        kinds = "EgressProxy, WindowsInstance, Secret, ConfigMap, Cluster …"
        message = f"no object that Transom reads: {kinds}; is this the intended file?"
        reader.add_finding(Finding("error", listed[0] if listed else "", "", "", message))
    objects = reader.build_objects()
    return msgspec.structs.replace(objects, findings=(*objects.findings, *_check_empty_base(objects)))


def _find_hint(name: str, error: OSError) -> str:
    """Return a hint about a missing file whose name kubectl would accept; otherwise an empty string."""
    if not isinstance(error, FileNotFoundError):
        return ""
    if _URL.match(name):
        return ": fetch it first, and give the file, or - for the standard input"
    if any(character in name for character in "*?["):
        return ": patterns are not expanded. Pass the directory, or each file with -f"
    if "," in name:
        return ": lists are not split. Pass each file with -f"
    return ""


def _check_empty_base(objects: Objects) -> Iterator[Finding]:
    """Warn about a base that removes the proxy from hosts because its spec is empty, perhaps by mistake.

    An empty string, `httpProxy: ""`, shows that it is meant. With OpenShift's Proxy, an empty spec has no such effect.
    """
    base = next((item for item in objects.egress_proxies if item.metadata.name == BASE), None)
    hosts = any(host.cluster is None for host in objects.windows_instances)
    if base is None or objects.proxy is not None or not hosts:
        return
    spec = base.spec
    fields = (spec.http_proxy, spec.https_proxy, spec.no_proxy, spec.credentials_secret, spec.trusted_ca)
    is_faulty = any(finding.severity == "error" and finding.object == base.place.object for finding in objects.findings)
    if all(value is None for value in fields) and not is_faulty:
        message = "sets no proxy and no CA, so apply removes those of Transom from hosts; to confirm it, write `httpProxy: ''`"
        yield base.place.build_warning(("spec",), message)


def iter_values(paths: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield every object of the same files as plain values, and of a List its items.

    Files that cannot be read are skipped: `load_objects` reports them.
    """
    for name in _iter_files(paths, ObjectReader()):
        if name == STANDARD_INPUT:
            # it can be read once only
            continue
        with contextlib.suppress(InvalidText, OSError):
            data = read_regular_file(name, MAX_BYTES)
            for document in read_documents(data):
                yield from _iter_objects(document.value)


def _iter_objects(value: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(value, dict):
        return
    if str(value.get("kind")).endswith("List") and isinstance(value.get("items"), list):
        for item in value["items"]:
            yield from _iter_objects(item)
    else:
        yield value


def _load_file(name: str, reader: ObjectReader) -> None:
    # one byte more than is read, so that the reader of YAML can tell
    if name == STANDARD_INPUT:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        with open_regular_file(name) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise InvalidText(f"the file has {size:,} bytes; at most {MAX_BYTES:,} are read")
            data = file.read(MAX_BYTES + 1)
    for document in read_documents(data):
        # with the head of an object twice, what is below it is twice for the same reason
        joined = any(path == ("apiVersion",) for path, _ in document.duplicates)
        for path, (line, column) in document.duplicates:
            if joined and len(path) == 1 and path != ("apiVersion",):
                continue
            label = reader.format_label(document.value)
            shown = escape_secret_key if label.startswith(("Secret/", "List/")) or not label else escape_key
            field = format_field_path(tuple(shown(part) if isinstance(part, str) else part for part in path))
            message = "duplicate key: " + ("is a line `---` missing between two objects?" if joined else "keep one")
            reader.add_finding(Finding("error", name, label, field, message, line, column))
        reader.add(document.value, name, document.locate)


def _iter_files(paths: Iterable[str], reader: ObjectReader) -> Iterator[str]:
    for path in paths:
        if path == STANDARD_INPUT or not Path(path).is_dir():
            yield path
            continue
        has_files = False
        unread: list[OSError] = []
        for directory, below, names in os.walk(path, onerror=unread.append):
            # what begins with a dot is of Git, of SOPS, of a pipeline, or the other copy of a mounted ConfigMap's files
            below[:] = sorted(name for name in below if not name.startswith("."))
            for name in sorted(names):
                if name.startswith("."):
                    continue
                file = os.path.join(directory, name)  # noqa: PTH118  # the path as given, not normalised
                if name.lower().endswith(_SUFFIXES):
                    has_files = True
                    yield file
                elif name.lower().endswith(_TEXT_SUFFIXES):
                    reader.add_finding(Finding("warning", file, "", "", f"not read: rename it to {Path(name).stem}"))
        for error in unread:
            # what is in there may be what keeps a proxy on hosts
            reader.add_finding(Finding("error", str(error.filename), "", "", f"cannot be read: {error.strerror}"))
        if not has_files and not unread:
            reader.add_finding(Finding("error", path, "", "", "the directory contains no *.yaml, *.yml or *.json file"))
