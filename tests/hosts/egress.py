"""A planner that is small enough to be seen through: one value of one service's environment, and a ledger."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from tests.hosts.machines import FIRST, SECOND, Host

from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import EVERYBODY, Admit, PassResult, PassSettings
from transom.hosts.passes.converge import Convergence
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Timeouts
from transom.windows.host.host_state import ObservedState, Step
from transom.windows.host.queries import LEDGER, RESTARTS, SERVICES, Queries
from transom.windows.planning.planner import Plan
from transom.windows.registry.edits import DeleteValue, Edit, SetValue
from transom.windows.registry.values import build_dword, build_multi_sz, build_sz

PASSWORD = 'hunter2%PATH%^&!"\\é x'
VALUE = f"HTTPS_PROXY=http://alice:{PASSWORD}@proxy:3128"
ENVIRONMENT = rf"{SERVICES}\{FIRST}"
QUESTIONS = Queries(services=(FIRST, SECOND), boot=True)
ALICE, BOB = Owner("alice@laptop-1f", "pid 41"), Owner("bob@desk-2e", "pid 42")


def wants(value: str | None) -> Callable[[ObservedState], Plan]:
    """The first service has `value` alone as its environment, or none and no ledger; whoever was stopped runs again."""

    def plan(state: ObservedState) -> Plan:
        edits: list[Edit] = []
        wanted = None if value is None else build_multi_sz([value])
        known = state.registry.find_key(LEDGER) is not None
        if wanted is not None and not known:
            edits.append(SetValue(LEDGER, "Version", build_dword(1)))
        if wanted != state.registry.find_value(ENVIRONMENT, "Environment"):
            edits.append(
                DeleteValue(ENVIRONMENT, "Environment") if wanted is None else SetValue(ENVIRONMENT, "Environment", wanted)
            )
            if wanted is not None:
                edits.append(SetValue(LEDGER, "StateHash", build_sz(hashlib.sha256(wanted.data).hexdigest()[:32])))
            notes = {FIRST: "running", SECOND: "check"}
            held = state.registry.find_key(RESTARTS)
            edits += [SetValue(RESTARTS, name, build_sz(note)) for name, note in notes.items() if not (held and held.get(name))]
        after = state.registry.apply_edits(edits).find_key(RESTARTS)
        owing = tuple(name for name in (SECOND, FIRST) if after and after.get(name))
        steps = (Step("service-environment", f"{FIRST}: HTTPS_PROXY", "add", "set"),) if edits else ()
        return Plan(steps, tuple(edits), stop=owing, start=owing[::-1], forget=value is None and known)

    return plan


def settings(owner: Owner = ALICE, *, progress: float = 30, claims: Path | None = None, stop: int = 60) -> PassSettings:
    return PassSettings(owner, claims, Timeouts(60, progress, 300), ServiceTimeouts(stop=stop, start=60))


async def apply(
    host: Host, value: str | None, made: PassSettings | None = None, *, dry_run: bool = False, admit: Admit = EVERYBODY
) -> PassResult:
    convergence = Convergence(made or settings(), QUESTIONS, wants(value), dry_run=dry_run, admit=admit)
    return await convergence.run(host.access, NoHostKeys())
