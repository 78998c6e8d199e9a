"""A planner that is small enough to be seen through: one value of one service's environment, and a ledger."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from tests.hosts.machines import FIRST, SECOND, Host

from transom.hosts.owner import Owner
from transom.hosts.passes import EVERYBODY, Admit, PassResult, PassSettings
from transom.hosts.passes.converge import converge
from transom.hosts.scripts import Patience
from transom.hosts.ssh import Timeouts
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.windows.host import ObservedState, Step
from transom.windows.host.queries import LEDGER, RESTARTS, SERVICES, Queries
from transom.windows.planning import Plan
from transom.windows.registry.edits import DeleteValue, Edit, SetValue
from transom.windows.registry.values import dword, multi_sz, sz

PASSWORD = 'hunter2%PATH%^&!"\\é x'
VALUE = f"HTTPS_PROXY=http://alice:{PASSWORD}@proxy:3128"
ENVIRONMENT = rf"{SERVICES}\{FIRST}"
QUESTIONS = Queries(services=(FIRST, SECOND), boot=True)
ALICE, BOB = Owner("alice@laptop-1f", "pid 41"), Owner("bob@desk-2e", "pid 42")


def wants(value: str | None) -> Callable[[ObservedState], Plan]:
    """The first service has `value` alone as its environment, or none and no ledger; whoever was stopped runs again."""

    def plan(state: ObservedState) -> Plan:
        edits: list[Edit] = []
        wanted = None if value is None else multi_sz([value])
        known = state.registry.key(LEDGER) is not None
        if wanted is not None and not known:
            edits.append(SetValue(LEDGER, "Version", dword(1)))
        if wanted != state.registry.value(ENVIRONMENT, "Environment"):
            edits.append(
                DeleteValue(ENVIRONMENT, "Environment") if wanted is None else SetValue(ENVIRONMENT, "Environment", wanted)
            )
            if wanted is not None:
                edits.append(SetValue(LEDGER, "StateHash", sz(hashlib.sha256(wanted.data).hexdigest()[:32])))
            notes = {FIRST: "running", SECOND: "check"}
            held = state.registry.key(RESTARTS)
            edits += [SetValue(RESTARTS, name, sz(note)) for name, note in notes.items() if not (held and held.get(name))]
        after = state.registry.apply(edits).key(RESTARTS)
        owing = tuple(name for name in (SECOND, FIRST) if after and after.get(name))
        steps = (Step("service-environment", f"{FIRST}: HTTPS_PROXY", "add", "set"),) if edits else ()
        return Plan(steps, tuple(edits), stop=owing, start=owing[::-1], forget=value is None and known)

    return plan


def settings(owner: Owner = ALICE, *, progress: float = 30, claims: Path | None = None, stop: int = 60) -> PassSettings:
    return PassSettings(owner, claims, Timeouts(60, progress, 300), Patience(stop=stop, start=60))


async def apply(
    host: Host, value: str | None, made: PassSettings | None = None, *, dry_run: bool = False, admit: Admit = EVERYBODY
) -> PassResult:
    return await converge(
        host.access,
        NoHostKeys(),
        made or settings(),
        QUESTIONS,
        planner=wants(value),
        dry_run=dry_run,
        admit=admit,
    )
