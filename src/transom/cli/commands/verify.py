"""`transom verify host`: whether a machine is as Transom takes Windows to be. `verify cluster` has a module of its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.checks import JUnit
from transom.cli.commands.facts import parse_addresses
from transom.cli.commands.verify_cluster import cluster
from transom.cli.examples import build_epilog
from transom.cli.findings import create_files_option
from transom.cli.options import KeyFile, Port, RequireHostKeys, Username
from transom.cli.output import ExitCode, Format, fail
from transom.cli.stopping import StopPlan, register_stop_plan, run_until_stopped
from transom.cli.timeouts import (
    CHANNEL,
    CONNECT,
    LOGIN,
    WHOLE,
    ChannelTimeout,
    ConnectTimeout,
    LoginTimeout,
    PassTimeout,
    parse_timeouts,
)

if TYPE_CHECKING:
    from transom.common.check_results import CheckResult
    from transom.hosts.passes.rehearsal import Rehearsal
    from transom.hosts.passes.verification import VerificationResult
    from transom.hosts.ssh.ssh_client import Access
    from transom.proxy.settings import Egress

verify = typer.Typer(help="Verify a Windows machine or a cluster.", no_args_is_help=True)


@verify.callback()
def main() -> None:
    """Verify a Windows machine or a cluster."""


verify.command("cluster", epilog=build_epilog("verify cluster"))(cluster)


@verify.command("host", epilog=build_epilog("verify host"))
def host(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="DNS name, IP address or USER@ADDRESS.")],
    username: Username = "",
    port: Port = None,
    key: KeyFile = None,
    connect_timeout: ConnectTimeout = CONNECT,
    login_timeout: LoginTimeout = LOGIN,
    channel_timeout: ChannelTimeout = CHANNEL,
    pass_timeout: PassTimeout = WHOLE,
    require_host_keys: RequireHostKeys = False,
    change: Annotated[
        bool,
        typer.Option(
            "--change",
            help="Also test changes: create and remove objects named TransomVerify and, on an unused machine, a small worker.",
        ),
    ] = False,
    filename: Annotated[
        list[str] | None,
        create_files_option("Manifests with the settings of the host. ADDRESS is then the name of a WindowsInstance."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--check", metavar="ID", help="ID of a check to run, or `life` for the worker. Repeatable. [default: all]"
        ),
    ] = None,
    report: JUnit = None,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            help="Record the results of a real Windows in a file (docs/verified.yaml), by build and edition.",
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="The output format.")] = Format.TEXT,
) -> None:
    """Check whether a Windows machine meets Transom's requirements.

    Without --change, the command only reads, and is safe on a node in use. It leaves nothing on the machine. After Ctrl-C,
    it prints the maximum time for the cleanup. The exit code is 1 if a check fails, and 3 if the host cannot be read.
    """
    from transom.cli.checks import Suite, print_partial_results, print_results_and_exit, report_check, update_file
    from transom.cli.messages import print_to_stderr as tell_line
    from transom.cli.state import build_pass_settings, open_host_keys
    from transom.hosts.errors import HostError
    from transom.hosts.passes.verification import estimate_stop_seconds, verify_host

    if filename and (username or port or key):
        fail("-f says how the instance is reached: leave --username, --port and --key out")
    access, rehearsal = (
        find_instance(filename, address) if filename else (parse_addresses([address], username, port, key)[0], None)
    )
    # a verification clears up itself
    made = build_pass_settings(
        parse_timeouts(connect_timeout, login_timeout, channel_timeout, pass_timeout), clears_when_stopped=False
    )
    known, checks = open_host_keys(required=require_host_keys), list["CheckResult"]()
    tried = (rehearsal or create_rehearsal()) if change else None

    def record_check(check: "CheckResult") -> None:
        checks.append(check)
        if output is Format.TEXT:
            report_check(check)

    def build_stop_plan() -> StopPlan:
        again = f"`transom verify host {address} --change` removes them first"
        left = f"things named TransomVerify may stay on {address}: {again}" if change else f"files may stay on {address}"
        doing = "removing what was made on" if change else "removing temporary files from"
        return StopPlan(f"{doing} {address}", estimate_stop_seconds(change=change), left)

    try:
        with register_stop_plan(build_stop_plan):
            work = verify_host(
                access, known, made, record_check, rehearsal=tried, only=_select_checks(only or [], change=change)
            )
            verified = run_until_stopped(work, reports=True)
    except HostError as error:
        fail(f"{address}: {error}", ExitCode.NOT_READ)
    except KeyboardInterrupt:
        print_partial_results({"address": address, "build": ""}, checks, has_output_files=bool(report or record), output=output)
        raise SystemExit(ExitCode.INTERRUPTED) from None
    is_recordable = record is not None and not verified.origin.stand_in
    if record is not None and not is_recordable:
        tell_line(f"transom: --record {record}: nothing is recorded, because this is not Windows ({verified.origin.stand_in})")
    elif record is not None:
        update_file("--record", record, lambda before: _update_record(before, verified))
    print_results_and_exit(
        {"address": address, "build": verified.build}, verified.checks, Suite("host", address), report, output
    )
    if record is not None and not is_recordable:
        raise SystemExit(ExitCode.NOT_DONE)


def _update_record(before: bytes, verified: "VerificationResult") -> bytes:
    import datetime

    from transom.cli.verification_record import add_to_record

    return add_to_record(before, verified, datetime.datetime.now(datetime.UTC).date().isoformat())


def _select_checks(only: list[str], *, change: bool) -> list[str]:
    """Return the selected checks; end the command if a name matches none."""
    from transom.hosts.passes.verification import LIFE
    from transom.hosts.steps.change_checks import build_change_checks
    from transom.hosts.steps.checks import CHECKS

    names = [check.id for check in CHECKS]
    changing = [*(check.id for check in build_change_checks("", b"")), LIFE]
    for name in only:
        if name not in names + changing:
            fail(f"--check {name}: unknown check; the checks are {', '.join(names + changing)}")
        if name in changing and not change:
            fail(f"--check {name} changes the machine: add --change")
    return only


def find_instance(paths: list[str], name: str) -> "tuple[Access, Rehearsal]":
    """Return how to reach the WindowsInstance of that name, and its settings; end the command if there is none."""
    from transom.apply.target import list_targets
    from transom.cli.findings import Source, examine_or_fail
    from transom.cli.host_names import format_names

    objects, examined = examine_or_fail(Source(filename=paths))
    targets = {target.instance.name: target for target in list_targets(objects, examined.settings, ssh_config=True)}
    if name not in targets:
        fail(f"no WindowsInstance {name} in {' '.join(paths)}; there {format_names(list(targets))}")
    return targets[name].access, _build_rehearsal(targets[name].egress)


def create_rehearsal() -> "Rehearsal":
    """Return settings with a proxy that does not exist (RFC 6761 reserves its domain): no service ever uses it."""
    from transom.proxy.secret import Secret
    from transom.proxy.settings import Egress

    url = Secret("http://proxy.transom-verify.invalid:3128")
    return _build_rehearsal(Egress(url, url, "localhost"))


def _build_rehearsal(egress: "Egress") -> "Rehearsal":
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    from transom.cli.commands.init import create_authority
    from transom.hosts.passes.rehearsal import Rehearsal

    made = x509.load_pem_x509_certificate(create_authority("transom verify host: key discarded").encode())
    return Rehearsal(made.public_bytes(Encoding.DER), egress)
