"""YAML and JSON text as plain values with the place of each: what PyYAML's C parser gives, kept within limits.

Scalars are resolved as Kubernetes' clients do (sigs.k8s.io/yaml: `yes` and `on` are booleans, `0o17` is a number, dates stay
strings), except that a lone `y` or `n` is a string.
Nothing of the text is ever in an error: it may hold a password.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from transom.proxy.finding import Path

MAX_BYTES: Final = 8 << 20
"""A file's size. An API server takes objects up to 1.5 MiB (etcd's limit)."""
MAX_NODES: Final = 250_000
"""Values in one file, those that aliases repeat counted each time."""
MAX_DEPTH: Final = 64
MAX_SCALAR: Final = 4 << 20
"""Characters of one value."""
MAX_ITEMS: Final = 9_999
"""Items of one list other than a `List` of objects."""

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"))
_FALSE = frozenset(("no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"))
_INTEGER = re.compile(r"[-+]?(0b_*[01][01_]*|0o_*[0-7][0-7_]*|0[0-7_]+|0x_*[0-9a-fA-F][0-9a-fA-F_]*|[1-9][0-9_]*|0)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL_FLOATS = {".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}
_SURROGATE_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_CORE_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq", "int", "bool", "float", "null"))

Mark = tuple[int, int]


class InvalidText(Exception):
    """A document that cannot be parsed: the reason, and where (line and column from 1; 0 for the whole file)."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


class Document:
    """One document: its value (dict, list, str, int, float, bool, None), and where each value stands.

    `duplicates` are the paths of duplicate keys; the last one wins. The value may hold passwords: this
    is not a struct, so that nothing prints or encodes it automatically.
    """

    __slots__ = ("_blocks", "_marks", "duplicates", "start", "value")

    def __init__(
        self,
        value: Any,
        marks: dict[int, dict[str | int, Mark]],
        start: Mark,
        duplicates: tuple[tuple[Path, Mark], ...] = (),
        blocks: frozenset[Mark] = frozenset(),
    ) -> None:
        self.value = value
        self.start = start
        self.duplicates = duplicates
        self._marks = marks
        self._blocks = blocks

    def __repr__(self) -> str:
        return f"Document(line {self.start[0]})"

    def locate(self, path: Path) -> Mark:
        """Return line and column of the value at `path`, or of its nearest existing parent.

        A number below a string is a line of it, from 1: known where the file has the string as a literal block (`|`).
        """
        mark, value = self.start, self.value
        for part in path:
            if isinstance(value, str) and isinstance(part, int) and mark in self._blocks:
                return mark[0] + part, 1
            marks = self._marks.get(id(value)) if isinstance(value, dict | list) else None
            if marks is None or part not in marks:
                break
            mark, value = marks[part], value[part]
        return mark


def read_documents(data: bytes, nodes: int = MAX_NODES) -> Iterator[Document]:
    """Each document of a file of at most so many values, empty ones left out.

    Raises InvalidText; documents before the fault have been given by then.
    """
    if len(data) > MAX_BYTES:
        raise InvalidText(f"the file has {len(data):,} bytes; at most {MAX_BYTES:,} are read")
    text = _decode(data)
    yield from _Reader(text, nodes).iter_documents()


def parse_value(text: str) -> Any:
    """Parse the YAML in a field of an object. Raises InvalidText."""
    for document in read_documents(text.encode("utf-8", "surrogatepass")):
        return document.value
    return None


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InvalidText("the file is UTF-16, as PowerShell's > writes it: save it as UTF-8") from None
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidText("the text is not UTF-8", line, error.start - data.rfind(b"\n", 0, error.start)) from None
    at = text.find("\0")
    if at >= 0:
        raise InvalidText("the text has a NUL character", text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
    if text.lstrip()[:1] in ("{", "["):
        # JSON writes characters beyond U+FFFF as two escapes, which YAML does not know
        text = _SURROGATE_PAIR.sub(_join_surrogates, text)
    return text


def _join_surrogates(match: re.Match[str]) -> str:
    high, low = int(match[2], 16), int(match[3], 16)
    return f"{match[1]}\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08X}"


class _Reader:
    """Builds values from parser events, counting as it goes: a node tree of PyYAML's own takes 1 kB a node."""

    def __init__(self, text: str, most: int) -> None:
        self._events = yaml.parse(text, Loader=yaml.CLoader)
        self._text = text
        self._most = most
        self._nodes = 0

    def iter_documents(self) -> Iterator[Document]:
        while (event := self._get_next_event()) is not None:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            self._marks: dict[int, dict[str | int, Mark]] = {}
            self._anchors: dict[str, tuple[Any, int]] = {}
            self._open: set[str] = set()
            self._duplicates: list[tuple[Path, Mark]] = []
            self._blocks: set[Mark] = set()
            first = self._require_event()
            value = self._read_value(first, (), 0)
            if value is not None:
                yield Document(value, self._marks, _get_mark(first), tuple(self._duplicates), frozenset(self._blocks))

    def _get_next_event(self) -> Any:
        try:
            return next(self._events, None)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
            if reason := _explain_mistake(self._text, line, column, error.problem or ""):
                raise InvalidText(f"this is not YAML: {reason}", line, column) from None
            # libyaml's problems are constants of its own; none quotes the text
            raise InvalidText(f"this is not YAML: {error.problem or 'it cannot be parsed'}", line, column) from None
        except yaml.YAMLError:
            raise InvalidText("not valid YAML: it has a character that YAML does not allow") from None

    def _require_event(self) -> Any:
        event = self._get_next_event()
        if event is None:
            raise InvalidText("this is not YAML: it ends early")
        return event

    def _read_value(self, event: Any, path: Path, depth: int) -> Any:
        self._count_values(1, event)
        if depth > MAX_DEPTH:
            raise InvalidText(f"the YAML is nested more than {MAX_DEPTH} levels deep", *_get_mark(event))
        if isinstance(event, yaml.AliasEvent):
            return self._read_alias(event)
        if event.tag is not None and event.tag not in _CORE_TAGS and event.tag != "!":
            raise InvalidText("the tag of this value is not supported: leave it out", *_get_mark(event))
        before, anchor = self._nodes, event.anchor
        if anchor:
            self._open.add(anchor)
        if isinstance(event, yaml.ScalarEvent):
            value = self._read_scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._read_sequence(path, depth)
        else:
            value = self._read_mapping(path, depth)
        if anchor:
            self._open.discard(anchor)
            self._anchors[anchor] = (value, self._nodes - before + 1)
        return value

    def _count_values(self, nodes: int, event: Any) -> None:
        self._nodes += nodes
        if self._nodes > self._most:
            raise InvalidText(f"the file has more than {self._most:,} values, aliases counted each time", *_get_mark(event))

    def _read_alias(self, event: Any) -> Any:
        if event.anchor in self._open:
            raise InvalidText("this alias stands within its own anchor", *_get_mark(event))
        if event.anchor not in self._anchors:
            raise InvalidText("this alias has no anchor before it", *_get_mark(event))
        value, nodes = self._anchors[event.anchor]
        self._count_values(nodes, event)
        return value

    def _read_scalar(self, event: Any) -> Any:
        if len(event.value) > MAX_SCALAR:
            raise InvalidText(f"this value has more than {MAX_SCALAR:,} characters", *_get_mark(event))
        if event.style == "|":
            self._blocks.add(_get_mark(event))
        plain = event.implicit[0] and event.tag is None
        return _resolve_scalar(event.value) if plain else event.value

    def _read_sequence(self, path: Path, depth: int) -> list[Any]:
        value: list[Any] = []
        marks: dict[str | int, Mark] = {}
        while not isinstance(event := self._require_event(), yaml.SequenceEndEvent):
            index = len(value)
            if index >= MAX_ITEMS and path != ("items",):
                raise InvalidText(f"this list has more than {MAX_ITEMS:,} items", *_get_mark(event))
            marks[index] = _get_mark(event)
            value.append(self._read_value(event, (*path, index), depth + 1))
        self._marks[id(value)] = marks
        return value

    def _read_mapping(self, path: Path, depth: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        marks: dict[str | int, Mark] = {}
        merged: list[Any] = []
        while not isinstance(event := self._require_event(), yaml.MappingEndEvent):
            self._count_values(1, event)
            key = self._read_key(event)
            key_event = self._require_event()
            if key == "<<" and event.implicit[0]:
                merged.append(self._read_value(key_event, path, depth + 1))
                continue
            if key in marks:
                self._duplicates.append(((*path, key), _get_mark(event)))
            marks[key] = _get_mark(key_event)
            value[key] = self._read_value(key_event, (*path, key), depth + 1)
        for other in merged:
            self._merge_mapping(value, marks, other, event)
        self._marks[id(value)] = marks
        return value

    def _read_key(self, event: Any) -> str:
        if isinstance(event, yaml.AliasEvent):
            key = self._read_alias(event)
            if isinstance(key, str):
                return key
        elif isinstance(event, yaml.ScalarEvent):
            if event.anchor:
                self._anchors[event.anchor] = (event.value, 1)
            return str(event.value)
        line, column = _get_mark(event)
        if _TEMPLATE.search(_get_line(self._text, line)):
            raise InvalidText(f"this is not YAML: {_IS_TEMPLATE}", line, column)
        raise InvalidText("a key must be a string", line, column)

    def _merge_mapping(self, value: dict[str, Any], marks: dict[str | int, Mark], other: Any, event: Any) -> None:
        sources = other if isinstance(other, list) else [other]
        for source in sources:
            if not isinstance(source, dict):
                raise InvalidText("`<<` takes a mapping or a list of mappings", *_get_mark(event))
            for key, item in source.items():
                if key not in value:
                    value[key] = item
                    marks[key] = self._marks.get(id(source), {}).get(key, _get_mark(event))


_TEMPLATE: Final = re.compile(r"\{\{|\{%")
_IS_TEMPLATE: Final = "a template (`{{ … }}`): render it first, for example `helm template CHART | transom apply -f -`"
_TYPOGRAPHIC: Final = "“”„‘’‚«»"
_BLANKS: Final = "\u00a0\u2007\u202f\u3000"


def _get_line(text: str, number: int) -> str:
    return next(iter(text.split("\n")[number - 1 : number]), "") if number else ""


def _explain_mistake(text: str, line: int, column: int, problem: str) -> str | None:
    """Return what is known about a line that cannot be parsed, in words that say what to do."""
    written = _get_line(text, line)
    if written[column - 1 : column] == "\t" or written[:column].startswith("\t"):
        return "a tab: indent with spaces"
    before = _get_line(text, line - 1) if line > 1 else ""
    if _TEMPLATE.search(written) or _TEMPLATE.search(before):
        return _IS_TEMPLATE
    if any(item in written for item in _TYPOGRAPHIC):
        return "typographic quotes: write straight ones, \" or '"
    if problem in ("did not find expected hexdecimal number", "found unknown escape character"):
        return "a backslash within double quotes begins an escape: write the value in single quotes, such as 'CORP\\user'"
    if any(blank in written for blank in _BLANKS):
        return "a no-break space: write an ordinary one"
    return None


def _get_mark(event: Any) -> Mark:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _resolve_scalar(text: str) -> Any:
    first = text[:1]
    if first in "0123456789+-.":
        return _parse_number(text)
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    return text


def _parse_number(text: str) -> Any:
    if not text:
        return None
    if len(text) > 40:
        return text
    if _INTEGER.match(text):
        digits = text.replace("_", "")
        if re.match(r"[-+]?0[0-7]", digits):
            return int(digits, 8)
        return int(digits, 0)
    if _FLOAT.match(text):
        return float(text)
    return _SPECIAL_FLOATS.get(text.lower(), text)
