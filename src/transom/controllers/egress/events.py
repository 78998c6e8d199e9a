"""Events about settings: what became wrong, and what is right again."""

from collections.abc import Mapping
from typing import Final

from transom.controllers.runtime.conditions import Condition, Conditions
from transom.kube.events import EventRecorder, Regarding
from transom.proxy.status import StatusCondition

_BAD: Final = {"Valid": "InvalidSettings", "EndpointsAnswer": "EndpointFailed"}
"""The conditions that are told, and the reason of the event for each that is False."""
_HALTED: Final = "RolloutHalted"
"""A condition that is bad where it is True; its message counts hosts, so that it is told once for each reason."""
_SILENT: Final = StatusCondition()


def tell(
    regarding: Regarding, before: Mapping[str, Condition | StatusCondition], conditions: Conditions, recorder: EventRecorder
) -> None:
    """Tell what is another than `before`: conditions by type."""
    for type_, bad in _BAD.items():
        condition, was = conditions.get(type_), before.get(type_, _SILENT)
        if condition is None:
            continue
        if condition.status == "False" and (was.status != "False" or was.message != condition.message):
            recorder.warning(regarding, bad, condition.message)
        elif condition.status == "True" and was.status == "False":
            recorder.normal(regarding, type_, condition.message)
    halted, was = conditions.get(_HALTED), before.get(_HALTED, _SILENT)
    if halted is not None and halted.status == "True" and (was.status, was.reason) != ("True", halted.reason):
        recorder.warning(regarding, _HALTED, halted.message)
