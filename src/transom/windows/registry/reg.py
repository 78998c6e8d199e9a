r"""The `.reg` format: what `reg export` writes and `reg import` reads (Microsoft: "How to add, modify, or delete registry
subkeys and values by using a .reg file").

UTF-16LE with a byte order mark, CRLF, one section for each key. Text is unescaped if that is safe; everything else
is bytes in hex, of whatever type.

What `reg query` prints is in the console's OEM code page, and its last line is in the language of the host. So only ASCII is
looked at: key paths, value names, `REG_…` and the data. A letter outside ASCII comes back as U+FFFD.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import MappingProxyType

from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.names import is_same
from transom.windows.registry.registry import Key, NamedValue, Registry
from transom.windows.registry.values import Value, ValueType

HEADER = "Windows Registry Editor Version 5.00"

LONGEST_NAME = 16_383
"""Letters of a value's name, and of a key's path, in an export (Microsoft: "Registry element size limits", for a value)."""
_EXPORTED = f"the content of an export: no deletions, and no name of more than {LONGEST_NAME:,} letters"

_BOM = b"\xff\xfe"
_END = r"[ \t]*+(?:\r?\n|\Z)"
# no group is repeated, and no blank is looked at twice: a damaged file must cost neither time nor memory beyond its length.
# What stands behind a backslash, and where a line is folded, is blank in the text that names and data are looked for in
_QUOTED = r'"([^"]*+)"'
_BLANK = re.compile(rf"[ \t]*+(?:;[^\r\n]*+)?{_END}")
_SECTION = re.compile(rf"[ \t]*+\[(-?)([^\r\n\0]+)\]{_END}")
_NAME = re.compile(rf"[ \t]*+(?:@|{_QUOTED})[ \t]*+=[ \t]*+")
_DATA = re.compile(
    rf"(?:(-)|{_QUOTED}|dword:([0-9A-Fa-f]{{1,8}})|hex(?:\(([0-9A-Fa-f]{{1,8}})\))?:([0-9A-Fa-f, \t]*+)){_END}",
)
_FOLDED = re.compile(r"\\[ \t]*+\r?\n")
# Windows escapes these two alone; Wine 8 writes the others as letters too
_ESCAPES = {'\\"': '"', r"\n": "\n", r"\r": "\r", r"\0": "\0"}
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_CONTROL = re.compile(r"[\0-\x1f]")
# regedit folds hex data where a line has reached this column; the two blanks of the next one count
_FOLD_COLUMN = 77
_FOLD = ",\\\r\n  "


class RegSyntaxError(ValueError):
    """Data that is not in the `.reg` format: where (1-based), and what was expected; nothing of the content is quoted."""

    def __init__(self, line: int, column: int, expected: str) -> None:
        super().__init__(f"line {line}, column {column}: expected {expected}")
        self.line, self.column, self.expected = line, column, expected


def parse(data: bytes) -> tuple[Edit, ...]:
    """Parse a file into its edits, in order; a section without a value is a CreateKey. Raises RegSyntaxError."""
    return tuple(iter_edits(data))


def render_registry(registry: Registry) -> bytes:
    """Render a registry as a file that creates each of its keys and sets each of its values, in their order."""
    return _render_registry(registry, tuple((key.path, *(key.values or ())) for key in registry))


# a thousand hosts have the same few settings
@lru_cache(maxsize=32)
def _render_registry(registry: Registry, _order: tuple[tuple[str, ...], ...]) -> bytes:
    """Registries are equal in whatever order their keys are; their files are not."""
    return render(_iter_creating_edits(registry))


def _iter_creating_edits(registry: Registry) -> Iterator[Edit]:
    for key in registry:
        yield CreateKey(key.path)
        for named in (key.values or {}).values():
            yield SetValue(key.path, named.name, named.value)


def parse_export(data: bytes) -> Registry:
    """Parse an export into keys with their values. Raises RegSyntaxError.

    Keys that the file does not name are missing. Content that an export never has is an error: a deletion, or a path or
    name longer than LONGEST_NAME.
    """
    keys: dict[str, tuple[str, dict[str, NamedValue]]] = {}
    path, values = "", dict[str, NamedValue]()
    for edit in iter_edits(data, exported=True):
        if edit.path != path:
            path = edit.path
            values = keys.setdefault(path.casefold(), (path, {}))[1]
        if isinstance(edit, SetValue):
            values[edit.name.casefold()] = NamedValue(edit.name, edit.value)
    return Registry(Key(path, MappingProxyType(values)) for path, values in keys.values())


def render(made: Iterable[Edit]) -> bytes:
    """Render edits as a file, in their order; `parse` returns the same edits.

    A REG_SZ is written as text only if it is plain: one terminator at its end, no control characters. A name that the
    format cannot hold (NUL; in a key's path also a line break, or a leading `-`) raises ValueError.
    """
    parts = [HEADER, "\r\n"]
    section: str | None = None
    for edit in made:
        match edit:
            case CreateKey():
                parts.append(f"\r\n[{_check_path(edit.path)}]\r\n")
                section = None
            case DeleteKey():
                parts.append(f"\r\n[-{_check_path(edit.path)}]\r\n")
                section = None
            case SetValue() | DeleteValue():
                if edit.path != section:
                    parts.append(f"\r\n[{_check_path(edit.path)}]\r\n")
                    section = edit.path
                name = f'"{_escape(_check_name(edit.name))}"=' if edit.name else "@="
                parts += [name, _format_data(edit.value, len(name)) if isinstance(edit, SetValue) else "-", "\r\n"]
    return _BOM + "".join([*parts, "\r\n"]).encode("utf-16-le", "surrogatepass")


def iter_edits(data: bytes, *, exported: bool = False) -> Iterator[Edit]:
    """Yield the edits of a file one by one: those before damaged content, then raise the RegSyntaxError.

    With `exported`, content that an export never has is an error as well.
    """
    text = _decode_text(data)
    plain = _mask_escapes(text)
    position = 0
    path: str | None = None
    empty = False
    while position < len(text):
        if line := _BLANK.match(text, position):
            position = line.end()
        elif line := _SECTION.match(text, position):
            if path is not None and empty:
                yield CreateKey(path)
            if exported and (line[1] or len(line[2]) > LONGEST_NAME):
                raise _build_error(text, position, _EXPORTED)
            position, path, empty = line.end(), line[2], True
            if line[1]:
                yield DeleteKey(path)
                path = None
        elif line := _NAME.match(plain, position):
            if path is None:
                raise _build_error(text, position, "a key before its values")
            name = _decode_escapes(text, line, 1) if line[1] is not None else ""
            data_match = _DATA.match(plain, line.end())
            if data_match is None:
                raise _build_error(text, line.end(), "a value's data")
            value = _parse_value(text, data_match)
            if exported and (value is None or len(name) > LONGEST_NAME or "\0" in name):
                raise _build_error(text, position, _EXPORTED)
            yield SetValue(path, name, value) if value is not None else DeleteValue(path, name)
            position, empty = data_match.end(), False
        else:
            raise _build_error(text, position, "a key in brackets, or a value's name and `=`")
    if path is not None and empty:
        yield CreateKey(path)


def _decode_text(data: bytes) -> str:
    if not data.startswith(_BOM):
        raise RegSyntaxError(1, 1, "UTF-16LE with a byte order mark")
    text = data[2 : len(data) & ~1].decode("utf-16-le", "surrogatepass")
    if len(data) % 2:
        raise _build_error(text, len(text), "UTF-16LE: half a character is at the end")
    head, _, rest = text.partition("\n")
    if head.rstrip("\r \t") != HEADER:
        raise RegSyntaxError(1, 1, f"`{HEADER}`")
    # the header's line stays as an empty one, so that positions count lines as the file does
    return "\n" + rest


def _mask_escapes(text: str) -> str:
    """Mask escaped characters and the ends of folded lines with spaces; the length does not change."""
    if "\\" not in text:
        return text
    unescaped = text.replace("\\\\", "  ").replace('\\"', "  ")
    return _FOLDED.sub(lambda fold: " " * len(fold[0]), unescaped) if "\\" in unescaped else unescaped


def _parse_value(text: str, data_match: re.Match[str]) -> Value | None:
    """Parse the value of a line; None if the line deletes the value."""
    match data_match.lastindex:
        case 1:
            return None
        case 2:
            return Value(ValueType.SZ, (_decode_escapes(text, data_match, 2) + "\0").encode("utf-16-le", "surrogatepass"))
        case 3:
            return Value(ValueType.DWORD, int(data_match[3], 16).to_bytes(4, "little"))
    listed = "".join(data_match[5].split())
    digits = listed.replace(",", "")
    # two digits and a comma, again and again, and no comma at the end
    if listed[2::3].strip(",") or len(digits) % 2 or len(listed) != max(len(digits) // 2 * 3 - 1, 0):
        raise _build_error(text, data_match.start(5), "bytes in hex, two digits each")
    return Value(int(data_match[4], 16) if data_match[4] else ValueType.BINARY, bytes.fromhex(digits))


def _decode_escapes(text: str, escaped_match: re.Match[str], group: int) -> str:
    raw = text[escaped_match.start(group) : escaped_match.end(group)]
    if "\\" not in raw:
        return raw
    # pairs of backslashes first: what begins with a backslash then is one of the others
    pieces = raw.split("\\\\")
    if any("\\" in piece for piece in pieces):
        for number, piece in enumerate(pieces):
            plain = piece
            for escape, letter in _ESCAPES.items():
                plain = plain.replace(escape, letter) if "\\" in plain else plain
            if "\\" in plain:
                escapes = _ESCAPE.finditer(raw)
                at = next(escape.start() for escape in escapes if escape[0] != "\\\\" and escape[0] not in _ESCAPES)
                raise _build_error(text, escaped_match.start(group) + at, "a backslash or a quote after a backslash")
            pieces[number] = plain
    return "\\".join(pieces)


def _build_error(text: str, position: int, expected: str) -> RegSyntaxError:
    line = text.count("\n", 0, position)
    return RegSyntaxError(line + 1, position - text.rfind("\n", 0, position), expected)


def _check_path(path: str) -> str:
    if not path or path.startswith("-") or any(letter in path for letter in "\0\r\n"):
        raise ValueError("a .reg file cannot name this key: its path is empty, begins with `-`, or has a NUL or a line break")
    return path


def _check_name(name: str) -> str:
    if "\0" in name:
        raise ValueError("a .reg file cannot name a value with a NUL")
    return name


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _format_data(value: Value, column: int) -> str:
    if value.type == ValueType.SZ and (text := _decode_plain(value.data)) is not None:
        return f'"{_escape(text)}"'
    if value.type == ValueType.DWORD and len(value.data) == 4:
        return f"dword:{value.to_number():08x}"
    prefix = "hex:" if value.type == ValueType.BINARY else f"hex({value.type:x}):"
    return prefix + _fold_hex(value.data.hex(","), column + len(prefix))


def _decode_plain(data: bytes) -> str | None:
    if len(data) % 2 or data[-2:] != b"\0\0":
        return None
    text = data[:-2].decode("utf-16-le", "surrogatepass")
    # line breaks differ between Windows (as they are) and Wine (as letters); hex is read alike by both
    return None if _CONTROL.search(text) else text


def _fold_hex(listed: str, column: int) -> str:
    first = max(1, -(-(_FOLD_COLUMN - column) // 3)) * 3
    per_line = (_FOLD_COLUMN - 2) // 3 * 3
    lines = [listed[:first], *(listed[start : start + per_line] for start in range(first, len(listed), per_line))]
    return _FOLD.join(line.removesuffix(",") for line in lines if line)


def parse_subkeys(output: bytes, path: str) -> tuple[str, ...]:
    r"""Parse the names of the keys directly below `path` (`HKEY_LOCAL_MACHINE\…`, in full) from `reg query PATH`."""
    return tuple(name for name in (_parse_child(line, path) for line in _split_lines(output)) if name)


def parse_number(output: bytes, name: str) -> int | None:
    """Parse the REG_DWORD or REG_QWORD `name` from `reg query KEY /v NAME`; None if it does not exist."""
    wanted = re.compile(rf"[ \t]+{re.escape(name)}[ \t]+REG_[DQ]WORD[ \t]+0x([0-9a-f]{{1,16}})[ \t]*", re.IGNORECASE)
    number_match = next(filter(None, map(wanted.fullmatch, _split_lines(output))), None)
    return int(number_match[1], 16) if number_match else None


def parse_dependencies(output: bytes, path: str) -> dict[str, tuple[str, ...]]:
    r"""Parse each service's dependencies from `reg query PATH /s /v DependOnService`, PATH being `…\Services`.

    A service without the value is not listed; keys deeper than a service are left out. `reg query` joins the items of a
    REG_MULTI_SZ with a literal `\0`.
    """
    result: dict[str, tuple[str, ...]] = {}
    service: str | None = None
    for line in _split_lines(output):
        if line[:1] not in (" ", "\t", ""):
            service = _parse_child(line, path)
        elif service and (value := _DEPENDENCIES.match(line)):
            result[service] = tuple(item for item in line[value.end() :].strip(" \t").split(r"\0") if item)
    return result


_DEPENDENCIES = re.compile(r"[ \t]+DependOnService[ \t]+REG_MULTI_SZ(?![^ \t])", re.IGNORECASE)


def _parse_child(line: str, path: str) -> str | None:
    """Return the last part of a key's path that is directly below `path`, or None."""
    prefix = path + "\\"
    if not is_same(line[: len(prefix)], prefix):
        return None
    name = line[len(prefix) :]
    return name if name and "\\" not in name else None


def _split_lines(output: bytes) -> list[str]:
    return [line.removesuffix("\r") for line in output.decode("ascii", "replace").split("\n")]
