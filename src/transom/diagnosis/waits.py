"""What conditions ask somebody to do, and no other check finds."""

from collections.abc import Iterator
from typing import Final

from transom.diagnosis import Observed, Seen, Value, at, conditions, label_of, name_of
from transom.reasons import REASONS, next_step, page_of

_ELSEWHERE: Final = frozenset(
    (
        *("HostKeyChanged", "PendingRestart", "PendingBoot", "ManagedByOther", "Outdated", "CommitNeeded"),
        *("Invalid", "InvalidSpec", "SettingsInvalid", "SettingsMissing", "KeyMissing", "OutsideNamespace"),
        *("NoNamespaceSelector", "HostsFailed", "RolloutHalted"),
    )
)
"""Reasons that have a check of their own, or that stand for others: hosts that failed, and why a rollout was halted."""


def waits_for_you(seen: Observed) -> Iterator[Seen]:
    """A condition whose reason ends once somebody did something: a host that takes no key, an endpoint that does not answer."""
    found: dict[tuple[str, str], list[tuple[Value, str]]] = {}
    for kind, objects in (("EgressProxy", seen.of("EgressProxy")), ("WindowsInstance", seen.own("WindowsInstance"))):
        for one in objects:
            if at(one, "spec", "paused") is not True:
                for reason, message in _asking(one).items():
                    found.setdefault((kind, reason), []).append((one, message))
    for (kind, reason), told in found.items():
        first, message = told[0]
        more = f" and {len(told) - 1:,} more" if len(told) > 1 else ""
        name, address = ("", "") if more else (name_of(first), str(at(first, "spec", "address") or ""))
        step = next_step(reason, name, seen.namespace, address)
        yield Seen(label_of(kind, first) + more, f"{reason}: {message}", step, page_of(reason))


def _asking(one: Value) -> dict[str, str]:
    """The reasons that ask for something, each with its first message: Ready has those of others."""
    found: dict[str, str] = {}
    for said in conditions(one):
        reason = str(said.get("reason"))
        if reason in REASONS and REASONS[reason].heals == "after" and reason not in _ELSEWHERE:
            found.setdefault(reason, str(said.get("message") or REASONS[reason].meaning))
    return found
