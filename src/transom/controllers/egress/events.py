"""Events about settings: what became wrong, and what is right again, on an EgressProxy and on OpenShift's `Proxy/cluster`."""

from collections.abc import Iterable, Mapping
from typing import Final

from transom.controllers.egress import status
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.gate import SettingsGate
from transom.http.readiness import has_failures
from transom.kube.events import EventRecorder, Regarding
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import OPENSHIFT_PROXIES
from transom.proxy.finding import Finding
from transom.proxy.status import StatusCondition

_BAD: Final = {"Valid": "InvalidSettings", "EndpointsAnswer": "EndpointFailed"}
"""The reported conditions, and the reason of the event for each that is False."""
_HALTED: Final = "RolloutHalted"
"""A condition that is bad if it is True; its message counts hosts, so it is reported once for each reason."""
_REFUSED: Final = "PodsRefused"
"""The reason of PodsInjected with which the API server refuses pods."""
_SILENT: Final = StatusCondition()


def record_condition_events(
    regarding: Regarding, previous: Mapping[str, Condition | StatusCondition], conditions: Conditions, recorder: EventRecorder
) -> None:
    """Report changes from `previous`: conditions by type."""
    for type_, bad in _BAD.items():
        condition, was = conditions.get(type_), previous.get(type_, _SILENT)
        if condition is None:
            continue
        if condition.status == "False" and (was.status != "False" or was.message != condition.message):
            recorder.record_warning(regarding, bad, condition.message)
        elif condition.status == "True" and was.status == "False":
            recorder.record_normal(regarding, type_, condition.message)
    halted, was = conditions.get(_HALTED), previous.get(_HALTED, _SILENT)
    if halted is not None and halted.status == "True" and (was.status, was.reason) != ("True", halted.reason):
        recorder.record_warning(regarding, _HALTED, halted.message)
    injected, was = conditions.get("PodsInjected"), previous.get("PodsInjected", _SILENT)
    if injected is not None and (injected.reason == _REFUSED) != (was.reason == _REFUSED):
        if injected.reason == _REFUSED:
            recorder.record_warning(regarding, _REFUSED, injected.message)
        else:
            recorder.record_normal(regarding, "PodsAdmitted", injected.message)


_WELL = Conditions(
    Valid=Condition("True", "Valid", "the settings are valid"),
    EndpointsAnswer=Condition("True", "EndpointsAnswer", "the change is no longer held back"),
)


class ReportedProxyState:
    """The state of OpenShift's Proxy that this process last reported. After a restart, problems are reported again."""

    def __init__(self) -> None:
        self._last: Conditions = dict(_WELL)

    def report(
        self, proxy: UnstructuredObject, findings: Iterable[Finding], gate: SettingsGate, leadership: Leadership
    ) -> None:
        """Report its problems, or their end, if that differs from the last report."""
        relevant_findings = status.select_proxy_findings(proxy.value.get("spec") or {}, findings)
        conditions = {"Valid": status.build_proxy_validity(relevant_findings), "EndpointsAnswer": _WELL["EndpointsAnswer"]}
        if gate.waiting is not None and has_failures(gate.answers):
            conditions["EndpointsAnswer"] = status.build_pending_endpoints_condition(gate.answers)
        meta = proxy.metadata
        regarding = Regarding(OPENSHIFT_PROXIES.api_version, OPENSHIFT_PROXIES.kind, meta.name, None, meta.uid)
        record_condition_events(regarding, self._last, conditions, leadership.recorder)
        self._last = conditions
