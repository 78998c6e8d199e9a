"""`transom verify host`: whether a machine is as Transom takes Windows to be."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.facts import addressed
from transom.cli.host_keys import RequireHostKeys
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines
from transom.cli.timeouts import CHANNEL, CONNECT, WHOLE, ChannelTimeout, ConnectTimeout, PassTimeout, timeouts

if TYPE_CHECKING:
    from transom.hosts.passes.verification import Checked

verify = typer.Typer(help="Check that a machine is as Transom expects Windows to be.", no_args_is_help=True)


@verify.callback()
def main() -> None:
    """Check that a machine is as Transom expects Windows to be."""


@verify.command("host")
def host(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="DNS name or IP address, also as USER@ADDRESS.")],
    username: Annotated[str, typer.Option("--username", "-u", help="The user; else what ~/.ssh/config says.")] = "",
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=1, max=65535, help="The port; else what ~/.ssh/config says, or 22.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", "-i", help="A private key; else the agent and ~/.ssh.")] = None,
    connect_timeout: ConnectTimeout = CONNECT,
    channel_timeout: ChannelTimeout = CHANNEL,
    pass_timeout: PassTimeout = WHOLE,
    require_host_keys: RequireHostKeys = False,
    report: Annotated[Path | None, typer.Option("--junit", help="A file that gets the checks as JUnit's XML as well.")] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.TEXT,
) -> None:
    """Check a Windows machine; nothing is changed.

    What it does is compared with what Transom relies on. It only reads, also on a node in use, and leaves nothing. Exit
    code 1 where a check fails, 3 where the host cannot be read.
    """
    import asyncio

    from transom.cli.state import host_keys, settings
    from transom.hosts.errors import HostError
    from transom.hosts.passes.verification import verify

    (access,) = addressed([address], username, port, key)
    made = settings(timeouts(connect_timeout, channel_timeout, pass_timeout))
    try:
        told = _tell if output is Format.TEXT else lambda _: None
        found = asyncio.run(verify(access, host_keys(required=require_host_keys), made, told))
    except HostError as error:
        fail(f"{address}: {error}", ExitCode.NOT_READ)
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None
    if report is not None:
        try:
            report.write_text(junit(address, found), "utf-8")
        except OSError as error:
            fail(f"--junit {report}: cannot be written: {error.strerror}", ExitCode.NOT_DONE)
    if output is not Format.TEXT:
        print_data({"address": address, "checks": found}, output)
    if any(one.verdict == "fail" for one in found):
        raise SystemExit(ExitCode.NOT_DONE)


def _tell(one: "Checked") -> None:
    print_lines(f"{one.verdict:<14}  {one.id:<16}  {one.seconds:5.1f} s  {one.claim}: {one.seen}")


def junit(address: str, found: "tuple[Checked, ...]") -> str:
    """The checks as JUnit's XML: a failure, or a test that was skipped, says what was seen."""
    from xml.etree import ElementTree

    from transom.shown import shown

    failures, skipped = (sum(one.verdict == verdict for one in found) for verdict in ("fail", "not applicable"))
    suite = ElementTree.Element(
        "testsuite", name=f"transom verify host {address}", tests=str(len(found)), failures=str(failures), skipped=str(skipped)
    )
    for one in found:
        case = ElementTree.SubElement(suite, "testcase", classname="transom.host", name=one.id, time=f"{one.seconds:.3f}")
        if one.verdict != "pass":
            kind = "failure" if one.verdict == "fail" else "skipped"
            ElementTree.SubElement(case, kind, message=f"{one.claim}: {shown(one.seen)}").text = one.source
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
