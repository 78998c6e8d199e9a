"""Whether a rollout is halted, and how far the operator is with the request to resume it. Pure."""

from typing import Final

import msgspec

from transom.common.mappings import get_nested_value
from transom.controllers.rollout.rollouts import CONDITION
from transom.diagnosis.fields import get_condition, get_name
from transom.diagnosis.host_requests import HostProgress, is_paused
from transom.diagnosis.overview import build_host_row
from transom.diagnosis.snapshot import Value
from transom.rollout.markers import parse_markers

PUT_BACK: Final = "PutBack"
"""The reason of a host whose new payload does not run: it keeps the former one until that is resumed, or another comes."""


class RolloutState(msgspec.Struct, frozen=True):
    """The state of the rollouts of a cluster at one moment. `base` is EgressProxy/cluster, if it exists."""

    base: Value | None
    instances: tuple[Value, ...]

    @property
    def halted(self) -> str:
        """Return why no further host is changed; empty if none is halted."""
        if self.base is not None:
            halted = get_condition(self.base, CONDITION)
            if halted.get("status") == "True":
                return str(halted.get("message") or CONDITION)
        reasons = (PUT_BACK,) if self.base is not None else (CONDITION, PUT_BACK)
        left = [
            get_name(instance) for instance in self.instances if get_condition(instance, "Configured").get("reason") in reasons
        ]
        return f"left unchanged: {', '.join(left)}" if left else ""


def get_rollout_progress(before: RolloutState, now: RolloutState) -> HostProgress:
    """Return how far the operator is: whether it has taken the rollouts up again since `before`, and whether hosts are done."""
    if now.halted:
        if _list_halting_changes(now) - _list_halting_changes(before) or _get_halted_since(now) != _get_halted_since(before):
            return HostProgress("failed", f"halted again: {now.halted}")
        return HostProgress("waiting", f"the operator has not resumed it yet ({now.halted})")
    if now.base is not None:
        total, updated = (get_nested_value(now.base, "status", "hosts", field) or 0 for field in ("total", "updated"))
        have = f"{updated:,} of {total:,} hosts have the settings"
        return HostProgress("done", f"resumed, {have}") if updated == total else HostProgress("waiting", have)
    behind = [
        get_name(instance) for instance in now.instances if not is_paused(instance) and build_host_row(instance).ready != "True"
    ]
    return HostProgress("waiting", f"not ready: {', '.join(behind[:5])}") if behind else HostProgress("done", "resumed, Ready")


def _list_halting_changes(state: RolloutState) -> set[tuple[str, str]]:
    """Return the changes that hosts have halted: once resumed, the same settings are another change."""
    markers = (mark for instance in state.instances for mark in parse_markers(get_nested_value(instance, "status", "changes")))
    return {(mark.kind, mark.change) for mark in markers if mark.halted}


def _get_halted_since(state: RolloutState) -> object:
    return get_nested_value(get_condition(state.base or {}, CONDITION), "lastTransitionTime")
