"""`transom verify host`: whether a machine is as Transom takes Windows to be. `verify cluster` has a module of its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.checks import JUnit
from transom.cli.examples import epilog
from transom.cli.facts import addressed
from transom.cli.findings import files
from transom.cli.options import KeyFile, Port, RequireHostKeys, Username
from transom.cli.output import ExitCode, Format, fail
from transom.cli.timeouts import CHANNEL, CONNECT, WHOLE, ChannelTimeout, ConnectTimeout, PassTimeout, timeouts
from transom.cli.verify_cluster import cluster

if TYPE_CHECKING:
    from transom.hosts.passes.rehearsal import Rehearsal
    from transom.hosts.passes.verification import Verified
    from transom.hosts.ssh import Access
    from transom.proxy.settings import Egress

verify = typer.Typer(help="Check that a machine or a cluster is as it should be.", no_args_is_help=True)


@verify.callback()
def main() -> None:
    """Check that a machine or a cluster is as it should be."""


verify.command("cluster", epilog=epilog("verify cluster"))(cluster)


@verify.command("host", epilog=epilog("verify host"))
def host(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="DNS name or IP address, also as USER@ADDRESS.")],
    username: Username = "",
    port: Port = None,
    key: KeyFile = None,
    connect_timeout: ConnectTimeout = CONNECT,
    channel_timeout: ChannelTimeout = CHANNEL,
    pass_timeout: PassTimeout = WHOLE,
    require_host_keys: RequireHostKeys = False,
    change: Annotated[
        bool,
        typer.Option(
            "--change",
            help="Also make things named TransomVerify and remove them again, and on a machine that nobody uses yet let a "
            "worker of one service live its whole life.",
        ),
    ] = False,
    filename: Annotated[
        list[str] | None,
        files("Manifests with the settings of that service; ADDRESS is then the name of a WindowsInstance in them."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--check", metavar="ID", help="A check to make; else all. `life` is the worker's.")
    ] = None,
    report: JUnit = None,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record", help="A file (docs/verified.yaml) that gets what was seen, with the date and the machine's build."
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.TEXT,
) -> None:
    """Check a Windows machine against what Transom takes for granted.

    Without --change it only reads, also on a node in use. Nothing is left, Ctrl-C included. Exit code 1 where a check fails, 3
    where the host cannot be read.
    """
    import asyncio

    from transom.cli.checks import Suite, ended, tell, write
    from transom.cli.state import host_keys, settings
    from transom.hosts.errors import HostError
    from transom.hosts.passes.verification import verify

    if filename and (username or port or key):
        fail("-f says how the instance is reached: leave --username, --port and --key out")
    access, rehearsal = named(filename, address) if filename else (addressed([address], username, port, key)[0], None)
    made = settings(timeouts(connect_timeout, channel_timeout, pass_timeout))
    known, told = host_keys(required=require_host_keys), (tell if output is Format.TEXT else lambda _: None)
    tried = (rehearsal or throwaway()) if change else None
    try:
        verified = asyncio.run(verify(access, known, made, told, rehearsal=tried, only=_known(only or [], change=change)))
        found = verified.checks
    except HostError as error:
        fail(f"{address}: {error}", ExitCode.NOT_READ)
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None
    if record is not None:
        write("--record", record, lambda before: _recorded(before, verified))
    ended({"address": address, "build": verified.build}, found, Suite("host", address), report, output)


def _recorded(before: bytes, verified: "Verified") -> bytes:
    import datetime

    from transom.cli.verified import recorded

    return recorded(before, verified, datetime.datetime.now(datetime.UTC).date().isoformat())


def _known(only: list[str], *, change: bool) -> list[str]:
    """The checks that are asked for; ends the command where there is none of a name."""
    from transom.hosts.passes.verification import LIFE
    from transom.hosts.steps.checks import CHECKS
    from transom.hosts.steps.trials import trials

    names = [check.id for check in CHECKS]
    changing = [*(check.id for check in trials("", b"")), LIFE]
    for name in only:
        if name not in names + changing:
            fail(f"--check {name}: there is no such check; there are {', '.join(names + changing)}")
        if name in changing and not change:
            fail(f"--check {name} makes things on the machine: give --change as well")
    return only


def named(paths: list[str], name: str) -> "tuple[Access, Rehearsal]":
    """How the WindowsInstance of that name is reached, and its settings; ends the command where there is none."""
    from transom.apply.target import targets_of
    from transom.cli.findings import Source, examine_or_fail
    from transom.cli.hosts import named as listed

    objects, examined = examine_or_fail(Source(filename=paths))
    targets = {target.instance.name: target for target in targets_of(objects, examined.settings, ssh_config=True)}
    if name not in targets:
        fail(f"there is no WindowsInstance {name} in {' '.join(paths)}; there {listed(list(targets))}")
    return targets[name].access, _rehearsal(targets[name].egress)


def throwaway() -> "Rehearsal":
    """A proxy that does not exist (RFC 6761 keeps its domain for that): the service never uses it."""
    from transom.proxy.secret import Secret
    from transom.proxy.settings import Egress

    url = Secret("http://proxy.transom-verify.invalid:3128")
    return _rehearsal(Egress(url, url, "localhost"))


def _rehearsal(egress: "Egress") -> "Rehearsal":
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    from transom.cli.init import authority
    from transom.hosts.passes.rehearsal import Rehearsal

    made = x509.load_pem_x509_certificate(authority("transom verify host: nobody has its key").encode())
    return Rehearsal(made.public_bytes(Encoding.DER), egress)
