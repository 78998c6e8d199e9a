"""The man page transom(1), written from the commands: their help, options and examples. groff_man(7) has the macros."""

import re
from collections.abc import Iterator
from typing import Any

import typer

_EXITS = (
    ("0", "success; checks: nothing found"),
    ("1", "failure; diff: something differs; checks: something found"),
    ("2", "wrong usage or invalid input"),
    ("3", "diff and checks: something could not be read"),
    ("130", "Ctrl-C"),
)
_FILES = (
    ("~/.kube/config", "the cluster, unless KUBECONFIG or --kubeconfig is set"),
    ("~/.ssh/config", "users, ports, keys and jump hosts for connections to hosts"),
    (
        "$XDG_STATE_HOME/transom",
        "known host keys, and the last settings of hosts; by default ~/.local/state/transom",
    ),
)


def render_man_page(version: str) -> str:
    """Render the page of a version."""
    from transom.cli.program import build_program

    root: Any = typer.main.get_command(build_program())
    lines = [
        '.\\" Made by scripts/reference from the commands: change them.',
        f'.TH TRANSOM 1 "" "transom {_escape(version)}" "User Commands"',
        ".SH NAME",
        f"transom \\- {_escape(root.help).rstrip('.')[0].lower()}{_escape(root.help).rstrip('.')[1:]}",
        ".SH SYNOPSIS",
        ".B transom",
        ".I COMMAND",
        "[\\fIOPTION\\fR]...",
        ".SH DESCRIPTION",
        "The documentation in the repository describes what each command changes, and its JSON output.",
        ".B kubectl transom",
        "is the same program.",
        ".SH COMMANDS",
        *(line for name, command in iter_commands(root) for line in _iter_command_lines(name, command)),
        ".SH EXIT STATUS",
        *(line for code, meaning in _EXITS for line in (".TP", f".B {code}", _escape(meaning))),
        ".SH FILES",
        *(line for path, meaning in _FILES for line in (".TP", f".I {_escape(path)}", _escape(meaning))),
        ".SH SEE ALSO",
        ".BR kubectl (1),",
        ".BR ssh_config (5)",
    ]
    return "\n".join(lines) + "\n"


def iter_commands(group: Any, before: str = "transom") -> Iterator[tuple[str, Any]]:
    """Yield every command that is not a group, with its full name. `group` is a command of typer."""
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from iter_commands(command, f"{before} {name}")
        else:
            yield f"{before} {name}", command


def _iter_command_lines(name: str, command: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name, auto_envvar_prefix=None)
    yield f'.SS "{_escape(name)}"'
    paragraphs = re.split(r"\n\s*\n", (command.help or "").strip())
    for number, paragraph in enumerate(paragraphs):
        if number:
            yield ".PP"
        yield _escape(" ".join(paragraph.replace("\b", "").split()))
    for parameter in command.params:
        if record := parameter.get_help_record(context):
            flags, meaning = record
            yield ".TP"
            yield f"\\fB{_escape(flags)}\\fR"
            yield _escape(" ".join(meaning.split())) or "\\&"
    examples = [line.strip() for line in (command.epilog or "").replace("\b", "").splitlines() if line.startswith("  ")]
    if examples:
        yield from (".PP", "Examples:", ".PP", ".nf", ".RS", *map(_escape, examples), ".RE", ".fi")


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
