"""`python -m website.options_page`: docs/cli.md, every command with its options, from the commands themselves."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from transom.cli.man_page import leaves
from transom.cli.program import program

PAGE: Final = Path(__file__).parents[1] / "docs" / "cli.md"
_SHARED: Final = 8
"""An option that so many commands have, with the same words, is told once."""


def page() -> str:
    """The page, as Markdown."""
    commands = list(leaves(typer.main.get_command(program())))
    counted = Counter(row for _, command in commands for row in _options(command))
    often = [row for row, number in reversed(counted.most_common()) if number >= _SHARED]
    shared = set(dict(often).items())
    lines = (
        "# Commands and options",
        "",
        "`transom help COMMAND` says the same, with examples. What they print as JSON, and how they end:",
        "[what commands print](commands.md).",
        "",
        "<!-- written by scripts/reference from the commands -->",
        "",
        "## Options of many commands",
        "",
        *_table(sorted(shared, key=lambda row: row[0].lstrip("-"))),
        *(line for name, command in commands for line in _command(name, command, shared)),
    )
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _command(name: str, command: Any, shared: set[tuple[str, str]]) -> Iterator[str]:
    yield from ("", f"## {name}", "")
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        yield from (_text(" ".join(paragraph.replace("\b", "").split())), "")
    rows = _options(command)
    if own := [row for row in rows if row not in shared]:
        yield from (*_table(own), "")
    if common := [flags for flags, _ in rows if (flags, _) in shared]:
        yield f"Also {', '.join(f'`{_longest(flags)}`' for flags in common)}."


def _options(command: Any) -> list[tuple[str, str]]:
    """Flags, and what each is for; arguments first."""
    context = command.context_class(command, info_name="transom", auto_envvar_prefix=None)
    records = (parameter.get_help_record(context) for parameter in command.params)
    return [(record[0], " ".join(record[1].split())) for record in records if record]


def _table(rows: list[tuple[str, str]]) -> Iterator[str]:
    yield from ("| option | for |", "|---|---|")
    for flags, meaning in rows:
        yield f"| `{_cell(flags)}` | {_text(meaning)} |"


def _longest(flags: str) -> str:
    found: list[str] = re.findall(r"--?[a-z][a-z-]*", flags)
    return max(found, key=len)


def _text(text: str) -> str:
    parts = _cell(text).split("`")
    parts[::2] = [
        re.sub(r"(?<!\w)(--[a-z][a-z-]+)", r"`\1`", part).replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]
    ]
    return "`".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
