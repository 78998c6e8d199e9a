"""What README and the pages print for a shell, and how it is run: as it is printed."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lab.control_plane import ControlPlane
from tests.support.repository import DOCS, ROOT

PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
_COMMAND = re.compile(r"\s*(source|transom|kubectl|uv|uvx|pipx|helm|scripts/\w+|sops)(\s|$)")
_MARK = re.compile(r"\s*<!-- (not run|run by): (.+?) -->")


class Block(NamedTuple):
    """Lines of a shell; `mark` is what stands before them: why they are not run, or which test runs them."""

    page: str
    lines: tuple[str, ...]
    mark: tuple[str, str] | None


def blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text("utf-8").splitlines()
    at, mark = 0, None
    while at < len(lines):
        line = lines[at]
        if found := _MARK.fullmatch(line):
            mark = (found[1], found[2])
        elif line.strip().startswith("```"):
            end = next(number for number in range(at + 1, len(lines)) if lines[number].strip() == "```")
            body = "\n".join(line.strip() for line in lines[at + 1 : end]).replace(" \\\n", " ").split("\n")
            if line.strip() in ("```", "```sh", "```bash") and any(map(_COMMAND.match, body)):
                yield Block(page.name, tuple(body), mark)
            at, mark = end, None
        elif line.startswith("    ") and not lines[at - 1].strip() and _COMMAND.match(line):
            end = next((number for number in range(at, len(lines)) if not lines[number].startswith("    ")), len(lines))
            yield Block(page.name, tuple(line.strip() for line in lines[at:end]), mark)
            at, mark = end - 1, None
        elif line.strip():
            mark = None
        at += 1


def tables(page: Path) -> list[list[str]]:
    """The commands of each table of tasks, each with what its cell says beside it."""
    found = []
    for table in page.read_text("utf-8").split("| task | command |")[1:]:
        cells = [line.rpartition(" | ")[2] for line in table.partition("\n\n")[0].splitlines()]
        found.append([f"{command}  # {cell}" for cell in cells for command in re.findall(r"`(transom [^`]+)`", cell)])
    return found


def run_by(test: str) -> tuple[Block, ...]:
    """The blocks that name this test as theirs, in the order of the pages."""
    return tuple(block for page in PAGES for block in blocks(page) if block.mark == ("run by", test))


def shell(home: Path, line: str, **more: str) -> tuple[int, str]:
    """Exit code of a line, or of several, and all that was said; `more` is added to the environment."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.defpath))
    # a quarter of what a start of kubectl costs is looking for garbage
    environment = {"PATH": path, "HOME": str(home), "COLUMNS": "120", "LANG": "C.UTF-8", "GOGC": "off"} | more
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


async def on_cluster(home: Path, plane: ControlPlane, lines: str, **more: str) -> str:
    """What lines said that all ended well, for whoever has kubectl and an administrator's kubeconfig."""
    path = os.pathsep.join((str(Path(sys.executable).parent), str(plane.programs), os.defpath))
    code, said = await asyncio.to_thread(shell, home, lines, **({"PATH": path, "KUBECONFIG": str(plane.kubeconfig)} | more))
    assert code == 0, f"{lines}\n{said}"
    assert "Traceback" not in said
    return said
