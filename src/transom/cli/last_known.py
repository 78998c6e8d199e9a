"""What was last known of the hosts of a directory, from here: no host is asked.

After each command on a host a line about it is kept below the state directory; it holds no settings. Whether these hold still,
the sealed settings of `transom.cli.state` say.
"""

import hashlib
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from transom import __version__
from transom.apply import HostReport, Result
from transom.apply.roll_out import change_of
from transom.apply.target import Target, targets_of
from transom.cli.findings import Source, counted, examine, print_findings
from transom.cli.output import ExitCode, fail
from transom.cli.state import PassedFiles, directory, place_of
from transom.controllers.runtime.conditions import timestamp
from transom.diagnosis.overview import ObjectStatus, Overview, by_urgency, ending
from transom.diagnosis.story import EventRow, HostSettings, Story
from transom.proxy.finding import Finding
from transom.proxy.labels import InvalidSelector, selector
from transom.proxy.layers import BASE
from transom.proxy.settings import Egress
from transom.proxy.url import parse

Command = Literal["apply", "diff", "rollback"]


class Noted(msgspec.Struct, frozen=True):
    """How a command on a host came out."""

    at: datetime
    command: Command
    result: Result
    changes: int = 0
    error: str | None = None


class LastKnown:
    """What is kept of hosts, below the state directory."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "last"

    def of(self, target: Target) -> Noted | None:
        """What is known of a host; None where nobody has worked on it from here."""
        try:
            return msgspec.json.decode(self._file(target).read_bytes(), type=Noted)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return None

    def note(self, target: Target, report: HostReport, command: Command) -> None:
        """Keep how a command on a host came out. Raises OSError."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        noted = Noted(datetime.now(UTC), command, report.result, len(report.changes), report.error)
        file = self._file(target)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_bytes(msgspec.json.encode(noted))
        part.replace(file)

    def _file(self, target: Target) -> Path:
        return self._directory / hashlib.sha256(place_of(target)).hexdigest()[:16]


def last_known(source: Source, labels: str = "") -> Overview:
    """A row for each EgressProxy and each host of the manifests; what is wrong with these does not end it.

    Files that cannot be read are named on stderr, and end the command with 2 where there is nothing else.
    """
    try:
        wanted = selector(labels)
    except InvalidSelector as error:
        fail(f"--selector: {error}")
    objects, examined = examine(source)
    kept, passed = LastKnown(directory()), PassedFiles(directory())
    targets = [
        one for one in targets_of(objects, examined.settings, ssh_config=True) if wanted.matches(one.instance.metadata.labels)
    ]
    hosts = [host_row(target, source, kept.of(target), _is_current(target, passed)) for target in targets]
    own = examined.settings.own
    proxies = [
        _settings_row(one.metadata.name, examined.findings, own if one.metadata.name == BASE else None)
        for one in objects.egress_proxies
    ]
    ends = {f"EgressProxy/{one.name}": one.earliest_expiry for one in proxies}
    certificates = tuple(ending(ends, datetime.now(UTC)))
    rows = tuple(sorted((*proxies, *hosts), key=by_urgency))
    unread = [one for one in examined.errors if not one.object]
    print_findings(unread, sys.stderr)
    if unread and not rows:
        fail(f"the manifests have {counted(len(unread), 'error')}", ExitCode.INVALID)
    return Overview(" ".join(source.filename or ()), rows, certificates=certificates, version=__version__)


def host_row(target: Target, source: Source, noted: Noted | None, current: bool | None) -> ObjectStatus:
    """What is said of a host. `current`: whether the settings that it was last healthy with are those of now, where known."""
    instance, files = target.instance, " ".join(f"-f {path}" for path in source.filename or ())
    apply = f"transom apply {files} --limit {instance.name}"
    since = timestamp(noted.at) if noted else None

    def row(ready: str, reason: str, message: str = "", step: str = "") -> ObjectStatus:
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
        return row("Unknown", "Paused", "spec.paused is set: it is left alone")
    if noted is None:
        return row(
            "Unknown", "NotSeen", "no command has worked on it from here", f"transom diff {files} --limit {instance.name}"
        )
    if noted.error is not None:
        word = "Skipped" if noted.result == "skipped" else "Failed"
        return row("False", word, f"transom {noted.command}: {noted.error}", apply)
    if noted.command == "diff" and noted.result == "changed":
        return row("False", "Differs", f"transom diff found {counted(noted.changes, 'change')} to make", apply)
    if current is False:
        return row("False", "Outdated", f"the settings are others than those of transom {noted.command}", apply)
    return row("True", "Applied")


def _is_current(target: Target, passed: PassedFiles) -> bool | None:
    known = passed.of(target)
    return change_of(known[0]) == change_of(target.egress) if known else None


def _settings_row(name: str, findings: tuple[Finding, ...], own: Egress | None) -> ObjectStatus:
    wrong = [one for one in findings if one.object == f"EgressProxy/{name}" and one.severity == "error"]
    if wrong:
        return ObjectStatus(
            "EgressProxy", None, name, "False", "Invalid", f"{wrong[0].field}: {wrong[0].message}", next="transom validate"
        )
    expiry = timestamp(min(one.not_after for one in own.trust)) if own is not None and own.trust else None
    return ObjectStatus("EgressProxy", None, name, "True", "Valid", "", earliest_expiry=expiry)


def directory_story(target: Target, source: Source, kept: LastKnown) -> Story:
    """What is known of one host of the manifests."""
    noted, egress = kept.of(target), target.egress
    host = host_row(target, source, noted, _is_current(target, PassedFiles(directory())))
    http, https = (parse(one.reveal()).redacted if one else "" for one in (egress.http_proxy, egress.https_proxy))
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
    events = () if noted is None else (EventRow(timestamp(noted.at), "", noted.command, _outcome(noted)),)
    waits = (f"you: {host.next}",) if host.next else ()
    return Story(host, target.instance.spec.lifecycle, settings=settings, waits=waits, events=events)


def _outcome(noted: Noted) -> str:
    told = f"{noted.result}, {counted(noted.changes, 'change')}" if noted.changes else noted.result
    return f"{told}: {noted.error}" if noted.error else told
