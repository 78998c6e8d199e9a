"""Variables and their expansion, as cmd.exe does it: `%x%` when a line is read, `%%a` and `!x!` when it is carried out."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from winsim.filesystem import FileSystem, SimulatedDirectory

_PERCENT = re.compile(r"%(?:(%)|(\*)|(?:~([fdpnxsatz]*))?([0-9])|([^%:\n]+)(?::([^%\n]*))?%)?", re.IGNORECASE)
_DELAYED = re.compile(r"\^(.)|!([^!:\n]+)(?::([^!\n]*))?!|!", re.DOTALL)
_LOOP = re.compile(r"%(?:~([fdpnxsatz]*))?([^\s%])", re.IGNORECASE)
_SLICE = re.compile(r"~(-?\d+)(?:,(-?\d+))?")


class BatchVariables:
    """An environment: names without case, in the spelling in which they were set first."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str] | None = None) -> None:
        self._items: dict[str, tuple[str, str]] = {name.upper(): (name, value) for name, value in (items or {}).items()}

    def get(self, name: str) -> str | None:
        """The value of a variable, or None."""
        present = self._items.get(name.upper())
        return present[1] if present else None

    def set(self, name: str, value: str) -> None:
        """Sets a variable; an empty value removes it, as in Windows."""
        folded = name.upper()
        if value:
            present = self._items.get(folded)
            self._items[folded] = (present[0] if present else name, value)
        else:
            self._items.pop(folded, None)

    def copy(self) -> "BatchVariables":
        """The same variables, for a process that is started."""
        made = BatchVariables()
        made._items = self._items.copy()
        return made

    def items(self) -> Iterator[tuple[str, str]]:
        """Names and values by name, as `set` lists them."""
        for folded in sorted(self._items):
            yield self._items[folded]


def percent(
    text: str, lookup: Callable[[str], str | None], arguments: Sequence[str] | None, files: FileSystem, cwd: str
) -> str:
    """A line with its `%…` expanded; `arguments` are those of the batch file, %0 first, None at a prompt."""
    if "%" not in text:
        return text

    def replace(found: re.Match[str]) -> str:
        if found[1]:
            return "%" if arguments is not None else "%%"
        if found[2] and arguments is not None:
            return " ".join(arguments[1:])
        if found[4] and arguments is not None:
            number = int(found[4])
            value = arguments[number] if number < len(arguments) else ""
            return value if found[3] is None else modified(value, found[3], files, cwd)
        if found[5]:
            present = lookup(found[5])
            if present is not None:
                return _edited(present, found[6])
            return "" if arguments is not None else found[0]
        return "" if arguments is not None else found[0]

    return _PERCENT.sub(replace, text)


def delayed(text: str, lookup: Callable[[str], str | None]) -> str:
    """A text with its `!x!` expanded; carets are taken off where a `!` is in it."""
    if "!" not in text:
        return text

    def replace(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        return _edited(lookup(found[2]) or "", found[3]) if found[2] else ""

    return _DELAYED.sub(replace, text)


def loop(text: str, variables: Mapping[str, str], files: FileSystem, cwd: str) -> str:
    """A text with the variables of the `for` loops around it; letters are told apart by case."""
    if "%" not in text:
        return text

    def replace(found: re.Match[str]) -> str:
        value = variables.get(found[2])
        if value is None:
            return found[0]
        return value if found[1] is None else modified(value, found[1], files, cwd)

    return _LOOP.sub(replace, text)


def modified(value: str, modifiers: str, files: FileSystem, cwd: str) -> str:
    """`%~…1`: quotes off, and of the path the parts that are asked for (`call /?`)."""
    value = value.removeprefix('"').removesuffix('"')
    letters = modifiers.casefold()
    if not letters:
        return value
    full = absolute(value, cwd)
    head, _, last = full.rpartition("\\")
    stem, dot, extension = last.rpartition(".")
    stem, suffix = (stem, dot + extension) if dot else (last, "")
    if "f" in letters:
        return full
    pieces = {"d": full[:2], "p": head[2:] + "\\", "n": stem, "x": suffix}
    found = "".join(pieces[letter] for letter in "dpnx" if letter in letters)
    if "z" in letters:
        node = files.find(full)
        size = "" if node is None else "0" if isinstance(node, SimulatedDirectory) else str(len(node.data))
        found = f"{size} {found}".strip()
    if "t" in letters:
        node = files.find(full)
        # in the host's own format, to the minute
        changed = "" if node is None else datetime.fromtimestamp(node.modified, UTC).strftime("%m/%d/%Y %I:%M %p")
        found = f"{changed} {found}".strip()
    return found


def absolute(path: str, cwd: str) -> str:
    """A path in full, as a process in `cwd` means it."""
    plain = path.replace("/", "\\")
    if plain[1:2] == ":":
        return plain if plain[2:3] == "\\" else f"{cwd.rstrip(chr(92))}\\{plain[2:]}".rstrip("\\")
    if plain.startswith("\\"):
        return cwd[:2] + plain
    return f"{cwd.rstrip(chr(92))}\\{plain}"


def _edited(value: str, edit: str | None) -> str:
    """`%x:~1,2%` and `%x:a=b%` (`set /?`)."""
    if not edit:
        return value
    if part := _SLICE.fullmatch(edit):
        start = int(part[1])
        start = max(0, len(value) + start) if start < 0 else start
        if part[2] is None:
            return value[start:]
        length = int(part[2])
        return value[start : len(value) + length if length < 0 else start + length]
    old, equals, new = edit.partition("=")
    if not equals or not old:
        return value
    if old.startswith("*"):
        place = value.casefold().find(old[1:].casefold())
        return value if place < 0 else new + value[place + len(old) - 1 :]
    return re.sub(re.escape(old), lambda _: new, value, flags=re.IGNORECASE)
