"""What was seen of the checks of `transom verify`, and where: `docs/verified.yaml`, and the tables in the pages."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from transom.common.check_results import Claim
from transom.hosts.passes.rehearsal import STEPS
from transom.hosts.passes.verification import VerificationResult
from transom.hosts.steps.change_checks import CLEAR, build_change_checks
from transom.hosts.steps.checks import CHECKS

CLAIMS: tuple[Claim, ...] = (*CHECKS, *build_change_checks("", b""), CLEAR, *STEPS)
"""All that can be checked, in order."""
BEGIN, END = "<!-- made by scripts/reference: checks -->", "<!-- end -->"
_SIMULATED = "simulated "
_HEADER = "| check | claim | source | what fails where it is wrong | seen |\n|---|---|---|---|---|\n"


class MachineResults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one machine answered. A `stub` passes there because a program does nothing: that proves nothing."""

    checks: Mapping[str, Literal["pass", "fail", "not applicable", "stub"]]
    date: str = ""
    """ISO 8601; empty for a bench of the tests, which is seen at each run of them."""


def parse_record(text: bytes) -> dict[str, MachineResults]:
    """Parse the machines by name, real ones by their build. Raises msgspec.ValidationError."""
    return msgspec.yaml.decode(text, type=dict[str, MachineResults]) if text.strip() else {}


class NotWindows(Exception):
    """What answered is a stand-in for Windows; `str` says which."""


def add_to_record(text: bytes, verified: VerificationResult, date: str) -> bytes:
    """Return the file with the answers of this machine, which replace those of an earlier one with its build."""
    if verified.origin.stand_in:
        raise NotWindows(verified.origin.stand_in)
    machines = parse_record(text)
    former = machines.get(name := format_machine_name(verified))
    checks = dict(former.checks) if former else {}
    machines[name] = MachineResults(checks | {check.id: check.verdict for check in verified.checks}, date)
    return msgspec.yaml.encode(machines)


def format_machine_name(verified: VerificationResult) -> str:
    """Return the name of a machine in the file: all that tells one kind of Windows from another."""
    origin = verified.origin
    language = f"language {origin.language}" if origin.language else ""
    return " ".join(("Windows", *filter(None, (verified.build, origin.edition, language, origin.ssh_server))))


def update_results_page(page: str, seen: Mapping[str, MachineResults], claims: Sequence[Claim] = CLAIMS) -> str:
    """Return the page with an updated table."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    rows = "".join(
        f"| `{claim.id}` | {_format_cell(claim.claim)} | {_format_cell(claim.source)} | "
        f"{_format_cell(claim.otherwise)} | {_format_machines(claim.id, seen)} |\n"
        for claim in claims
    )
    return f"{head}{BEGIN}\n{_HEADER}{rows}{END}{tail}"


def _format_cell(text: str) -> str:
    return text.replace("|", "\\|")


def _format_machines(check: str, seen: Mapping[str, MachineResults]) -> str:
    """Return the machines on which a check passed and those on which it failed."""
    passed = {name: item for name, item in seen.items() if item.checks.get(check) == "pass"}
    failed = {name: item for name, item in seen.items() if item.checks.get(check) == "fail"}
    every = sum(name.startswith(_SIMULATED) for name in seen)
    return "; ".join((*_list_machines(passed, every), *(f"not on {name}" for name in _list_machines(failed, every))))


def _list_machines(seen: Mapping[str, MachineResults], every: int) -> list[str]:
    """Return the names, with dates for real ones; simulated ones are joined as `simulated` if there are `every` of them."""
    others = [f"{name} ({item.date})" if item.date else name for name, item in seen.items() if not name.startswith(_SIMULATED)]
    simulated = [name.removeprefix(_SIMULATED) for name in seen if name.startswith(_SIMULATED)]
    if not simulated:
        return others
    return [*others, "simulated" if len(simulated) == every else f"simulated: {', '.join(simulated)}"]
