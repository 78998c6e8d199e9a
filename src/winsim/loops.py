"""The rounds of `for` and what its variables hold in each (Microsoft: "for")."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING

from winsim import batch, conditions
from winsim.batch import BatchSyntaxError, For
from winsim.filesystem import FileError, SimulatedFile
from winsim.streams import Buffer, Streams

if TYPE_CHECKING:
    from winsim.interpreter import Shell

_ITEM = re.compile(r'(?:"[^"]*"?|[^\s,;="])+')
_NAMES = "eol|skip|delims|tokens|usebackq"
_OPTION = re.compile(rf"({_NAMES})(?:=(.*?))?(?=\s+(?:{_NAMES})\b|$)", re.IGNORECASE)


async def rounds(shell: "Shell", node: For) -> AsyncIterator[dict[str, str]]:
    """The variables of each round. Raises BatchSyntaxError for what is not simulated."""
    items = shell.late(node.items)
    match node.kind:
        case "f":
            for values in await _texts(shell, node, items):
                yield values
        case "l":
            start, step, end = (conditions.number(part) or 0 for part in re.split(r"[\s,;=]+", items.strip()))
            while (start <= end) if step >= 0 else (start >= end):
                yield {node.variable: str(start)}
                start += step
        case "" | "d":
            for item in _ITEM.findall(items):
                for found in _named(shell, item, directories=node.kind == "d"):
                    yield {node.variable: found}
        case _:
            raise BatchSyntaxError(f"for /{node.kind} is not simulated.")


def _named(shell: "Shell", item: str, *, directories: bool) -> list[str]:
    if "*" not in item and "?" not in item:
        return [item]
    plain = item.replace('"', "")
    head = plain[: max(plain.rfind("\\"), plain.rfind("/"), plain.rfind(":")) + 1]
    found = shell.host.files.matching(shell.path(item))
    return [head + node.name for _, node in found if isinstance(node, SimulatedFile) != directories]


async def _texts(shell: "Shell", node: For, items: str) -> list[dict[str, str]]:
    """`for /f`: over the lines of files, of a text, or of what a command prints."""
    options = {found[1].casefold(): found[2] or "" for found in _OPTION.finditer(shell.late(node.options))}
    back, source = "usebackq" in options, items.strip()
    text_quote, command_quote = ("'", "`") if back else ('"', "'")
    lines: list[str] = []
    if source[:1] == command_quote and source[-1:] == command_quote:
        output = Buffer()
        command = batch.parse(source[1:-1])
        if command is not None:
            await shell.child(command, Streams(output, shell.streams.err))
        lines = output.data.decode("cp437").split("\n")
    elif source[:1] == text_quote and source[-1:] == text_quote:
        lines = [source[1:-1]]
    else:
        for name in _ITEM.findall(source):
            try:
                lines += shell.host.files.read(shell.path(name)).decode("cp437").split("\n")
            except FileError:
                shell.error(f"The system cannot find the file {name.replace(chr(34), '')}.")
    skip = conditions.number(options.get("skip", "")) or 0
    return list(_split(lines[skip:], options, node.variable))


def _split(lines: list[str], options: Mapping[str, str], variable: str) -> Iterator[dict[str, str]]:
    """The tokens of lines: delimiters side by side count as one, empty lines not at all."""
    delimiters = options.get("delims", " \t")
    end_of_line = options.get("eol", ";")[:1]
    wanted, rest = _tokens(options.get("tokens", "1"))
    pieces = re.compile(f"[^{re.escape(delimiters)}]+") if delimiters else re.compile(".+", re.DOTALL)
    for raw in lines:
        line = raw.removesuffix("\r")
        if not line or (end_of_line and line.startswith(end_of_line)):
            continue
        found = list(pieces.finditer(line))
        last = max(wanted, default=0)
        texts = [found[number - 1][0] if number <= len(found) else "" for number in wanted]
        if rest:
            texts.append(line[found[last].start() :] if last < len(found) else "")
        if any(texts):
            yield {chr(ord(variable) + offset): text for offset, text in enumerate(texts)}


def _tokens(text: str) -> tuple[list[int], bool]:
    """`1,3-5,*` as numbers, and whether what is left over is wanted too."""
    rest = text.endswith("*")
    wanted: set[int] = set()
    for part in text.removesuffix("*").split(","):
        first, dash, last = part.strip().partition("-")
        if first:
            wanted.update(range(int(first), int(last if dash else first) + 1))
    return sorted(wanted), rest
