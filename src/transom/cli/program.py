"""The `transom` program: its options and its commands. A command that is not called is not imported."""

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, Final

import typer

from transom import __version__
from transom.cli.examples import epilog
from transom.cli.output import ExitCode, fail, open_streams, print_lines, saying_on_ctrl_c

COMMANDS: Final = {
    "demo": ("transom.cli.demo", "demo"),
    "init": ("transom.cli.init", "init"),
    "simulate": ("transom.cli.simulate", "simulate"),
    "apply": ("transom.cli.apply", "apply"),
    "diff": ("transom.cli.apply", "diff"),
    "rollback": ("transom.cli.rollback", "rollback"),
    "adopt": ("transom.cli.adopt", "adopt"),
    "status": ("transom.cli.status", "status"),
    "doctor": ("transom.cli.doctor", "doctor"),
    "facts": ("transom.cli.facts", "facts"),
    "validate": ("transom.cli.validate", "validate"),
    "render": ("transom.cli.render", "render"),
    "manifests": ("transom.cli.manifests", "manifests"),
    "uninstall": ("transom.cli.uninstall", "uninstall"),
    "userdata": ("transom.cli.userdata", "userdata"),
    "run": ("transom.cli.run", "run"),
    "webhook": ("transom.cli.webhook", "webhook"),
    "version": ("transom.cli.about", "version"),
    "completion": ("transom.cli.about", "completion"),
    "help": ("transom.cli.about", "help_of"),
    "capi": ("transom.cli.capi", "capi"),
    "trust": ("transom.cli.trust", "trust"),
    "no-proxy": ("transom.cli.no_proxy", "no_proxy"),
    "pods": ("transom.cli.pods", "pods"),
    "payload": ("transom.cli.payload", "payload"),
    "verify": ("transom.cli.verify", "verify"),
}
"""The module of each, and its function or group there. To import all of them takes longer than most of them do."""


def program(names: Iterable[str] = tuple(COMMANDS)) -> typer.Typer:
    """The program with these commands."""
    made = typer.Typer(
        name="transom",
        help="Egress proxy settings and trusted CAs for clusters with Windows worker nodes.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(main)
    for name in names:
        module, attribute = COMMANDS[name]
        found = getattr(importlib.import_module(module), attribute)
        if isinstance(found, typer.Typer):
            made.add_typer(found, name=name)
        else:
            made.command(name, epilog=epilog(name))(found)
    return made


@cache
def command(called: str | None = None) -> Callable[..., Any]:
    """The program as it is called, made once in a process, with the command of that name alone where there is one."""
    return typer.main.get_command(program([called]) if called in COMMANDS else program())


def _version(asked: bool) -> None:
    if asked:
        print_lines(f"transom {__version__}")
        raise typer.Exit


def main(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Egress proxy settings and trusted CAs for clusters with Windows worker nodes."""


def run() -> None:
    """The entry point of the program. What cannot be read or written ends it with a sentence and exit code 1."""
    open_streams()
    try:
        with saying_on_ctrl_c("stopped before anything was done"):
            made = command(next(iter(sys.argv[1:]), None))
        try:
            made()
        finally:
            sys.stdout.flush()
    except OSError as error:
        # what is left for stdout has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise SystemExit(ExitCode.NOT_DONE) from None
        fail(f"{error.filename or 'the output'}: {error.strerror or error}", ExitCode.NOT_DONE)
