"""What OpenShift's `Proxy/cluster` is told of, in events: nothing of Transom is written on it."""

from collections.abc import Iterable

from transom.controllers.conditions import Verdict, Verdicts
from transom.controllers.egress import status
from transom.controllers.egress.gate import Gate
from transom.controllers.egress.telling import tell
from transom.controllers.term import Term
from transom.kube.events import Regarding
from transom.kube.objects import Whole
from transom.kube.resources import OPENSHIFT_PROXIES
from transom.proxy.finding import Finding
from transom.readiness import failures

_WELL = Verdicts(
    Valid=Verdict("True", "Valid", "the settings are valid"),
    Ready=Verdict("True", "EndpointsAnswer", "the change is no longer held back"),
)


class ToldOfProxy:
    """What it was told last by this process: a restart tells once more what is still wrong."""

    def __init__(self) -> None:
        self._last: Verdicts = dict(_WELL)

    def tell(self, proxy: Whole, findings: Iterable[Finding], gate: Gate, term: Term) -> None:
        """Tell what is wrong with it, or no longer, where that is another than the last word."""
        found = status.concerning_proxy(proxy.value.get("spec") or {}, findings)
        verdicts = {"Valid": status.validity_of_proxy(found), "Ready": _WELL["Ready"]}
        if gate.waiting is not None and failures(gate.answers):
            verdicts["Ready"] = status.held_back(gate.answers)
        meta = proxy.metadata
        regarding = Regarding(OPENSHIFT_PROXIES.api_version, OPENSHIFT_PROXIES.kind, meta.name, None, meta.uid)
        before = {type_: {"status": one.status, "message": one.message} for type_, one in self._last.items()}
        tell(regarding, before, verdicts, term.recorder)
        self._last = verdicts
