"""The `transom` program: its options and its commands. A command that is not called is not imported."""

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, Final

import typer

from transom.cli.examples import build_epilog
from transom.cli.home import ensure_home_variables
from transom.cli.output import ExitCode, exit_when_stopped, fail, open_streams, print_lines
from transom.cli.usage_errors import TransomGroup, refuse_empty_paths
from transom.common.revision import describe_version

COMMANDS: Final = {
    "demo": ("transom.cli.commands.demo", "demo"),
    "init": ("transom.cli.commands.init", "init"),
    "simulate": ("transom.cli.commands.simulate", "simulate"),
    "apply": ("transom.cli.commands.apply", "apply"),
    "diff": ("transom.cli.commands.apply", "diff"),
    "rollback": ("transom.cli.commands.rollback", "rollback"),
    "adopt": ("transom.cli.commands.adopt", "adopt"),
    "status": ("transom.cli.commands.status", "status"),
    "doctor": ("transom.cli.commands.doctor", "doctor"),
    "check": ("transom.cli.commands.check", "check"),
    "pause": ("transom.cli.commands.pause", "pause"),
    "resume": ("transom.cli.commands.resume", "resume"),
    "restart": ("transom.cli.commands.restart", "restart"),
    "reconcile": ("transom.cli.commands.reconcile", "reconcile"),
    "forget": ("transom.cli.commands.forget", "forget"),
    "facts": ("transom.cli.commands.facts", "facts"),
    "validate": ("transom.cli.commands.validate", "validate"),
    "render": ("transom.cli.commands.render", "render"),
    "manifests": ("transom.cli.commands.manifests", "manifests"),
    "uninstall": ("transom.cli.commands.uninstall", "uninstall"),
    "userdata": ("transom.cli.commands.userdata", "userdata"),
    "run": ("transom.cli.commands.run", "run"),
    "webhook": ("transom.cli.commands.webhook", "webhook"),
    "version": ("transom.cli.commands.about", "version"),
    "completion": ("transom.cli.commands.about", "completion"),
    "help": ("transom.cli.commands.about", "show_help"),
    "capi": ("transom.cli.commands.capi", "capi"),
    "trust": ("transom.cli.commands.trust", "trust"),
    "no-proxy": ("transom.cli.commands.no_proxy", "no_proxy"),
    "pods": ("transom.cli.commands.pods", "pods"),
    "payload": ("transom.cli.commands.payload", "payload"),
    "verify": ("transom.cli.commands.verify", "verify"),
}
"""The module of each, and its function or group there. To import all of them takes longer than most of them do."""


def build_program(names: Iterable[str] = tuple(COMMANDS)) -> typer.Typer:
    """Build the program with these commands."""
    made = typer.Typer(
        name="transom",
        cls=TransomGroup,
        help="Egress proxy settings and trusted CAs for clusters with Windows worker nodes.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(main)
    for name in names:
        module, attribute = COMMANDS[name]
        command_object = getattr(importlib.import_module(module), attribute)
        if isinstance(command_object, typer.Typer):
            made.add_typer(command_object, name=name)
        else:
            made.command(name, epilog=build_epilog(name))(command_object)
    return made


@cache
def get_program(called: str | None = None) -> Callable[..., Any]:
    """Return the program, built once per process, with only the named command if there is one."""
    made = typer.main.get_command(build_program([called]) if called in COMMANDS else build_program())
    for option in made.params:
        # `transom completion` is the documented way
        if option.name in ("install_completion", "show_completion") and isinstance(option, typer.core.TyperOption):
            option.hidden = True
    refuse_empty_paths(made)
    return made


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print_lines(f"transom {describe_version()}")
        raise typer.Exit


def main(
    _: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Egress proxy settings and trusted CAs for clusters with Windows worker nodes."""


def run() -> None:
    """Run the program. An I/O error ends it with a message and exit code 1."""
    open_streams()
    ensure_home_variables()
    try:
        with exit_when_stopped("before anything was done"):
            made = get_program(next(iter(sys.argv[1:]), None))
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
