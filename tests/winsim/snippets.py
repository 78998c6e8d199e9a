"""Scripts of a few lines with what cmd.exe prints: the simulator is held to them, and Wine's cmd.exe too."""

from pathlib import Path
from typing import NamedTuple

DIRECTORY = r"C:\t\x"


class Snippet(NamedTuple):
    """A script, run as `s.cmd` in DIRECTORY, and what it prints; `wine` is what Wine 8 prints where that differs."""

    name: str
    script: bytes
    output: str
    wine: str


def _read(text: str) -> Snippet:
    name, _, rest = text.partition("\n")
    script, _, output = rest.partition("--- prints\n")
    windows, differs, wine = output.partition("--- in Wine 8\n")
    return Snippet(name, ("@echo off\n" + script).replace("\n", "\r\n").encode(), windows, wine if differs else windows)


SNIPPETS = [_read(text) for text in (Path(__file__).parent / "snippets.txt").read_text("utf-8").split("=== ")[1:]]
