"""Scripts as they are put on hosts, of each kind."""

from transom.hosts import scripts
from transom.hosts.owner import Owner
from transom.hosts.scripts import Patience
from transom.windows.host import ObservedState
from transom.windows.host.queries import LEDGER, SERVICES, STORES, Queries
from transom.windows.planning import Plan
from transom.windows.registry import Registry
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import dword, multi_sz

ALICE = Owner("alice@laptop-1f", "pid 42")
ROOT = STORES + r"\ROOT\Certificates"
ALL = Queries(
    services=("containerd", "cloud-node-manager"), environment=True, boot=True, stores=(ROOT,), keys=(LEDGER,), dependants=True
)
SECRET = 'HTTPS_PROXY=http://u:hunter2%^&!"\\é x@proxy:3128'
EDITS = (SetValue(SERVICES + r"\containerd", "Environment", multi_sz([SECRET])), SetValue(LEDGER, "Version", dword(1)))


def changing(plan: Plan, actual: ObservedState = ObservedState(Registry()), patience: Patience = Patience()) -> scripts.Script:  # noqa: B008
    return scripts.change(plan, actual, ALICE, "0badcafe", scripts.gather(ALL, ALICE), patience=patience)


def rendered() -> list[scripts.Script]:
    plan = Plan(edits=EDITS, stop=("My Dependant", "containerd"), start=("containerd", "My Dependant"), forget=True)
    gathering = scripts.gather(ALL, ALICE)
    return [
        gathering,
        scripts.gather(ALL, ALICE, "made"),
        changing(plan),
        changing(Plan(edits=EDITS)),
        changing(Plan(forget=True)),
    ]
