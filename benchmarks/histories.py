"""One host over time, at random: `python -m benchmarks.histories [--runs N] [--first SEED] [--mutants | --no-mutants]`.

Each seed is a history of settings, cuts, boots and administrators (`tests/windows/planning/histories.py`), lived on a model
host with the real planner. One that fails is shortened, printed, and kept in `tests/windows/planning/kept.json`, which the
tests run. Then each mutant of the code has to be found within 300 histories. Exit code 1 where a history fails, or one lives.
"""

import argparse
import functools
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.windows.planning.histories import History, drawn
from tests.windows.planning.life import fault, shortest

from transom.windows import ledger
from transom.windows.host.queries import LEDGER, RESTARTS
from transom.windows.parts import downtime, environment, environment_items, powershell, registry_value, trust
from transom.windows.parts.environment import Environments
from transom.windows.parts.environment_items import DesiredItems, MachineVariable, ServiceVariable
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.parts.powershell import OwnBlock, _ProfileMerge
from transom.windows.planning import planner
from transom.windows.planning.planner import Plan
from transom.windows.registry.edits import Edit

KEPT = Path(__file__).parent.parent / "tests" / "windows" / "planning" / "kept.json"
_WITHIN = 300
_AT_ONCE = 25


def _no_former(set_: str, former: str, was: Any, mask: int | None) -> ServiceVariable:
    return ServiceVariable(set_, "", was, mask)


def _nothing_before(set_: str, former: str, was: Any, mask: int | None) -> ServiceVariable:
    return ServiceVariable(set_, former, (), mask)


def _no_machine_before(set_: str, former: str, boot: int | None, was: Any, *, booted: bool) -> MachineVariable:
    return MachineVariable(set_, former, boot, None, booted=booted)


def _no_former_value(real: Callable[..., Any], *arguments: Any) -> Any:
    entry, edits, step = real(*arguments)
    return entry and msgspec.structs.replace(entry, former=""), edits, step


def _no_restarts(real: Callable[..., Environments], entry: Environments, draft: PlanBuilder) -> Environments:
    after = real(entry, draft)
    draft.restarts.clear()
    return after


def _left_certificate(draft: PlanBuilder, store: str, sha1: str, entries: dict[str, Any]) -> None:
    del entries[sha1]


def _no_masks(real: Callable[..., Any], recorded: Any, draft: PlanBuilder) -> tuple[Any, dict[str, DesiredItems]]:
    return real(recorded, draft)[0], {}


def _values_first(real: Callable[..., Plan], *arguments: Any, **options: Any) -> Plan:
    planned = real(*arguments, **options)
    return msgspec.structs.replace(planned, edits=tuple(sorted(planned.edits, key=lambda edit: edit.path.startswith(LEDGER))))


def _lines_but(path: str, real: Callable[..., tuple[Edit, ...]], *arguments: Any) -> tuple[Edit, ...]:
    return tuple(edit for edit in real(*arguments) if edit.path != path)


def _block_without(real: Callable[..., OwnBlock], fields: dict[str, Any], *arguments: Any) -> OwnBlock:
    return msgspec.structs.replace(real(*arguments), **fields)


def _entered_without(**fields: Any) -> Callable[..., OwnBlock]:
    real = _ProfileMerge._set_block
    return lambda merge, wanted: _block_without(real, fields, merge, wanted)


def _of_this_boot_alone(self: MachineVariable, boot: int | None) -> bool:
    return self.gone is None and self.boot != boot


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "a service's line forgets what a cut leaves": (environment_items, "ServiceVariable", _no_former),
    "a service's line forgets what was there before": (environment_items, "ServiceVariable", _nothing_before),
    "the machine's line forgets what was there before": (environment_items, "MachineVariable", _no_machine_before),
    "WinHTTP's line forgets what a cut leaves": (
        registry_value,
        "merge",
        functools.partial(_no_former_value, registry_value.merge_value),
    ),
    "no restart when an environment changes": (
        environment,
        "plan",
        functools.partial(_no_restarts, environment.plan),
    ),
    "no restart when a certificate comes": (trust, "_restart_trusting_services", lambda draft: None),
    "no restart of a service that is managed later": (downtime, "_restart_newly_managed", lambda entry, draft: None),
    "a certificate is left": (trust, "_remove_trust", _left_certificate),
    "keys that were made are not noted": (trust, "_record_created_keys", lambda draft, store: None),
    "what services have from a boot is not hidden": (
        environment,
        "_plan_machine",
        functools.partial(_no_masks, environment._plan_machine),
    ),
    "what services had before this boot's change is forgotten": (MachineVariable, "is_inherited", _of_this_boot_alone),
    "a service made anew is taken for the former one": (
        environment_items,
        "_is_recreated_service",
        lambda value, entry, digest: False,
    ),
    "the ledger's lines come after the values": (planner, "plan", functools.partial(_values_first, planner.plan)),
    "the ledger forgets who owes a restart": (
        ledger,
        "build_edits",
        functools.partial(_lines_but, RESTARTS, ledger.build_edits),
    ),
    "the ledger forgets what was put off": (
        ledger,
        "build_edits",
        functools.partial(_lines_but, downtime.DEFERRED, ledger.build_edits),
    ),
    "the profile's line forgets what a cut leaves": (_ProfileMerge, "_set_block", _entered_without(former="")),
    "the profile's line forgets the block that was there before": (_ProfileMerge, "_set_block", _entered_without(was=None)),
    "the profile's line forgets that the file was made": (_ProfileMerge, "_set_block", _entered_without(created=False)),
    "the profile's line forgets the line end that was added": (_ProfileMerge, "_set_block", _entered_without(joined=False)),
    "an execution policy that does not load the profile is not reported": (
        powershell,
        "describe_unloaded",
        lambda desired, registry: "",
    ),
}
"""What is wrong with the code: the object, the name in it, and what stands there instead."""


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """The code with one mutant in it."""
    place, attribute, instead = MUTANTS[name]
    real = getattr(place, attribute)
    setattr(place, attribute, instead)
    try:
        yield
    finally:
        setattr(place, attribute, real)


def failing(seeds: Sequence[int]) -> list[tuple[int, str, bytes]]:
    """The seeds whose histories fail: how, and the shortest history that does."""
    found = []
    for seed in seeds:
        history = drawn(random.Random(seed))
        if fault(history) is not None:
            history = shortest(history)
            found.append((seed, fault(history) or "", msgspec.json.encode(history)))
    return found


def first_found(name: str) -> tuple[str, int | None, str]:
    """How many histories it takes to find a mutant, and how it shows; None: more than 300."""
    with mutated(name):
        for seed in range(_WITHIN):
            wrong = fault(drawn(random.Random(seed)))
            if wrong is not None:
                return name, seed + 1, wrong
    return name, None, ""


def keep(histories: Sequence[bytes]) -> None:
    """Writes histories to those that the tests run."""
    known = msgspec.json.decode(KEPT.read_bytes(), type=list[History])
    more = [item for item in (msgspec.json.decode(history, type=History) for history in histories) if item not in known]
    lines = b",\n".join(msgspec.json.encode(item) for item in (*known, *more))
    KEPT.write_bytes(b"[\n" + lines + b"\n]\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--mutants", action=argparse.BooleanOptionalAction, help="them alone, or not at all")
    arguments = parser.parse_args()
    begun, wrong = time.monotonic(), False
    with multiprocessing.get_context("spawn").Pool() as pool:
        if arguments.mutants is not True:
            last = arguments.first + arguments.runs
            parts = [range(first, min(first + _AT_ONCE, last)) for first in range(arguments.first, last, _AT_ONCE)]
            found = [item for part in pool.imap_unordered(failing, parts) for item in part]
            print(f"{arguments.runs} histories in {time.monotonic() - begun:.0f} s: {len(found)} fail")
            for seed, how, history in sorted(found):
                print(f"  seed {seed}: {how}\n    {history.decode()}")
            if found:
                keep([history for _, _, history in sorted(found)])
            wrong = bool(found)
        if arguments.mutants is not False:
            for name, number, how in pool.imap(first_found, MUTANTS):
                print(f"  {name}: " + (f"found by history {number} ({how[:60]})" if number else f"lives after {_WITHIN}"))
                wrong = wrong or number is None
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
