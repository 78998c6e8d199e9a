"""find.exe and findstr.exe: 0 where a line was found, 1 where none was (Microsoft: "find", "findstr")."""

import re
from collections.abc import Callable

from winsim.filesystem import FileError
from winsim.processes import Invocation


async def find(call: Invocation) -> int:
    """`find [/v] [/c] [/i] "text" [file …]`."""
    switches = {word.casefold() for word in call.arguments if word.startswith("/")}
    words = [word for word in call.arguments if not word.startswith("/")]
    if not words:
        call.error("FIND: Parameter format not correct\n")
        return 2
    text = words[0].casefold() if "/i" in switches else words[0]

    def matches(line: str) -> bool:
        return (text in (line.casefold() if "/i" in switches else line)) != ("/v" in switches)

    return _search(call, words[1:], matches, count="/c" in switches, head="---------- ")


async def findstr(call: Invocation) -> int:
    """`findstr [/i] [/v] [/b] [/e] [/l] [/c:text] [words] [file …]`; words are separated by blanks, one is enough."""
    switches = {word.casefold() for word in call.arguments if word.startswith("/") and word[2:3] != ":"}
    literal = [word[3:] for word in call.arguments if word[:3].casefold() == "/c:"]
    words = [word for word in call.arguments if not word.startswith("/")]
    if not literal and not words:
        call.error("FINDSTR: Bad command line\n")
        return 2
    wanted, files = (literal, words) if literal else (words[0].split(), words[1:])
    plain = "/l" in switches or (bool(literal) and "/r" not in switches)
    patterns = [re.escape(one) if plain else _pattern(one) for one in wanted]
    start, end = ("^" if "/b" in switches else ""), ("$" if "/e" in switches else "")
    fits = re.compile("|".join(f"{start}(?:{one}){end}" for one in patterns), re.IGNORECASE if "/i" in switches else 0)
    return _search(call, files, lambda line: bool(fits.search(line)) != ("/v" in switches), count=False, head="")


def _pattern(text: str) -> str:
    """A regular expression of findstr: `.`, `*`, `^`, `$`, classes, `\\<`, `\\>`, and `\\x` for x."""
    pieces = re.findall(r"\\.|\[[^\]]*\]|.", text)
    edges = {"\\<": r"\b", "\\>": r"\b"}
    return "".join(edges.get(p) or (p if p in ".*^$" or p[0] == "[" else re.escape(p[-1])) for p in pieces)


def _search(call: Invocation, files: list[str], matches: Callable[[str], bool], *, count: bool, head: str) -> int:
    sources: list[tuple[str | None, bytes]] = [] if files else [(None, call.streams.input)]
    for file in files:
        try:
            sources.append((file, call.host.files.read(call.absolute(file))))
        except FileError:
            call.error(f"File not found - {file.upper()}\n")
    found = 0
    for name, data in sources:
        lines = [line.removesuffix("\r") for line in data.decode("cp437").split("\n")]
        if lines and not lines[-1]:
            lines.pop()
        hits = [line for line in lines if matches(line)]
        found += len(hits)
        if name is not None and head:
            call.out(f"\n{head}{name.upper()}" + (f": {len(hits)}\n" if count else "\n"))
        elif count:
            call.out(f"{len(hits)}\n")
        if not count:
            prefix = f"{name}:" if name is not None and not head and len(files) > 1 else ""
            call.out("".join(f"{prefix}{line}\n" for line in hits))
    return 0 if found else 1
