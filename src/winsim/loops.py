"""The rounds of `for` and what its variables hold in each (Microsoft: "for")."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping

from winsim import batch, conditions
from winsim.batch import BatchSyntaxError, For
from winsim.filesystem import FileError, SimulatedFile
from winsim.shell import ShellState
from winsim.streams import Buffer, Streams

_ITEM = re.compile(r'(?:"[^"]*"?|[^\s,;="])+')
_NAMES = "eol|skip|delims|tokens|usebackq"
_OPTION = re.compile(rf"({_NAMES})(?:=(.*?))?(?=\s+(?:{_NAMES})\b|$)", re.IGNORECASE)


async def iter_rounds(shell: ShellState, node: For) -> AsyncIterator[dict[str, str]]:
    """Yield the variables of each iteration. Raises BatchSyntaxError for a kind that is not simulated."""
    items = shell.expand_late(node.items)
    match node.kind:
        case "f":
            for values in await _read_rounds(shell, node, items):
                yield values
        case "l":
            start, step, end = (conditions.parse_number(part) or 0 for part in re.split(r"[\s,;=]+", items.strip()))
            while (start <= end) if step >= 0 else (start >= end):
                yield {node.variable: str(start)}
                start += step
        case "" | "d":
            for item in _ITEM.findall(items):
                for entry in _expand_wildcards(shell, item, directories=node.kind == "d"):
                    yield {node.variable: entry}
        case _:
            raise BatchSyntaxError(f"for /{node.kind} is not simulated.")


def _expand_wildcards(shell: ShellState, item: str, *, directories: bool) -> list[str]:
    if "*" not in item and "?" not in item:
        return [item]
    plain = item.replace('"', "")
    head = plain[: max(plain.rfind("\\"), plain.rfind("/"), plain.rfind(":")) + 1]
    matches = shell.host.files.list_matching(shell.resolve_path(item))
    return [head + node.name for _, node in matches if isinstance(node, SimulatedFile) != directories]


async def _read_rounds(shell: ShellState, node: For, items: str) -> list[dict[str, str]]:
    """Return the variables of each iteration of `for /f` over the lines of files, a string or a command's output."""
    options = {match[1].casefold(): match[2] or "" for match in _OPTION.finditer(shell.expand_late(node.options))}
    back, source = "usebackq" in options, items.strip()
    text_quote, command_quote = ("'", "`") if back else ('"', "'")
    lines: list[str] = []
    if source[:1] == command_quote and source[-1:] == command_quote:
        output = Buffer()
        command = batch.parse(source[1:-1])
        if command is not None:
            await shell.run_child(command, Streams(output, shell.streams.err))
        lines = output.data.decode("cp437").split("\n")
    elif source[:1] == text_quote and source[-1:] == text_quote:
        lines = [source[1:-1]]
    else:
        for name in _ITEM.findall(source):
            try:
                lines += shell.host.files.read(shell.resolve_path(name)).decode("cp437").split("\n")
            except FileError:
                shell.write_error(f"The system cannot find the file {name.replace(chr(34), '')}.")
    skip = conditions.parse_number(options.get("skip", "")) or 0
    return list(_split(lines[skip:], options, node.variable))


def _split(lines: list[str], options: Mapping[str, str], variable: str) -> Iterator[dict[str, str]]:
    """Split lines into tokens: adjacent delimiters count as one, empty lines are skipped."""
    delimiters = options.get("delims", " \t")
    end_of_line = options.get("eol", ";")[:1]
    wanted, rest = _parse_tokens(options.get("tokens", "1"))
    pieces = re.compile(f"[^{re.escape(delimiters)}]+") if delimiters else re.compile(".+", re.DOTALL)
    for raw in lines:
        line = raw.removesuffix("\r")
        if not line or (end_of_line and line.startswith(end_of_line)):
            continue
        matches = list(pieces.finditer(line))
        last = max(wanted, default=0)
        texts = [matches[number - 1][0] if number <= len(matches) else "" for number in wanted]
        if rest:
            texts.append(line[matches[last].start() :] if last < len(matches) else "")
        if any(texts):
            yield {chr(ord(variable) + offset): text for offset, text in enumerate(texts)}


def _parse_tokens(text: str) -> tuple[list[int], bool]:
    """Parse `1,3-5,*` into numbers, and True if the rest of the line is included."""
    rest = text.endswith("*")
    wanted: set[int] = set()
    for part in text.removesuffix("*").split(","):
        first, dash, last = part.strip().partition("-")
        if first:
            wanted.update(range(int(first), int(last if dash else first) + 1))
    return sorted(wanted), rest
