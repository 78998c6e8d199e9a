r"""The cmd scripts that run on a host, rendered from what is to be read or changed; what they answer is in `results`.

No value stands in a script: names of keys and services, numbers, and our own identity. What the remote shell is asked to run
is `cmd.exe /d /c PATH`, the path made of letters, digits, `\`, `:`, `.`, `_` and `-`, so that cmd and PowerShell read it alike.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from transom.hosts.errors import NotExpressible
from transom.hosts.owner import Owner
from transom.hosts.scripts.install_script import job_blocks, reversal_steps, work_blocks
from transom.hosts.scripts.template import BASE, FORMER, Script, filled, render, template
from transom.windows.host import ObservedState
from transom.windows.host.queries import BOOT, BOOT_MARK, ENVIRONMENT, LEDGER, RESTARTS, SERVICES, Queries
from transom.windows.ledger import closes
from transom.windows.nodes.fetch import MARK
from transom.windows.parts.installation import ran
from transom.windows.planning import Plan
from transom.windows.registry import Registry
from transom.windows.registry.names import FoldedDict, listed, same

_SERVICE = re.compile(r"[A-Za-z0-9_.-]+")
# a service of somebody else's may have blanks and more in its name, but nothing that cmd reads, and no letter whose code
# page would matter
_SERVICE_IN_JOB = re.compile(r"[A-Za-z0-9_.$@#+,;=~()\[\]{}' -]+")
_KEY = re.compile(r"HKEY_LOCAL_MACHINE(?:\\[A-Za-z0-9_.(){}# -]+)+")
_HASH = re.compile(r"[0-9a-f]{0,128}")
PROMPT = r"C:\Windows\System32\cmd.exe"
"""What is run in the place of a script where a line is handed over on standard input."""
_COMMAND = re.compile(r"cmd\.exe /d /c [A-Za-z0-9\\:._-]+")
Base = Literal["made", "found", "closed"]
"""Whether the base directory was made by this pass, was found there, or is known to be closed to others."""


class Patience(msgspec.Struct, frozen=True):
    """How long the restarts may take, in seconds; a service's own figures, by its name in lower case, override the others."""

    stop: int = 60
    start: int = 60
    services: Mapping[str, int] = {}
    steady: int = 10
    """For how long what was replaced has to run before its former version goes."""

    def stopping(self, name: str) -> int:
        """Seconds for `name` to stop."""
        return self.services.get(name.casefold(), self.stop)

    def starting(self, name: str) -> int:
        """Seconds for `name` to run."""
        return self.services.get(name.casefold(), self.start)

    def total(self, plan: Plan) -> int:
        """Seconds that the restarts of a plan may take together; looking costs time as well as waiting."""
        once = (
            60
            + 10 * len(plan.install.create + plan.install.configure + plan.install.delete)
            + 2 * (sum(map(self.stopping, plan.stop)) + sum(map(self.starting, plan.start)))
        )
        return once if plan.install.reversal is None else 2 * once + 2 * self.steady


def command(path: str) -> str:
    """What the remote shell is asked to run for the script at `path`."""
    line = rf"cmd.exe /d /c {path}"
    if not _COMMAND.fullmatch(line):
        raise NotExpressible(f"{path!r} is no path of a script")
    return line


@lru_cache(maxsize=256)
def gather(questions: Queries, owner: Owner, base: Base = "closed") -> Script:
    """The script that reads the answers to `questions`; its name carries the hash of its content. Raises NotExpressible.

    Where the base directory is not known to be closed, it closes it first; one that was found has to be an administrator's.
    """
    content = render(
        "gather.cmd",
        {
            "TAG": owner.tag,
            "LEDGER": LEDGER,
            "SERVICES": SERVICES,
            "SECURE": secured(base),
            "BOOTING": _booting(),
            "QUESTIONS": "\n".join(_calls(questions)),
        },
    )
    return Script(f"gather-{hashlib.sha256(content).hexdigest()[:12]}.cmd", content)


def _calls(questions: Queries) -> Iterator[str]:
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
        yield f'call :walk walk-{number} "{_key(place)}" "{part},{part + 1},{part + 2}"'
        walked.update(stores)
        for path in stores:
            yield f'if not defined WALKED call :query store-{questions.stores.index(path)} "{_key(path)}"'
    for number, path in enumerate(questions.stores):
        if path not in walked:
            yield f'call :query store-{number} "{_key(path)}"'
    for number, path in enumerate(questions.keys):
        yield f'call :export key-{number} "{_key(path)}"'
    for number, name in enumerate(questions.services):
        if not _SERVICE.fullmatch(name):
            raise NotExpressible(f"the service name {name!r} is not made of letters, digits, '.', '_' and '-' alone")
        yield f'call :service service-{number} "{name}"'


def _key(path: str) -> str:
    if not _KEY.fullmatch(path):
        raise NotExpressible(f"the registry key {path!r} cannot be named in a script")
    return path


def change(
    plan: Plan, actual: ObservedState, owner: Owner, pass_id: str, gathering: Script, *, patience: Patience, fetches: int = 0
) -> Script:
    """The script that takes the host, imports `change.reg`, and reads the host again with `gathering`.

    Before that it lets curl.exe read `fetch-0.txt` and so on, `fetches` files, until one of them brings something.
    Called with `job` it stops and starts the plan's services; a task of its own calls it so, apart from the connection.
    Raises NotExpressible.
    """
    restarts = hands_over(plan)
    if restarts:
        handing_over = template("hand-over.cmd")
    elif plan.forget:
        handing_over = f'"%REG%" delete "{LEDGER}" /f /reg:64 >nul 2>nul'
    else:
        handing_over = ""
    content = render(
        "change.cmd",
        {
            "TAG": owner.tag,
            "ID": pass_id,
            "BOOTING": _booting(),
            "LEDGER": LEDGER,
            "STATEHASH": _state_hash(actual),
            "IDENTITY": owner.identity,
            "OWNER": owner.line,
            "GENERATION": "-" if owner.generation is None else str(owner.generation),
            "GATHER": gathering.name,
            "WAIT": str(patience.total(plan)),
            "IMPORT": template("import.cmd") if plan.edits else "",
            "JOB": handing_over,
            "FETCHING": _fetching(fetches),
            "RESTARTING": _job(plan, actual, patience, pass_id) if restarts else "",
            **access_blocks(plan, actual, owner, pass_id),
            **work_blocks(plan),
        },
    )
    return Script("change.cmd", content)


def _state_hash(actual: ObservedState) -> str:
    """What the ledger said when the host was read; a host that says something else than a hash is not believed."""
    value = actual.registry.value(LEDGER, "StateHash")
    if value is None:
        return "none"
    said = value.text()
    return f"said-{said}" if _HASH.fullmatch(said) else "unknown"


def hands_over(plan: Plan) -> bool:
    """Whether a plan has a job that goes on without the connection."""
    return bool(plan.stop or plan.start or plan.install)


def task(directory: str) -> Script:
    """What `schtasks` reads: a task that runs the job of the change script in `directory` of the base directory."""
    text = filled("task.xml", {"PASS": directory})
    return Script("task.xml", text.replace("\n", "\r\n").encode("utf-16"))


def fetch(directory: str, fetches: int) -> Script:
    """The script that tries the fetches in `directory` of the base directory, and prints what became of them."""
    return Script("fetch.cmd", render("fetch-alone.cmd", {"PASS": directory, "FETCHING": _fetching(fetches)}))


def _booting() -> str:
    return filled("boot-mark.cmd", {"BOOT": BOOT, "BOOTMARK": BOOT_MARK})


def _fetching(count: int) -> str:
    return filled("fetch.cmd", {"MARK": MARK, "FETCHES": _fetches(count)}) if count else ""


def _fetches(count: int) -> str:
    return "\n".join(f"call :fetch {number}\nif defined FETCHED goto fetched" for number in range(count))


def _job(plan: Plan, actual: ObservedState, patience: Patience, pass_id: str) -> str:
    text = filled("job.cmd", _restarts(plan, actual, patience) | job_blocks(plan, pass_id))
    return text if plan.install.reversal is None else f"{text}\n{_reversing(plan, patience, pass_id)}"


def _restarts(plan: Plan, actual: ObservedState, patience: Patience) -> dict[str, str]:
    notes, numbers = _notes(plan, actual), _numbers(plan)
    reversible = plan.install.reversal is not None
    flags = [f'set "SKIP_{numbers[name]}=1"' for name in plan.stop if notes.get(name) == "check"]
    flags += [f'set "DONE_{numbers[name]}=1"' for name in plan.start if not listed(name, plan.stop)]
    stops = [
        f'call :stop {numbers[name]} "{_service_in_job(name)}" {notes.get(name, "running")} '
        f"{patience.stopping(name)}\nif defined STUCK goto starts"
        for name in plan.stop
    ]
    return {
        "RESTARTS": RESTARTS,
        "FLAGS": "\n".join(flags),
        "STOPS": "\n".join(stops),
        "STARTS": _starts(plan.start, numbers, patience, ran(plan.stop, plan.start) if reversible else ()),
        "SETTLE": template("reversible.cmd") if reversible else "",
        "FORGET": f'if not defined UNWELL "%REG%" delete "{LEDGER}" /f /reg:64 >nul 2>nul' if plan.forget else "",
    }


def _reversing(plan: Plan, patience: Patience, pass_id: str) -> str:
    """Whether what ran runs again is looked at, and what is done where it does not."""
    numbers = _numbers(plan)
    calls = {name: f'{numbers[name]} "{_service_in_job(name)}"' for name in (*plan.stop, *plan.start)}
    values = {
        "ID": pass_id,
        "STEADY": str(patience.steady),
        "LOOKS": "\n".join(f"call :alive {calls[name]}" for name in ran(plan.stop, plan.start)),
        "OWED": "\n".join(f"call :owe {calls[name]}" for name in plan.stop),
        "HALTS": "\n".join(f"call :halt {calls[name]} {patience.stopping(name)}" for name in reversed(plan.start)),
        "REVERSAL": "\n".join(reversal_steps(plan.install)),
        "AGAIN": _starts(tuple(reversed(plan.stop)), numbers, patience),
    }
    return filled("reversing.cmd", values)


def _numbers(plan: Plan) -> FoldedDict[int]:
    return FoldedDict((name, number) for number, name in enumerate(dict.fromkeys((*plan.stop, *plan.start))))


def _starts(names: Sequence[str], numbers: Mapping[str, int], patience: Patience, needed: Sequence[str] = ()) -> str:
    """`needed` are those without which the others need not be started."""
    lines = []
    for name in names:
        call = f'{numbers[name]} "{_service_in_job(name)}"'
        lines.append(f"call :start {call} {patience.starting(name)}")
        if name in needed:
            lines.append(f"if defined DOWN call :alive {call}\nif defined LOST goto undone")
    return "\n".join(lines)


def _notes(plan: Plan, actual: ObservedState) -> FoldedDict[str]:
    """The note of each service once the plan's edits are imported: `running` or `check`, by name."""
    present = actual.registry.key(RESTARTS)
    edits = [edit for edit in plan.edits if same(edit.path, RESTARTS)]
    key = Registry([present] if present else []).apply(edits).key(RESTARTS)
    notes = (key.values or {}).values() if key else ()
    return FoldedDict((note.name, note.value.text()) for note in notes)


def _service_in_job(name: str) -> str:
    if not _SERVICE_IN_JOB.fullmatch(name):
        raise NotExpressible(f"the service name {name!r} has characters that a script cannot hold; restart it by hand")
    return name


def secured(base: Base) -> str:
    """What closes the base directory before anything else is done; one that was found has to be an administrator's."""
    if base == "closed":
        return ""
    whose = "" if base == "made" else f"{_whose(BASE)}if errorlevel 1 goto refused"
    return filled("secure.cmd", {"WHOSE": whose})


def access_blocks(plan: Plan, actual: ObservedState, owner: Owner, pass_id: str) -> dict[str, str]:
    """What is done before the first import: an earlier version's directory goes, the ledger is closed."""
    known = actual.registry.key(LEDGER) is not None
    former = {"WHOSE": _whose(FORMER), "BURIED": _whose("%~1"), "TAG": owner.tag, "ID": pass_id}
    closing = _closes(plan)
    return {
        "REMOVE": "call :former" if known else "",
        "REMOVING": filled("former.cmd", former) if known else "",
        "CLOSE": "call :close\nif defined OPEN goto unclosed" if closing else "",
        "CLOSING": filled("close.cmd", {"LEDGER": LEDGER}) if closing else "",
    }


def closing_files(plan: Plan, registry: Registry) -> Iterator[Script]:
    """What `regini` reads: the ledger's keys that are there, each with the list of SYSTEM and Administrators.

    Microsoft, "How to Use Regini.exe to Set Permissions on Registry Keys" (Q237607), has the form and the numbers.
    """
    if _closes(plan):
        keys = (LEDGER, *(key.path for key in registry.below(LEDGER)))
        paths = (key.removeprefix("HKEY_LOCAL_MACHINE") for key in keys)
        yield Script("close.txt", "".join(f"\\Registry\\Machine{path} [1 17]\r\n" for path in paths).encode("utf-16"))


def _closes(plan: Plan) -> bool:
    return closes((*plan.edits, *plan.prepared, *plan.pending))


def _whose(directory: str) -> str:
    return template("whose.cmd").replace("@DIRECTORY@", directory)
