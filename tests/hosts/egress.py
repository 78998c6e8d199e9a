"""A planner that is small enough to be seen through: one value of one service's environment, and a ledger."""

from collections.abc import Callable
from pathlib import Path

from tests.hosts.machines import FIRST, SECOND, Host

from transom.hosts.connection import Timeouts
from transom.hosts.converge import converge
from transom.hosts.known_hosts import NoHostKeys
from transom.hosts.owner import Owner
from transom.hosts.passes import PassResult, Settings
from transom.hosts.script import Patience
from transom.windows.gathering import LEDGER, RESTARTS, SERVICES, Questions
from transom.windows.plan import Plan
from transom.windows.registry import DeleteValue, Edit, SetValue, dword, multi_sz, sz
from transom.windows.state import HostState
from transom.windows.steps import Step

PASSWORD = 'hunter2%PATH%^&!"\\é x'
VALUE = f"HTTPS_PROXY=http://alice:{PASSWORD}@proxy:3128"
ENVIRONMENT = rf"{SERVICES}\{FIRST}"
QUESTIONS = Questions(services=(FIRST, SECOND), boot=True)
ALICE, BOB = Owner("alice@laptop-1f", "pid 41"), Owner("bob@desk-2e", "pid 42")


def wants(value: str | None) -> Callable[[HostState], Plan]:
    """The first service has `value` alone as its environment, or none and no ledger; whoever was stopped runs again."""

    def plan(state: HostState) -> Plan:
        edits: list[Edit] = []
        wanted = None if value is None else multi_sz([value])
        known = state.registry.key(LEDGER) is not None
        if wanted is not None and not known:
            edits.append(SetValue(LEDGER, "Version", dword(1)))
        if wanted != state.registry.value(ENVIRONMENT, "Environment"):
            edits.append(
                DeleteValue(ENVIRONMENT, "Environment") if wanted is None else SetValue(ENVIRONMENT, "Environment", wanted)
            )
            notes = {FIRST: "running", SECOND: "check"}
            held = state.registry.key(RESTARTS)
            edits += [SetValue(RESTARTS, name, sz(note)) for name, note in notes.items() if not (held and held.get(name))]
        after = state.registry.apply(edits).key(RESTARTS)
        owing = tuple(name for name in (SECOND, FIRST) if after and after.get(name))
        steps = (Step("service-environment", f"{FIRST}: HTTPS_PROXY", "add", "set"),) if edits else ()
        return Plan(steps, tuple(edits), stop=owing, start=owing[::-1], forget=value is None and known)

    return plan


def settings(owner: Owner = ALICE, *, progress: float = 30, claims: Path | None = None, stop: int = 20) -> Settings:
    return Settings(owner, claims, Timeouts(10, progress, 120), Patience(stop=stop, start=20))


async def apply(host: Host, value: str | None, made: Settings | None = None, *, dry_run: bool = False) -> PassResult:
    return await converge(
        host.access, NoHostKeys(), made or settings(), QUESTIONS, planner=wants(value), missing=lambda *_: None, dry_run=dry_run
    )
