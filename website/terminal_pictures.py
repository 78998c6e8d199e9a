"""`python -m website.terminal_pictures`: what commands print, as SVG for README and the site. They run, on a simulated host."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from website.pictures import ASSETS

_WIDTH: Final = 104
_FORMAT: Final = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code", "ui-monospace"
)
"""rich's own fetches its font from another server."""


def picture(title: str, said: str) -> str:
    """What a command said, in the colours that it had, as SVG."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=_WIDTH, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(said.rstrip()), soft_wrap=False)
        return console.export_svg(title=title, code_format=_FORMAT, unique_id=re.sub(r"\W+", "-", title)) + "\n"


def ran(command: str, directory: str, *, code: int = 0) -> str:
    """What a command prints for a terminal; another exit code than `code` raises RuntimeError."""
    environment = dict(os.environ, FORCE_COLOR="1", COLUMNS=str(_WIDTH), HOME=directory)
    words = [str(Path(sys.executable).parent / "transom"), *command.split()[1:]]
    done = subprocess.run(words, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise RuntimeError(f"{command}: {done.returncode}: {done.stderr}")
    return done.stdout


def main() -> None:
    """Write the files."""
    with tempfile.TemporaryDirectory() as directory:
        demo = ran("transom demo", directory)
        ran("transom init lab --simulated", directory)
        ran("transom simulate lab --detach", directory)
        try:
            ran("transom apply -f lab", directory)
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
    (ASSETS / "demo.svg").write_text(picture("transom demo", demo), "utf-8")
    (ASSETS / "diff.svg").write_text(picture("transom diff -f lab", diff), "utf-8")


if __name__ == "__main__":
    main()
