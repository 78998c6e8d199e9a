"""The man page transom(1), written from the commands: their help, options and examples. groff_man(7) has the macros."""

import re
from collections.abc import Iterator
from typing import Any

import typer

_EXITS = (
    ("0", "done; of checks: nothing was found"),
    ("1", "something could not be done; of diff and of checks: something differs, or was found"),
    ("2", "the input, or how it was called, is wrong"),
    ("3", "diff and checks: something could not be read"),
    ("130", "Ctrl-C"),
)
_FILES = (
    ("~/.kube/config", "the cluster, unless KUBECONFIG or --kubeconfig names others"),
    ("~/.ssh/config", "users, ports, keys and jump hosts of commands that go to hosts"),
    (
        "$XDG_STATE_HOME/transom",
        "known host keys, and settings that hosts had last; ~/.local/state/transom without the variable",
    ),
)


def man_page(version: str) -> str:
    """The page of a version."""
    from transom.cli.program import program

    root: Any = typer.main.get_command(program())
    lines = [
        '.\\" Made by scripts/reference from the commands: change them.',
        f'.TH TRANSOM 1 "" "transom {_text(version)}" "User Commands"',
        ".SH NAME",
        f"transom \\- {_text(root.help).rstrip('.')[0].lower()}{_text(root.help).rstrip('.')[1:]}",
        ".SH SYNOPSIS",
        ".B transom",
        ".I COMMAND",
        "[\\fIOPTION\\fR]...",
        ".SH DESCRIPTION",
        "What a command changes, and what it prints as JSON, is told in the documentation of the repository.",
        ".B kubectl transom",
        "is the same program.",
        ".SH COMMANDS",
        *(line for name, command in leaves(root) for line in _command(name, command)),
        ".SH EXIT STATUS",
        *(line for code, meaning in _EXITS for line in (".TP", f".B {code}", _text(meaning))),
        ".SH FILES",
        *(line for path, meaning in _FILES for line in (".TP", f".I {_text(path)}", _text(meaning))),
        ".SH SEE ALSO",
        ".BR kubectl (1),",
        ".BR ssh_config (5)",
    ]
    return "\n".join(lines) + "\n"


def leaves(group: Any, before: str = "transom") -> Iterator[tuple[str, Any]]:
    """Every command that is no group, with all of its words; `group` is a command of typer's."""
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from leaves(command, f"{before} {name}")
        else:
            yield f"{before} {name}", command


def _command(name: str, command: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name, auto_envvar_prefix=None)
    yield f'.SS "{_text(name)}"'
    paragraphs = re.split(r"\n\s*\n", (command.help or "").strip())
    for number, paragraph in enumerate(paragraphs):
        if number:
            yield ".PP"
        yield _text(" ".join(paragraph.replace("\b", "").split()))
    for parameter in command.params:
        if record := parameter.get_help_record(context):
            flags, meaning = record
            yield ".TP"
            yield f"\\fB{_text(flags)}\\fR"
            yield _text(" ".join(meaning.split())) or "\\&"
    examples = [line.strip() for line in (command.epilog or "").replace("\b", "").splitlines() if line.startswith("  ")]
    if examples:
        yield from (".PP", "Examples:", ".PP", ".nf", ".RS", *map(_text, examples), ".RE", ".fi")


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
