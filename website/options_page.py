"""`python -m website.options_page`: write docs/cli.md, every command with its options, from the commands."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from transom.cli.man_page import iter_commands
from transom.cli.program import build_program

PAGE: Final = Path(__file__).parents[1] / "docs" / "cli.md"
_SHARED: Final = 8
"""An option that so many commands have, with the same words, is told once."""


def render_page() -> str:
    """Render the page as Markdown."""
    commands = list(iter_commands(typer.main.get_command(build_program())))
    counted = Counter(row for _, command in commands for row in _list_options(command))
    often = [row for row, number in reversed(counted.most_common()) if number >= _SHARED]
    shared = set(dict(often).items())
    lines = (
        "# Commands and options",
        "",
        "This page lists every command and its options. `transom help COMMAND` shows the same, with examples.",
        "See also the [exit codes](commands.md) and the [JSON output](json.md).",
        "",
        "<!-- written by scripts/reference from the commands -->",
        "",
        "## Shared options",
        "",
        *_render_table(sorted(shared, key=lambda row: row[0].lstrip("-"))),
        *(line for name, command in commands for line in _render_command(name, command, shared)),
    )
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _render_command(name: str, command: Any, shared: set[tuple[str, str]]) -> Iterator[str]:
    yield from ("", f"## {name}", "")
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        yield from (_escape_text(" ".join(paragraph.replace("\b", "").split())), "")
    rows = _list_options(command)
    if own := [row for row in rows if row not in shared]:
        yield from (*_render_table(own), "")
    if common := [flags for flags, _ in rows if (flags, _) in shared]:
        yield f"Also {', '.join(f'`{_find_longest(flags)}`' for flags in common)}."


def _list_options(command: Any) -> list[tuple[str, str]]:
    """Return each option's flags and description; arguments come first."""
    context = command.context_class(command, info_name="transom", auto_envvar_prefix=None)
    records = (parameter.get_help_record(context) for parameter in command.params)
    return [(record[0], " ".join(record[1].split())) for record in records if record]


def _render_table(rows: list[tuple[str, str]]) -> Iterator[str]:
    yield from ("| option | description |", "|---|---|")
    for flags, meaning in rows:
        yield f"| `{_escape_cell(flags)}` | {_escape_text(meaning)} |"


def _find_longest(flags: str) -> str:
    names: list[str] = re.findall(r"--?[a-z][a-z-]*", flags)
    return max(names, key=len)


def _escape_text(text: str) -> str:
    parts = _escape_cell(text).split("`")
    parts[::2] = [
        re.sub(r"(?<!\w)(--[a-z][a-z-]+)", r"`\1`", part).replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]
    ]
    return "`".join(parts)


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(render_page(), "utf-8")
