"""What was last known of the hosts of a directory, from here: no host is asked.

After each command on a host a line about it is kept below the state directory; it holds no settings. Whether these hold still,
the sealed settings of `transom.cli.state` say.
"""

import hashlib
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from transom import __version__
from transom.apply.report import HostReport, Result
from transom.apply.target import Target, list_targets
from transom.cli.findings import Source, load_and_examine, print_findings
from transom.cli.output import ExitCode, fail
from transom.cli.state import HealthySettingsStore, create_directory, format_host_address
from transom.common.counting import format_count
from transom.common.regular_files import read_regular_file
from transom.common.timestamps import format_timestamp
from transom.diagnosis.host_details import EventRow, HostDetails, HostSettings
from transom.diagnosis.overview import DIFFERS, ObjectStatus, Overview, get_urgency_key, iter_expiring_bundles
from transom.proxy.finding import Finding
from transom.proxy.labels import InvalidSelector, parse_selector
from transom.proxy.layers import BASE
from transom.proxy.settings import Egress
from transom.proxy.url import parse
from transom.reasons.reason_table import REASONS, find_remedy
from transom.rollout.fingerprint import compute_settings_key

Command = Literal["apply", "diff", "rollback"]


class HostRecord(msgspec.Struct, frozen=True):
    """How a command on a host came out."""

    at: datetime
    command: Command
    result: Result
    changes: int = 0
    error: str | None = None
    reason: str = ""


class HostRecords:
    """What is kept of hosts, below the state directory."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "last"

    def read_record(self, target: Target) -> HostRecord | None:
        """Return the record of a host; None if this machine never worked on it."""
        try:
            return msgspec.json.decode(read_regular_file(self._get_file(target)), type=HostRecord)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return None

    def record_result(self, target: Target, report: HostReport, command: Command) -> None:
        """Keep how a command on a host came out. Raises OSError."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        noted = HostRecord(datetime.now(UTC), command, report.result, len(report.changes), report.error, report.reason)
        file = self._get_file(target)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_bytes(msgspec.json.encode(noted))
        part.replace(file)

    def _get_file(self, target: Target) -> Path:
        return self._directory / hashlib.sha256(format_host_address(target)).hexdigest()[:16]


def read_recorded_overview(source: Source, labels: str = "") -> Overview:
    """Read a row for each EgressProxy and each host of the manifests; errors in these do not stop it.

    Files that cannot be read are named on stderr, and end the command with 2 if no other input exists.
    """
    try:
        wanted = parse_selector(labels)
    except InvalidSelector as error:
        fail(f"--selector: {error}")
    objects, examined = load_and_examine(source)
    kept, passed = HostRecords(create_directory()), HealthySettingsStore(create_directory())
    targets = [
        target
        for target in list_targets(objects, examined.settings, ssh_config=True)
        if wanted.matches(target.instance.metadata.labels)
    ]
    hosts = [
        build_host_row(target, source, kept.read_record(target), _has_current_settings(target, passed)) for target in targets
    ]
    own = examined.settings.own
    proxies = [
        _build_settings_row(egress_proxy.metadata.name, examined.findings, own if egress_proxy.metadata.name == BASE else None)
        for egress_proxy in objects.egress_proxies
    ]
    ends = {f"EgressProxy/{proxy.name}": proxy.earliest_expiry for proxy in proxies}
    certificates = tuple(iter_expiring_bundles(ends, datetime.now(UTC)))
    rows = tuple(sorted((*proxies, *hosts), key=get_urgency_key))
    unread = [error for error in examined.errors if not error.object]
    print_findings(unread, sys.stderr)
    if unread and not rows:
        fail(f"the manifests have {format_count(len(unread), 'error')}", ExitCode.INVALID)
    return Overview(" ".join(source.filename or ()), rows, certificates=certificates, version=__version__)


def build_host_row(target: Target, source: Source, noted: HostRecord | None, current: bool | None) -> ObjectStatus:
    """Build the row of a host. `current`: whether it was last healthy with the present settings, where known."""
    instance, files = target.instance, " ".join(f"-f {path}" for path in source.filename or ())
    apply = f"transom apply {files} --limit {instance.name}"
    since = format_timestamp(noted.at) if noted else None

    def build_row(ready: str, reason: str, message: str = "", step: str = "") -> ObjectStatus:
        return ObjectStatus(
            "WindowsInstance",
            instance.metadata.namespace,
            instance.name,
            ready,
            reason,
            message,
            instance.spec.address,
            since=since,
            next=step,
        )

    if instance.spec.paused:
        return build_row("Unknown", "Paused", "spec.paused is set: it is left alone")
    if noted is None:
        return build_row(
            "Unknown", "NotSeen", "no command has worked on it from here", f"transom diff {files} --limit {instance.name}"
        )
    if noted.error is not None:
        word = "Skipped" if noted.result == "skipped" else "Failed"
        return build_row(
            "False",
            word,
            f"transom {noted.command}: {noted.error}",
            _format_next_step(noted.reason, instance.spec.address, apply),
        )
    if noted.command == "diff" and noted.result == "changed":
        return build_row("False", DIFFERS, f"transom diff found {format_count(noted.changes, 'change')} to make", apply)
    if noted.command == "rollback" and noted.result == "changed":
        message = "transom rollback restored the previous settings; the manifests still have others"
        return build_row("False", "RolledBack", message, f"edit the manifests, then {apply}")
    if current is False:
        return build_row("False", "Outdated", f"the settings changed since the last transom {noted.command}", apply)
    return build_row("True", "Applied")


_STEPS: Final = {"Unreachable": "Check that it is on, and its address, port and firewall"}
"""What there is to do where no operator is."""


def _format_next_step(reason: str, address: str, apply: str) -> str:
    """Return what to do before a command can do better; the message has the fixes that only commands on a cluster can do."""
    step = _STEPS.get(reason) or find_remedy(reason, "", "", address)
    if not step or REASONS[reason].heals == "itself":
        return apply
    if "kubectl" in step or step.startswith("As the message says"):
        return f"do what the message says; then {apply}"
    return f"{step[0].lower()}{step[1:]}; then {apply}"


def _has_current_settings(target: Target, passed: HealthySettingsStore) -> bool | None:
    known = passed.read_settings(target)
    return compute_settings_key(known[0]) == compute_settings_key(target.egress) if known else None


def _build_settings_row(name: str, findings: tuple[Finding, ...], own: Egress | None) -> ObjectStatus:
    wrong = [finding for finding in findings if finding.object == f"EgressProxy/{name}" and finding.severity == "error"]
    if wrong:
        return ObjectStatus(
            "EgressProxy", None, name, "False", "Invalid", f"{wrong[0].field}: {wrong[0].message}", next="transom validate"
        )
    expiry = format_timestamp(min(item.not_after for item in own.trust)) if own is not None and own.trust else None
    return ObjectStatus("EgressProxy", None, name, "True", "Valid", "", earliest_expiry=expiry)


def read_recorded_details(target: Target, source: Source, records: HostRecords) -> HostDetails:
    """Return the details of one host of the manifests."""
    noted, egress = records.read_record(target), target.egress
    host = build_host_row(target, source, noted, _has_current_settings(target, HealthySettingsStore(create_directory())))
    http, https = (parse(item.reveal()).redacted if item else "" for item in (egress.http_proxy, egress.https_proxy))
    settings = HostSettings(
        f"EgressProxy/{BASE}" if target.instance.cluster is None else f"Cluster/{'/'.join(target.instance.cluster)}",
        f"as {' '.join(source.filename or ())} has them now",
        http,
        https,
        egress.no_proxy,
        len(egress.trust),
        tuple(egress.windows.services),
        egress.windows.restart,
    )
    events = () if noted is None else (EventRow(format_timestamp(noted.at), "", noted.command, _format_outcome(noted)),)
    waits = (f"you: {host.next}",) if host.next else ()
    return HostDetails(host, target.instance.spec.lifecycle, settings=settings, waits=waits, events=events)


def _format_outcome(noted: HostRecord) -> str:
    result = "would change" if noted.command == "diff" and noted.result == "changed" else noted.result
    outcome = f"{result}, {format_count(noted.changes, 'change')}" if noted.changes else result
    return f"{outcome}: {noted.error}" if noted.error else outcome
