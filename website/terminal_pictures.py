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


def render_picture(title: str, output: str, width: int) -> str:
    """Render the output of a command as SVG, with its colors."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=width, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(output.rstrip()), soft_wrap=False)
        return console.export_svg(title=title, code_format=_FORMAT, unique_id=re.sub(r"\W+", "-", title)) + "\n"


def run_in_terminal(command: str, directory: str, *, code: int = 0) -> str:
    """Run a command on a terminal and return its output. Raises RuntimeError if its exit code is not `code`."""
    words = [str(Path(sys.executable).parent / "transom"), *command.split()[1:]]
    columns = str(_WIDTHS.get(words[1], 80))
    environment = dict(os.environ, TERM="xterm-256color", COLUMNS=columns, HOME=directory)
    leader, follower = os.openpty()
    process = subprocess.Popen(words, cwd=directory, env=environment, stdout=follower, stderr=subprocess.DEVNULL)
    os.close(follower)
    output = b"".join(_iter_output(leader))
    if process.wait() != code:
        raise RuntimeError(f"{command}: {process.returncode}: {output.decode()}")
    return output.decode().replace("\r\n", "\n")


def _iter_output(terminal: int) -> Iterator[bytes]:
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
        demo = run_in_terminal("transom demo", directory)
        run_in_terminal("transom init lab --simulated", directory)
        run_in_terminal("transom simulate lab --detach", directory)
        try:
            run_in_terminal("transom apply -f lab", directory)
            status = run_in_terminal("transom status host win-1 -f lab", directory)
            settings = Path(directory) / "lab" / "egress.yaml"
            text = (
                settings.read_text("utf-8")
                .replace("//proxy.corp", "//proxy-2.corp")
                .replace("noProxy: .corp", "noProxy: .lab,.corp")
            )
            settings.write_text(text, "utf-8")
            diff = run_in_terminal("transom diff -f lab", directory, code=1)
        finally:
            run_in_terminal("transom simulate lab --stop", directory)
    (ASSETS / "demo.svg").write_text(render_picture("transom demo", demo, _WIDTHS["demo"]), "utf-8")
    (ASSETS / "status.svg").write_text(render_picture("transom status host win-1 -f lab", status, _WIDTHS["status"]), "utf-8")
    (ASSETS / "diff.svg").write_text(render_picture("transom diff -f lab", diff, _WIDTHS["diff"]), "utf-8")


if __name__ == "__main__":
    main()
