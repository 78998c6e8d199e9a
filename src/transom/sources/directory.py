"""Objects from files: the manifests that would be applied to a cluster."""

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from transom.proxy.finding import Finding, field_name
from transom.shown import shown_key, shown_secret_key
from transom.sources.objects import ObjectReader, Objects
from transom.sources.yaml_text import MAX_BYTES, InvalidText, read_documents

STANDARD_INPUT: Final = "-"
_URL: Final = re.compile("[a-z]+://")
_SUFFIXES: Final = (".yaml", ".yml", ".json")


def load(paths: Iterable[str], namespace: str = "transom-system") -> Objects:
    """Read files, directories (every `*.yaml`, `*.yml`, `*.json` below, by name) and `-`, the standard input.

    Never raises for what it reads: a file that cannot be opened, that is not YAML, or that is too large is a finding.
    `namespace` is where objects without a namespace are.
    """
    reader, listed = ObjectReader(namespace), list(paths)
    for name in _files(listed, reader):
        try:
            _load_file(name, reader)
        except InvalidText as error:
            reader.fault(Finding("error", name, "", "", error.reason, error.line, error.column))
        except OSError as error:
            remedy = ": fetch it first, and give the file, or - for the standard input" if _URL.match(name) else ""
            reader.fault(Finding("error", name, "", "", f"cannot be read: {error.strerror}{remedy}"))
    if reader.empty:
        kinds = "EgressProxy, WindowsInstance, Secret, ConfigMap, Cluster …"
        message = f"there is no object that Transom reads: {kinds}; is this the file that is meant?"
        reader.fault(Finding("error", listed[0] if listed else "", "", "", message))
    return reader.objects()


def values(paths: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Every object of the same files in plain values, of lists their items. What cannot be read `load` tells, and is none."""
    for name in _files(paths, ObjectReader()):
        if name == STANDARD_INPUT:
            # it can be read once only
            continue
        with contextlib.suppress(InvalidText, OSError):
            data = Path(name).read_bytes() if Path(name).stat().st_size <= MAX_BYTES else b""
            for document in read_documents(data):
                yield from _objects(document.value)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(value, dict):
        return
    if str(value.get("kind")).endswith("List") and isinstance(value.get("items"), list):
        for item in value["items"]:
            yield from _objects(item)
    else:
        yield value


def _load_file(name: str, reader: ObjectReader) -> None:
    # one byte more than is read, so that the reader of YAML can tell
    if name == STANDARD_INPUT:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        with Path(name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise InvalidText(f"the file has {size:,} bytes; at most {MAX_BYTES:,} are read")
            data = file.read(MAX_BYTES + 1)
    for document in read_documents(data):
        for path, (line, column) in document.duplicates:
            label = reader.label(document.value)
            shown = shown_secret_key if label.startswith(("Secret/", "List/")) or not label else shown_key
            field = field_name(tuple(shown(part) if isinstance(part, str) else part for part in path))
            message = "the key stands twice in its mapping: keep one"
            reader.fault(Finding("error", name, label, field, message, line, column))
        reader.add(document.value, name, document.locate)


def _files(paths: Iterable[str], reader: ObjectReader) -> Iterator[str]:
    for path in paths:
        if path == STANDARD_INPUT or not Path(path).is_dir():
            yield path
            continue
        found = False
        unread: list[OSError] = []
        for directory, below, names in os.walk(path, onerror=unread.append):
            below.sort()
            for name in sorted(names):
                if name.endswith(_SUFFIXES):
                    found = True
                    yield os.path.join(directory, name)  # noqa: PTH118  # the path as given, not normalised
        for error in unread:
            # what is in there may be what keeps a proxy on hosts
            reader.fault(Finding("error", str(error.filename), "", "", f"cannot be read: {error.strerror}"))
        if not found and not unread:
            reader.fault(Finding("error", path, "", "", "the directory holds no *.yaml, *.yml or *.json file"))
