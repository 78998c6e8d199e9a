"""The `transom` command: its options and its commands. What a command works with is imported when it is called, not before."""

import os
import sys
from typing import Annotated

import typer

from transom import __version__
from transom.cli.about import completion, help_of, version
from transom.cli.adopt import adopt
from transom.cli.apply import apply, diff
from transom.cli.capi import capi
from transom.cli.demo import demo
from transom.cli.doctor import doctor
from transom.cli.examples import epilog
from transom.cli.facts import facts
from transom.cli.init import init
from transom.cli.manifests import manifests
from transom.cli.no_proxy import no_proxy
from transom.cli.output import ExitCode, fail, open_streams, print_lines, saying_on_ctrl_c
from transom.cli.payload import payload
from transom.cli.pods import pods
from transom.cli.render import render
from transom.cli.rollback import rollback
from transom.cli.run import run as run_operator
from transom.cli.simulate import simulate
from transom.cli.status import status
from transom.cli.trust import trust
from transom.cli.uninstall import uninstall
from transom.cli.userdata import userdata
from transom.cli.validate import validate
from transom.cli.verify import verify
from transom.cli.webhook import webhook

app = typer.Typer(
    name="transom",
    help="Egress proxy settings and trusted CAs for clusters with Windows worker nodes.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print_lines(f"transom {__version__}")
        raise typer.Exit


@app.callback()
def main(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Egress proxy settings and trusted CAs for clusters with Windows worker nodes."""


app.command(epilog=epilog("demo"))(demo)
app.command(epilog=epilog("init"))(init)
app.command(epilog=epilog("simulate"))(simulate)
app.command(epilog=epilog("apply"))(apply)
app.command(epilog=epilog("diff"))(diff)
app.command(epilog=epilog("rollback"))(rollback)
app.command(epilog=epilog("adopt"))(adopt)
app.command(epilog=epilog("status"))(status)
app.command(epilog=epilog("doctor"))(doctor)
app.command(epilog=epilog("facts"))(facts)
app.command(epilog=epilog("validate"))(validate)
app.command(epilog=epilog("render"))(render)
app.command(epilog=epilog("manifests"))(manifests)
app.command(epilog=epilog("uninstall"))(uninstall)
app.command(epilog=epilog("userdata"))(userdata)
app.command("run", epilog=epilog("run"))(run_operator)
app.command(epilog=epilog("webhook"))(webhook)
app.command(epilog=epilog("version"))(version)
app.command(epilog=epilog("completion"))(completion)
app.command("help", epilog=epilog("help"))(help_of)
app.add_typer(capi, name="capi")
app.add_typer(trust, name="trust")
app.add_typer(no_proxy, name="no-proxy")
app.add_typer(pods, name="pods")
app.add_typer(payload, name="payload")
app.add_typer(verify, name="verify")


def run() -> None:
    """The entry point of the program. What cannot be read or written ends it with a sentence and exit code 1."""
    open_streams()
    try:
        with saying_on_ctrl_c("stopped before anything was done"):
            command = typer.main.get_command(app)
        try:
            command()
        finally:
            sys.stdout.flush()
    except OSError as error:
        # what is left for stdout has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise SystemExit(ExitCode.NOT_DONE) from None
        fail(f"{error.filename or 'the output'}: {error.strerror or error}", ExitCode.NOT_DONE)
