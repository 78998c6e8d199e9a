"""Scripts as they are put on hosts, of each kind."""

from transom.hosts.owner import Owner
from transom.hosts.scripts import host_scripts
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import LEDGER, SERVICES, STORES, Queries
from transom.windows.planning.planner import Plan
from transom.windows.registry.edits import SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_dword, build_multi_sz

ALICE = Owner("alice@laptop-1f", "pid 42")
ROOT = STORES + r"\ROOT\Certificates"
ALL = Queries(
    services=("containerd", "cloud-node-manager"), environment=True, boot=True, stores=(ROOT,), keys=(LEDGER,), dependants=True
)
SECRET = 'HTTPS_PROXY=http://u:hunter2%^&!"\\é x@proxy:3128'
EDITS = (
    SetValue(SERVICES + r"\containerd", "Environment", build_multi_sz([SECRET])),
    SetValue(LEDGER, "Version", build_dword(1)),
)


NOTHING = ObservedState(Registry())
DEFAULT_PATIENCE = ServiceTimeouts()


def changing(plan: Plan, actual: ObservedState = NOTHING, patience: ServiceTimeouts = DEFAULT_PATIENCE) -> host_scripts.Script:
    return host_scripts.build_change_script(
        plan, actual, ALICE, "0badcafe", host_scripts.build_gather_script(ALL, ALICE), patience=patience
    )


def rendered() -> list[host_scripts.Script]:
    plan = Plan(edits=EDITS, stop=("My Dependant", "containerd"), start=("containerd", "My Dependant"), forget=True)
    gathering = host_scripts.build_gather_script(ALL, ALICE)
    return [
        gathering,
        host_scripts.build_gather_script(ALL, ALICE, "made"),
        changing(plan),
        changing(Plan(edits=EDITS)),
        changing(Plan(forget=True)),
    ]
