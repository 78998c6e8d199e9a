"""Events about settings: what became wrong, and what is right again, on an EgressProxy and on OpenShift's `Proxy/cluster`."""

from collections.abc import Iterable, Mapping
from typing import Final

from transom.controllers.egress import status
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.gate import Gate
from transom.kube.events import EventRecorder, Regarding
from transom.kube.objects import Whole
from transom.kube.resources import OPENSHIFT_PROXIES
from transom.proxy.finding import Finding
from transom.proxy.status import StatusCondition
from transom.readiness import failures

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


_WELL = Conditions(
    Valid=Condition("True", "Valid", "the settings are valid"),
    EndpointsAnswer=Condition("True", "EndpointsAnswer", "the change is no longer held back"),
)


class ToldOfProxy:
    """What it was told last by this process: a restart tells once more what is still wrong."""

    def __init__(self) -> None:
        self._last: Conditions = dict(_WELL)

    def tell(self, proxy: Whole, findings: Iterable[Finding], gate: Gate, leadership: Leadership) -> None:
        """Tell what is wrong with it, or no longer, where that is another than the last word."""
        found = status.concerning_proxy(proxy.value.get("spec") or {}, findings)
        conditions = {"Valid": status.validity_of_proxy(found), "EndpointsAnswer": _WELL["EndpointsAnswer"]}
        if gate.waiting is not None and failures(gate.answers):
            conditions["EndpointsAnswer"] = status.held_back(gate.answers)
        meta = proxy.metadata
        regarding = Regarding(OPENSHIFT_PROXIES.api_version, OPENSHIFT_PROXIES.kind, meta.name, None, meta.uid)
        tell(regarding, self._last, conditions, leadership.recorder)
        self._last = conditions
