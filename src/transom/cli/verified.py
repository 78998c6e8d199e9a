"""What was seen of the checks of `transom verify`, and where: `docs/verified.yaml`, and the tables in the pages."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from transom.checked import Claim
from transom.hosts.passes.rehearsal import STEPS
from transom.hosts.passes.verification import Verified
from transom.hosts.steps.checks import CHECKS
from transom.hosts.steps.trials import CLEAR, trials

CLAIMS: tuple[Claim, ...] = (*CHECKS, *trials("", b""), CLEAR, *STEPS)
"""All that can be checked, in order."""
BEGIN, END = "<!-- made by scripts/reference: checks -->", "<!-- end -->"
_SIMULATED = "simulated "
_HEADER = "| check | claim | source | what fails where it is wrong | seen |\n|---|---|---|---|---|\n"


class Answered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one machine answered. A `stub` passes there because a program does nothing: that proves nothing."""

    checks: Mapping[str, Literal["pass", "fail", "not applicable", "stub"]]
    date: str = ""
    """ISO 8601; empty for a bench of the tests, which is seen at each run of them."""


def read(text: bytes) -> dict[str, Answered]:
    """The machines by name, the real ones by their build. Raises msgspec.ValidationError."""
    return msgspec.yaml.decode(text, type=dict[str, Answered]) if text.strip() else {}


def recorded(text: bytes, verified: Verified, date: str) -> bytes:
    """The file with what this machine answered, in the place of what one of its build did before."""
    found = read(text)
    former = found.get(name := f"Windows {verified.build}")
    checks = dict(former.checks) if former else {}
    found[name] = Answered(checks | {one.id: one.verdict for one in verified.checks}, date)
    return msgspec.yaml.encode(found)


def page_with_checks(page: str, seen: Mapping[str, Answered], claims: Sequence[Claim] = CLAIMS) -> str:
    """The page with its table made anew."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    rows = "".join(
        f"| `{one.id}` | {_cell(one.claim)} | {_cell(one.source)} | {_cell(one.otherwise)} | {_where(one.id, seen)} |\n"
        for one in claims
    )
    return f"{head}{BEGIN}\n{_HEADER}{rows}{END}{tail}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _where(check: str, seen: Mapping[str, Answered]) -> str:
    """On which machines it passed; on which it failed."""
    passed = {name: one for name, one in seen.items() if one.checks.get(check) == "pass"}
    failed = {name: one for name, one in seen.items() if one.checks.get(check) == "fail"}
    every = sum(name.startswith(_SIMULATED) for name in seen)
    return "; ".join((*_machines(passed, every), *(f"not on {name}" for name in _machines(failed, every))))


def _machines(seen: Mapping[str, Answered], every: int) -> list[str]:
    """Their names, real ones with the date; the simulated ones together, `simulated` where it is `every` one."""
    others = [f"{name} ({one.date})" if one.date else name for name, one in seen.items() if not name.startswith(_SIMULATED)]
    simulated = [name.removeprefix(_SIMULATED) for name in seen if name.startswith(_SIMULATED)]
    if not simulated:
        return others
    return [*others, "simulated" if len(simulated) == every else f"simulated: {', '.join(simulated)}"]
