"""What OpenShift's `Proxy/cluster` is told of, in events: nothing of Transom is written on it."""

from collections.abc import Iterable

from transom.controllers.egress import status
from transom.controllers.egress.events import tell
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.gate import Gate
from transom.kube.events import Regarding
from transom.kube.objects import Whole
from transom.kube.resources import OPENSHIFT_PROXIES
from transom.proxy.finding import Finding
from transom.readiness import failures

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
