"""`python -m website.terminal_pictures`: what commands print, as SVG for README and the site. They run, on a simulated host."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from website.pictures import ASSETS

_WIDTHS: Final = {"demo": 124, "diff": 96, "status": 128}
"""Columns of the terminal: as many as the longest line of a command has."""
_FORMAT: Final = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code", "ui-monospace"
)
"""rich's own fetches its font from another server."""


def picture(title: str, said: str, width: int) -> str:
    """What a command said, in the colours that it had, as SVG."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=width, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(said.rstrip()), soft_wrap=False)
        return console.export_svg(title=title, code_format=_FORMAT, unique_id=re.sub(r"\W+", "-", title)) + "\n"


def ran(command: str, directory: str, *, code: int = 0) -> str:
    """What a command prints on a terminal; another exit code than `code` raises RuntimeError."""
    words = [str(Path(sys.executable).parent / "transom"), *command.split()[1:]]
    columns = str(_WIDTHS.get(words[1], 80))
    environment = dict(os.environ, TERM="xterm-256color", COLUMNS=columns, HOME=directory)
    leader, follower = os.openpty()
    process = subprocess.Popen(words, cwd=directory, env=environment, stdout=follower, stderr=subprocess.DEVNULL)
    os.close(follower)
    said = b"".join(_all_of(leader))
    if process.wait() != code:
        raise RuntimeError(f"{command}: {process.returncode}: {said.decode()}")
    return said.decode().replace("\r\n", "\n")


def _all_of(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            read = os.read(terminal, 65_536)
        except OSError:  # Linux' word for: nobody has the other side any more
            read = b""
        if not read:
            os.close(terminal)
            return
        yield read


def main() -> None:
    """Write the files."""
    with tempfile.TemporaryDirectory() as directory:
        demo = ran("transom demo", directory)
        ran("transom init lab --simulated", directory)
        ran("transom simulate lab --detach", directory)
        try:
            ran("transom apply -f lab", directory)
            status = ran("transom status host win-1 -f lab", directory)
            settings = Path(directory) / "lab" / "egress.yaml"
            text = (
                settings.read_text("utf-8")
                .replace("//proxy.corp", "//proxy-2.corp")
                .replace("noProxy: .corp", "noProxy: .lab,.corp")
            )
            settings.write_text(text, "utf-8")
            diff = ran("transom diff -f lab", directory, code=1)
        finally:
            ran("transom simulate lab --stop", directory)
    (ASSETS / "demo.svg").write_text(picture("transom demo", demo, _WIDTHS["demo"]), "utf-8")
    (ASSETS / "status.svg").write_text(picture("transom status host win-1 -f lab", status, _WIDTHS["status"]), "utf-8")
    (ASSETS / "diff.svg").write_text(picture("transom diff -f lab", diff, _WIDTHS["diff"]), "utf-8")


if __name__ == "__main__":
    main()
