"""The reboot of a Windows node, as part of a verification: what is run there, and what shows that the node is back.

Kubernetes' own test does the same (kubernetes/kubernetes test/e2e/windows/reboot_node.go), and waits for restarted containers.
"""

from collections.abc import Sequence
from typing import Final

from transom.common.check_results import CheckResult, Verdict
from transom.verification.objects import REBOOT, Node
from transom.verification.probe_state import ProbeState

COMMAND: Final = ("shutdown.exe", "/r", "/t", "10", "/d", "p:0:0", "/c", "transom verify cluster --reboot")
"""Microsoft, "shutdown": `/r` restarts, `/t` waits, which implies `/f`, and `/d p:` is a planned restart.

Of a running container, by an exec: a container whose own command it is would run it again after the reboot.
"""
_SHOWN: Final = 3


def find_node_problem(nodes: Sequence[Node], name: str) -> str:
    """Return why a node cannot be rebooted, or would not be recognized afterwards; empty if it can."""
    node = next((node for node in nodes if node.name == name), None)
    if node is None:
        return f"the cluster has no node {name}"
    if node.os != "windows":
        return f"{name} is not a Windows node"
    if not node.ready:
        return f"{name} is not Ready"
    if not node.boot_id:
        return f"{name} reports no status.nodeInfo.bootID, which would show the reboot"
    return ""


def find_pod_problem(standing: ProbeState) -> str:
    """Return why the container that reboots the node cannot do so; empty if it can."""
    pod = next(iter(standing.list_pods(REBOOT)), None)
    if pod is None or not pod.runs:
        return f"its HostProcess container does not run: {(pod.waiting if pod else '') or 'no reason was reported'}"
    return ""


def has_rebooted(before: Node, now: Node | None) -> bool:
    """Return True if a node has booted again and is Ready.

    The kubelet of Windows takes bootID from a counter of boots in the registry (kubernetes v1.36.3
    pkg/kubelet/winstats/perfcounter_nodestats_windows.go, `getBootID`).
    """
    return now is not None and now.ready and bool(now.boot_id) and now.boot_id != before.boot_id


def describe_wait(before: Node, now: Node | None) -> str:
    """Return what a node that is not back yet still lacks."""
    if now is None:
        return f"{before.name} does not exist any more"
    if now.boot_id == before.boot_id:
        return f"{before.name} has not booted yet" + ("" if now.ready else ": not Ready")
    return f"{before.name} has booted and is not Ready"


def list_old_pods(before: ProbeState, now: ProbeState, node: str) -> tuple[str, ...]:
    """List the pods of a node that still have the container from before its reboot: their state is that of then."""
    containers = {pod.name: pod.container_id for pod in before.pods if pod.node == node and pod.container_id}
    return tuple(pod.name for pod in now.pods if containers.get(pod.name) == pod.container_id and pod.name in containers)


def judge_reboot(node: str, seconds: float, old_pods: Sequence[str], results: Sequence[CheckResult]) -> tuple[Verdict, str]:
    """Judge the checks that passed before a reboot, made once more. `seconds`: after which the node was Ready again."""
    ready = f"{node} was Ready again after {seconds:.0f} s"
    failed = [result for result in results if result.verdict != "pass"]
    if not failed and not old_pods:
        return "pass", f"{ready}, and {len(results)} checks pass as before"
    problems = [f"{', '.join(old_pods)} did not start again"] if old_pods else []
    problems += [f"{result.id} fails: {result.seen}" for result in failed[:_SHOWN]]
    if len(failed) > _SHOWN:
        problems.append(f"and {len(failed) - _SHOWN} more: {', '.join(result.id for result in failed[_SHOWN:])}")
    return "fail", f"{ready}; {'; '.join(problems)}"
