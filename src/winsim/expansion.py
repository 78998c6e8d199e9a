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
        """Return the value of a variable, or None."""
        present = self._items.get(name.upper())
        return present[1] if present else None

    def set(self, name: str, value: str) -> None:
        """Set a variable; an empty value removes it, as in Windows."""
        folded = name.upper()
        if value:
            present = self._items.get(folded)
            self._items[folded] = (present[0] if present else name, value)
        else:
            self._items.pop(folded, None)

    def copy(self) -> "BatchVariables":
        """Return a copy of the variables, for a child process."""
        made = BatchVariables()
        made._items = self._items.copy()
        return made

    def iter_items(self) -> Iterator[tuple[str, str]]:
        """Yield names and values sorted by name, as `set` lists them."""
        for folded in sorted(self._items):
            yield self._items[folded]


def expand_percent(
    text: str, lookup: Callable[[str], str | None], arguments: Sequence[str] | None, files: FileSystem, cwd: str
) -> str:
    """Expand the `%…` of a line.

    `arguments` are those of the batch file, %0 first; None at a prompt.
    """
    if "%" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return "%" if arguments is not None else "%%"
        if match[2] and arguments is not None:
            return " ".join(arguments[1:])
        if match[4] and arguments is not None:
            number = int(match[4])
            value = arguments[number] if number < len(arguments) else ""
            return value if match[3] is None else apply_modifiers(value, match[3], files, cwd)
        if match[5]:
            present = lookup(match[5])
            if present is not None:
                return _apply_edit(present, match[6])
            return "" if arguments is not None else match[0]
        return "" if arguments is not None else match[0]

    return _PERCENT.sub(replace, text)


def expand_delayed(text: str, lookup: Callable[[str], str | None]) -> str:
    """Expand the `!x!` of a string; carets are removed if it contains a `!`."""
    if "!" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        return _apply_edit(lookup(match[2]) or "", match[3]) if match[2] else ""

    return _DELAYED.sub(replace, text)


def expand_loop_variables(text: str, variables: Mapping[str, str], files: FileSystem, cwd: str) -> str:
    """Expand the variables of the enclosing `for` loops; their letters are case-sensitive."""
    if "%" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        value = variables.get(match[2])
        if value is None:
            return match[0]
        return value if match[1] is None else apply_modifiers(value, match[1], files, cwd)

    return _LOOP.sub(replace, text)


def apply_modifiers(value: str, modifiers: str, files: FileSystem, cwd: str) -> str:
    """Apply the modifiers of `%~…1`: remove quotes, and select parts of the path (`call /?`)."""
    value = value.removeprefix('"').removesuffix('"')
    letters = modifiers.casefold()
    if not letters:
        return value
    full = resolve_path(value, cwd)
    head, _, last = full.rpartition("\\")
    stem, dot, extension = last.rpartition(".")
    stem, suffix = (stem, dot + extension) if dot else (last, "")
    if "f" in letters:
        return full
    pieces = {"d": full[:2], "p": head[2:] + "\\", "n": stem, "x": suffix}
    result = "".join(pieces[letter] for letter in "dpnx" if letter in letters)
    if "z" in letters:
        node = files.find(full)
        size = "" if node is None else "0" if isinstance(node, SimulatedDirectory) else str(len(node.data))
        result = f"{size} {result}".strip()
    if "t" in letters:
        node = files.find(full)
        # in the host's own format, to the minute
        changed = "" if node is None else datetime.fromtimestamp(node.modified, UTC).strftime("%m/%d/%Y %I:%M %p")
        result = f"{changed} {result}".strip()
    return result


def resolve_path(path: str, cwd: str) -> str:
    """Return the absolute path of a path relative to `cwd`."""
    plain = path.replace("/", "\\")
    if plain[1:2] == ":":
        return plain if plain[2:3] == "\\" else f"{cwd.rstrip(chr(92))}\\{plain[2:]}".rstrip("\\")
    if plain.startswith("\\"):
        return cwd[:2] + plain
    return f"{cwd.rstrip(chr(92))}\\{plain}"


def _apply_edit(value: str, edit: str | None) -> str:
    """Apply the edit of `%x:~1,2%` or `%x:a=b%` (`set /?`)."""
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
