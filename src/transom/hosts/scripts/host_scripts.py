r"""The cmd scripts that run on a host, rendered from queries or changes; their results are in `results`.

Scripts contain no values, only names of keys and services, numbers, and our own identity. What the remote shell is asked to run
is `cmd.exe /d /c PATH`, the path made of letters, digits, `\`, `:`, `.`, `_` and `-`, so that cmd and PowerShell read it alike.
"""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec

from transom.hosts.errors import NotExpressible
from transom.hosts.owner import Owner
from transom.hosts.scripts.install_script import PATH, build_job_blocks, build_work_blocks, iter_reversal_steps
from transom.hosts.scripts.template import BASE, FORMER, Script, fill_template, read_template, render_script
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import BOOT, BOOT_MARK, ENVIRONMENT, FILE_LIMIT, LEDGER, RESTARTS, SERVICES, Queries
from transom.windows.ledger import has_access_lockdown_edit
from transom.windows.nodes.fetch import MARK
from transom.windows.parts.installation import list_restarted_services
from transom.windows.payload.payload import Payload
from transom.windows.planning.planner import Plan
from transom.windows.registry.names import FoldedDict, is_listed, is_same
from transom.windows.registry.registry import Registry

_SERVICE = re.compile(r"[A-Za-z0-9_.-]+")
# the name of a third-party service may have spaces and more, but nothing that cmd interprets, and no letter whose code
# page would matter
_SERVICE_IN_JOB = re.compile(r"[A-Za-z0-9_.$@#+,;=~()\[\]{}' -]+")
_KEY = re.compile(r"HKEY_LOCAL_MACHINE(?:\\[A-Za-z0-9_.(){}# -]+)+")
_HASH = re.compile(r"[0-9a-f]{0,128}")
SCAN_SECONDS: Final = 75
"""Seconds that a script waits for a program that reads new files.

Defender holds a suspicious file for 10 s by default, and for up to 60 s by policy (Microsoft Learn, "Configure the cloud block
timeout period")."""
PROMPT = r"C:\Windows\System32\cmd.exe"
"""What is run in the place of a script where a line is handed over on standard input."""
_UNLESS_UNWRITTEN = r'if not exist "%HERE%\unwritten.txt" '
_COMMAND = re.compile(r"cmd\.exe /d /c [A-Za-z0-9\\:._-]+")
Base = Literal["made", "found", "closed"]
"""Whether the base directory was made by this pass, was found there, or is known to be closed to others."""


class ServiceTimeouts(msgspec.Struct, frozen=True):
    """Seconds that services may take.

    `stop` and `start` are for a service that is pending, from its last checkpoint on. The wait hint of the service itself
    extends them, up to `most` in all. A service's own figure, by its name in lower case, replaces both and extends `most`.
    """

    stop: int = 240
    start: int = 240
    services: Mapping[str, int] = {}
    idle: int = 60
    """Seconds for a service that neither runs nor is pending: it refuses to stop, or to start."""
    most: int = 600
    """Seconds for one service in all, and for one that starts with a new payload before the former payload comes back."""
    steady: int = 10
    """For how long what was replaced has to run before its former version goes."""

    @classmethod
    def from_seconds(cls, seconds: float) -> "ServiceTimeouts":
        """Return the patience of `--service-timeout`."""
        return cls(stop=math.ceil(seconds), start=math.ceil(seconds))

    def with_payload(self, payload: Payload) -> "ServiceTimeouts":
        """Return the patience with the seconds that services of a payload declare."""
        declared = {
            service.name.casefold(): service.timeout_seconds
            for service in payload.services
            if service.timeout_seconds is not None
        }
        return msgspec.structs.replace(self, services={**self.services, **declared}) if declared else self

    def get_stop_seconds(self, name: str) -> int:
        """Return the seconds for a pending `name` to stop."""
        return self.services.get(name.casefold(), self.stop)

    def get_start_seconds(self, name: str, *, needed: bool = False) -> int:
        """Return the seconds for a pending `name` to run; `needed`: without it the former payload comes back."""
        seconds = self.services.get(name.casefold(), self.start)
        return max(seconds, self.most) if needed else seconds

    def get_idle_seconds(self, seconds: int) -> int:
        """Return the seconds for a service that is not pending, where it has `seconds` while it is."""
        return min(self.idle, seconds)

    def compute_service_seconds(self, seconds: int) -> int:
        """Return the seconds for one service in all, where it has `seconds` while it is pending."""
        return max(self.most, seconds) + self.idle

    def compute_total_seconds(self, plan: Plan) -> int:
        """Seconds that the restarts of a plan may take together; looking costs time as well as waiting."""
        once = (
            60
            + 10 * len(plan.install.create + plan.install.configure + plan.install.delete)
            + 2 * (sum(map(self.get_stop_seconds, plan.stop)) + sum(map(self.get_start_seconds, plan.start)))
        )
        return once if plan.install.reversal is None else 2 * once + 2 * self.steady


def build_command(path: str) -> str:
    """Build the remote shell's command for the script at `path`."""
    line = rf"cmd.exe /d /c {path}"
    if not _COMMAND.fullmatch(line):
        raise NotExpressible(f"{path!r} is not a valid path of a script")
    return line


@lru_cache(maxsize=256)
def build_gather_script(questions: Queries, owner: Owner, base: Base = "closed") -> Script:
    """Build the script that answers `questions`; its name has the hash of its content. Raises NotExpressible.

    If the base directory may be open, the script closes it first; an existing one must belong to an administrator.
    """
    content = render_script(
        "gather.cmd",
        {
            "TAG": owner.tag,
            "LEDGER": LEDGER,
            "SERVICES": SERVICES,
            "SECURE": render_secure_block(base),
            "BOOTING": _render_boot_mark(),
            "READING": fill_template("file.cmd", {"LIMIT": str(FILE_LIMIT)}) if questions.files else "",
            "QUESTIONS": "\n".join(_iter_query_calls(questions)),
        },
    )
    return Script(f"gather-{hashlib.sha256(content).hexdigest()[:12]}.cmd", content)


def _iter_query_calls(questions: Queries) -> Iterator[str]:
    if questions.environment:
        yield f'call :export environment "{ENVIRONMENT}"'
    if questions.boot:
        yield "call :bootid boot"
    if questions.dependants:
        # a change makes it no other: the script that calls this one knows it
        yield f'if not defined TRANSOM_PASS call :everywhere dependants "{SERVICES}" DependOnService'
    walked: set[str] = set()
    for number, (place, stores) in enumerate(questions.walks.items()):
        # the names of stores and certificates come after the key's own parts
        part = place.count("\\") + 2
        yield f'call :walk walk-{number} "{_require_valid_key(place)}" "{part},{part + 1},{part + 2}"'
        walked.update(stores)
        for path in stores:
            yield f'if not defined WALKED call :query store-{questions.stores.index(path)} "{_require_valid_key(path)}"'
    for number, path in enumerate(questions.stores):
        if path not in walked:
            yield f'call :query store-{number} "{_require_valid_key(path)}"'
    for number, path in enumerate(questions.keys):
        yield f'call :export key-{number} "{_require_valid_key(path)}"'
    for number, path in enumerate(questions.files):
        yield f"call :file file-{number} {_quote_path(path)}"
    for number, name in enumerate(questions.services):
        if not _SERVICE.fullmatch(name):
            raise NotExpressible(f"the service name {name!r} is not made of letters, digits, '.', '_' and '-' alone")
        yield f'call :service service-{number} "{name}"'


def _quote_path(path: str) -> str:
    if not PATH.fullmatch(path):
        raise NotExpressible(f"the path {path!r} cannot be named in a script")
    return f'"{path}"'


def _require_valid_key(path: str) -> str:
    if not _KEY.fullmatch(path):
        raise NotExpressible(f"the registry key {path!r} cannot be named in a script")
    return path


def build_change_script(
    plan: Plan,
    actual: ObservedState,
    owner: Owner,
    pass_id: str,
    gathering: Script,
    *,
    patience: ServiceTimeouts,
    fetches: int = 0,
) -> Script:
    """Build the script that locks the host, imports `change.reg`, and reads the host again with `gathering`.

    Before that, curl.exe tries `fetch-0.txt` and so on, `fetches` files, until one succeeds. With the argument `job`, the
    script stops and starts the plan's services; a separate task calls it so, independent of the connection. Raises
    NotExpressible.
    """
    restarts = needs_background_job(plan)
    if restarts:
        handing_over = read_template("hand-over.cmd")
    elif plan.forget:
        handing_over = f'{_UNLESS_UNWRITTEN if plan.writes else ""}"%REG%" delete "{LEDGER}" /f /reg:64 >nul 2>nul'
    else:
        handing_over = ""
    content = render_script(
        "change.cmd",
        {
            "TAG": owner.tag,
            "ID": pass_id,
            "BOOTING": _render_boot_mark(),
            "LEDGER": LEDGER,
            "STATEHASH": _read_state_hash(actual),
            "IDENTITY": owner.identity,
            "OWNER": owner.lock_text,
            "GENERATION": "-" if owner.generation is None else str(owner.generation),
            "GATHER": gathering.name,
            "WAIT": str(patience.compute_total_seconds(plan)),
            "SCAN": str(SCAN_SECONDS),
            "IMPORT": read_template("import.cmd") if plan.edits else "",
            "WRITE": "\n".join(_iter_write_calls(plan)),
            "WRITING": fill_template("writing.cmd", {"LEDGER": LEDGER}) if plan.writes else "",
            "JOB": handing_over,
            "WITHDRAW": "call :withdraw" if restarts else "",
            "FETCHING": _render_fetch_block(fetches),
            "RESTARTING": _render_background_job(plan, actual, patience, pass_id) if restarts else "",
            **build_access_blocks(plan, actual, owner, pass_id),
            **build_work_blocks(plan),
        },
    )
    return Script("change.cmd", content)


def _iter_write_calls(plan: Plan) -> Iterator[str]:
    for number, write in enumerate(plan.writes):
        size = "new" if write.present_size is None else str(write.present_size)
        yield f"call :write {number} {_quote_path(write.path)} {size} {write.ledger_line or '-'}"


def iter_written_files(plan: Plan) -> Iterator[Script]:
    """Yield the contents of the files that the script writes."""
    for number, write in enumerate(plan.writes):
        if write.content is not None:
            yield Script(f"write-{number}.txt", write.content)


def _read_state_hash(actual: ObservedState) -> str:
    """Read the state hash of the ledger as observed; a value that is not a hash is unknown."""
    value = actual.registry.find_value(LEDGER, "StateHash")
    if value is None:
        return "none"
    state_hash = value.decode_text()
    return f"said-{state_hash}" if _HASH.fullmatch(state_hash) else "unknown"


def needs_background_job(plan: Plan) -> bool:
    """Return True if a plan needs a job that continues without the connection."""
    return bool(plan.stop or plan.start or plan.install)


def build_task_file(directory: str) -> Script:
    """Build the `schtasks` file of a task that runs the change script's job in `directory` of the base directory."""
    text = fill_template("task.xml", {"PASS": directory})
    return Script("task.xml", text.replace("\n", "\r\n").encode("utf-16"))


def build_fetch_script(directory: str, fetches: int) -> Script:
    """Build the script that tries the fetches in `directory` of the base directory and prints their results."""
    return Script("fetch.cmd", render_script("fetch-alone.cmd", {"PASS": directory, "FETCHING": _render_fetch_block(fetches)}))


def _render_boot_mark() -> str:
    return fill_template("boot-mark.cmd", {"BOOT": BOOT, "BOOTMARK": BOOT_MARK})


def _render_fetch_block(count: int) -> str:
    return fill_template("fetch.cmd", {"MARK": MARK, "FETCHES": _render_fetch_calls(count)}) if count else ""


def _render_fetch_calls(count: int) -> str:
    return "\n".join(f"call :fetch {number}\nif defined FETCHED goto fetched" for number in range(count))


def _render_background_job(plan: Plan, actual: ObservedState, patience: ServiceTimeouts, pass_id: str) -> str:
    text = fill_template("job.cmd", _build_restart_values(plan, actual, patience) | build_job_blocks(plan, pass_id))
    return text if plan.install.reversal is None else f"{text}\n{_render_reversal(plan, patience, pass_id)}"


def _build_restart_values(plan: Plan, actual: ObservedState, patience: ServiceTimeouts) -> dict[str, str]:
    notes, numbers = _read_restart_notes(plan, actual), _number_services(plan)
    reversible = plan.install.reversal is not None
    flags = [f'set "SKIP_{numbers[name]}=1"' for name in plan.stop if notes.get(name) == "check"]
    flags += [f'set "DONE_{numbers[name]}=1"' for name in plan.start if not is_listed(name, plan.stop)]
    stops = [
        f'call :stop {numbers[name]} "{_require_script_safe_name(name)}" {notes.get(name, "running")} '
        f"{_format_service_limits(patience, patience.get_stop_seconds(name))}\nif defined STUCK goto starts"
        for name in plan.stop
    ]
    return {
        "RESTARTS": RESTARTS,
        "SERVICES": SERVICES,
        "FLAGS": "\n".join(flags),
        "ENABLED": _render_enabled_checks(plan),
        "STOPS": "\n".join(stops),
        "STARTS": _render_service_starts(
            plan.start, numbers, patience, list_restarted_services(plan.stop, plan.start) if reversible else ()
        ),
        "SETTLE": read_template("reversible.cmd") if reversible else "",
        "FORGET": _render_ledger_deletion(plan),
    }


def _render_ledger_deletion(plan: Plan) -> str:
    """Render the deletion of the ledger, which stays if a service did not stop: payload files were not removed then."""
    if not plan.forget:
        return ""
    guard = "if not defined STUCK " if plan.install else ""
    guard += _UNLESS_UNWRITTEN if plan.writes else ""
    return f'{guard}if not defined UNWELL "%REG%" delete "{LEDGER}" /f /reg:64 >nul 2>nul'


def _render_enabled_checks(plan: Plan) -> str:
    """Render the checks for disabled services before one is stopped.

    Services that the plan configures or removes may be disabled.
    """
    own = FoldedDict.from_names((*(made.name for made in plan.install.configure), *plan.install.delete))
    calls = [f'call :enabled "{_require_script_safe_name(name)}"' for name in plan.stop if name not in own]
    return "\n".join((*calls, "if defined STUCK goto starts")) if calls else ""


def _format_service_limits(patience: ServiceTimeouts, seconds: int) -> str:
    return f"{seconds} {patience.get_idle_seconds(seconds)} {patience.compute_service_seconds(seconds)}"


def _render_reversal(plan: Plan, patience: ServiceTimeouts, pass_id: str) -> str:
    """Render the check that restarted services run again, and the reversal for the case that they do not."""
    numbers = _number_services(plan)
    calls = {name: f'{numbers[name]} "{_require_script_safe_name(name)}"' for name in (*plan.stop, *plan.start)}
    values = {
        "ID": pass_id,
        "STEADY": str(patience.steady),
        "LOOKS": "\n".join(f"call :alive {calls[name]}" for name in list_restarted_services(plan.stop, plan.start)),
        "OWED": "\n".join(f"call :owe {calls[name]}" for name in plan.stop),
        "HALTS": "\n".join(
            f"call :halt {calls[name]} {_format_service_limits(patience, patience.get_stop_seconds(name))}"
            for name in reversed(plan.start)
        ),
        "REVERSAL": "\n".join(iter_reversal_steps(plan.install)),
        "AGAIN": _render_service_starts(tuple(reversed(plan.stop)), numbers, patience),
    }
    return fill_template("reversing.cmd", values)


def _number_services(plan: Plan) -> FoldedDict[int]:
    return FoldedDict((name, number) for number, name in enumerate(dict.fromkeys((*plan.stop, *plan.start))))


def _render_service_starts(
    names: Sequence[str], numbers: Mapping[str, int], patience: ServiceTimeouts, needed: Sequence[str] = ()
) -> str:
    """`needed` are those without which the others need not be started."""
    lines = []
    for name in names:
        call = f'{numbers[name]} "{_require_script_safe_name(name)}"'
        lines.append(
            f"call :start {call} {_format_service_limits(patience, patience.get_start_seconds(name, needed=name in needed))}"
        )
        if name in needed:
            lines.append(f"if defined DOWN call :alive {call}\nif defined LOST goto undone")
    return "\n".join(lines)


def _read_restart_notes(plan: Plan, actual: ObservedState) -> FoldedDict[str]:
    """Return the note of each service once the plan's edits are imported: `running` or `check`, by name."""
    present = actual.registry.find_key(RESTARTS)
    edits = [edit for edit in plan.edits if is_same(edit.path, RESTARTS)]
    key = Registry([present] if present else []).apply_edits(edits).find_key(RESTARTS)
    notes = (key.values or {}).values() if key else ()
    return FoldedDict((note.name, note.value.decode_text()) for note in notes)


def _require_script_safe_name(name: str) -> str:
    if not _SERVICE_IN_JOB.fullmatch(name):
        raise NotExpressible(f"the service name {name!r} has characters that a script cannot hold; restart it by hand")
    return name


def render_secure_block(base: Base) -> str:
    """Render the block that first closes the base directory; an existing one must belong to an administrator."""
    if base == "closed":
        return ""
    whose = "" if base == "made" else f"{_render_owner_check(BASE)}if errorlevel 1 goto refused"
    return fill_template("secure.cmd", {"WHOSE": whose})


def build_access_blocks(plan: Plan, actual: ObservedState, owner: Owner, pass_id: str) -> dict[str, str]:
    """Build the blocks before the first import: remove an earlier version's directory, close the ledger."""
    known = actual.registry.find_key(LEDGER) is not None
    former = {"WHOSE": _render_owner_check(FORMER), "BURIED": _render_owner_check("%~1"), "TAG": owner.tag, "ID": pass_id}
    closing = _should_close_ledger(plan)
    return {
        "REMOVE": "call :former" if known else "",
        "REMOVING": fill_template("former.cmd", former) if known else "",
        "CLOSE": "call :close\nif defined OPEN goto unclosed" if closing else "",
        "CLOSING": fill_template("close.cmd", {"LEDGER": LEDGER}) if closing else "",
    }


def iter_permission_files(plan: Plan, registry: Registry) -> Iterator[Script]:
    """Yield the input of `regini`: the existing ledger keys, each with access for SYSTEM and Administrators only.

    Microsoft, "How to Use Regini.exe to Set Permissions on Registry Keys" (Q237607), has the form and the numbers.
    """
    if _should_close_ledger(plan):
        keys = (LEDGER, *(key.path for key in registry.list_keys_below(LEDGER)))
        paths = (key.removeprefix("HKEY_LOCAL_MACHINE") for key in keys)
        yield Script("close.txt", "".join(f"\\Registry\\Machine{path} [1 17]\r\n" for path in paths).encode("utf-16"))


def _should_close_ledger(plan: Plan) -> bool:
    return has_access_lockdown_edit((*plan.edits, *plan.prepared, *plan.pending))


def _render_owner_check(directory: str) -> str:
    return read_template("whose.cmd").replace("@DIRECTORY@", directory)
