"""find.exe and findstr.exe: 0 where a line was found, 1 where none was (Microsoft: "find", "findstr")."""

import re
from collections.abc import Callable

from winsim.computer import Invocation
from winsim.filesystem import FileError


async def run_find(call: Invocation) -> int:
    """Run `find [/v] [/c] [/i] "text" [file …]`."""
    switches = {word.casefold() for word in call.arguments if word.startswith("/")}
    words = [word for word in call.arguments if not word.startswith("/")]
    if not words:
        call.write_error("FIND: Parameter format not correct\n")
        return 2
    text = words[0].casefold() if "/i" in switches else words[0]

    def matches(line: str) -> bool:
        return (text in (line.casefold() if "/i" in switches else line)) != ("/v" in switches)

    return _search(call, words[1:], matches, count="/c" in switches, head="---------- ")


async def run_findstr(call: Invocation) -> int:
    """Run `findstr [/i] [/v] [/b] [/e] [/l] [/c:text] [words] [file …]`; a line with any of the words matches.

    Words are separated by spaces.
    """
    switches = {word.casefold() for word in call.arguments if word.startswith("/") and word[2:3] != ":"}
    literal = [word[3:] for word in call.arguments if word[:3].casefold() == "/c:"]
    words = [word for word in call.arguments if not word.startswith("/")]
    if not literal and not words:
        call.write_error("FINDSTR: Bad command line\n")
        return 2
    wanted, files = (literal, words) if literal else (words[0].split(), words[1:])
    plain = "/l" in switches or (bool(literal) and "/r" not in switches)
    patterns = [re.escape(item) if plain else _build_pattern(item) for item in wanted]
    start, end = ("^" if "/b" in switches else ""), ("$" if "/e" in switches else "")
    fits = re.compile("|".join(f"{start}(?:{pattern}){end}" for pattern in patterns), re.IGNORECASE if "/i" in switches else 0)
    return _search(call, files, lambda line: bool(fits.search(line)) != ("/v" in switches), count=False, head="")


def _build_pattern(text: str) -> str:
    r"""Build a Python pattern from one of findstr: `.`, `*`, `^`, `$`, classes, `\<`, `\>`, and `\x` for x."""
    pieces = re.findall(r"\\.|\[[^\]]*\]|.", text)
    edges = {"\\<": r"\b", "\\>": r"\b"}
    return "".join(edges.get(p) or (p if p in ".*^$" or p[0] == "[" else re.escape(p[-1])) for p in pieces)


def _search(call: Invocation, files: list[str], matches: Callable[[str], bool], *, count: bool, head: str) -> int:
    sources: list[tuple[str | None, bytes]] = [] if files else [(None, call.streams.input)]
    for file in files:
        try:
            sources.append((file, call.host.files.read(call.resolve_path(file))))
        except FileError:
            call.write_error(f"File not found - {file.upper()}\n")
    total = 0
    for name, data in sources:
        lines = [line.removesuffix("\r") for line in data.decode("cp437").split("\n")]
        if lines and not lines[-1]:
            lines.pop()
        hits = [line for line in lines if matches(line)]
        total += len(hits)
        if name is not None and head:
            call.write_output(f"\n{head}{name.upper()}" + (f": {len(hits)}\n" if count else "\n"))
        elif count:
            call.write_output(f"{len(hits)}\n")
        if not count:
            prefix = f"{name}:" if name is not None and not head and len(files) > 1 else ""
            call.write_output("".join(f"{prefix}{line}\n" for line in hits))
    return 0 if total else 1
