"""Events about settings: what became wrong, and what is right again."""

from collections.abc import Mapping
from typing import Any, Final

from transom.controllers.runtime.conditions import Conditions
from transom.kube.events import EventRecorder, Regarding

_BAD: Final = {"Valid": "InvalidSettings", "EndpointsAnswer": "EndpointFailed"}
"""The conditions that are told, and the reason of the event for each that is False."""
_HALTED: Final = "RolloutHalted"
"""A condition that is bad where it is True; its message counts hosts, so that it is told once for each reason."""


def tell(
    regarding: Regarding, before: Mapping[Any, Mapping[str, Any]], conditions: Conditions, recorder: EventRecorder
) -> None:
    """Tell what is another than `before`: conditions by type, each with its status and message."""
    for type_, bad in _BAD.items():
        condition, was = conditions.get(type_), before.get(type_) or {}
        if condition is None:
            continue
        if condition.status == "False" and (was.get("status") != "False" or was.get("message") != condition.message):
            recorder.warning(regarding, bad, condition.message)
        elif condition.status == "True" and was.get("status") == "False":
            recorder.normal(regarding, type_, condition.message)
    halted, was = conditions.get(_HALTED), before.get(_HALTED) or {}
    if halted is not None and halted.status == "True" and (was.get("status"), was.get("reason")) != ("True", halted.reason):
        recorder.warning(regarding, _HALTED, halted.message)
