"""The parts of scripts that keep ordinary users of a host out: of Transom's directory, of its ledger, of what it runs."""

from collections.abc import Iterator
from typing import Literal

from transom.hosts.owner import Owner
from transom.hosts.scripts.template import BASE, FORMER, Script, filled, template
from transom.windows.host.queries import LEDGER
from transom.windows.host.state import ObservedState
from transom.windows.ledger.ledger import closes
from transom.windows.planning.plan import Plan
from transom.windows.registry.registry import Registry

Base = Literal["made", "found", "closed"]
"""Whether the base directory was made by this pass, was found there, or is known to be closed to others."""


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


def files(plan: Plan, registry: Registry) -> Iterator[Script]:
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
