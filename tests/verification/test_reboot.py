"""`transom verify cluster --reboot`: a cluster in memory whose nodes boot when they are told to."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from transom.common.check_results import CheckResult
from transom.kube.client import Client, Listing
from transom.kube.errors import ConnectionFailed, NotFound, build_status_error
from transom.kube.objects import ObjectMeta, UnstructuredObject
from transom.kube.pod_exec import CommandResult
from transom.kube.resources import NAMESPACES, NODES, PODS, SERVICES
from transom.verification.checks import CHECKS
from transom.verification.cluster_verification import VerificationTimeouts, validate_with_server, verify_cluster
from transom.verification.objects import (
    AGNHOST_IMAGE,
    APP,
    HOST,
    REBOOT,
    STORE,
    Node,
    VerificationRequest,
    build_namespace,
    iter_objects,
)
from transom.verification.reboot import COMMAND, find_node_problem, has_rebooted, judge_reboot

QUICK = VerificationTimeouts(starting=0.3, rebooting=0.3, every=0.001, beat=3600, silent=0, ending=60, gone=60)
IMAGE = AGNHOST_IMAGE


def wanted(reboot: str = "win-1", **more: Any) -> VerificationRequest:
    return VerificationRequest("transom-verify-1", IMAGE, IMAGE, reboot=reboot, **more)


class Cluster(Client):
    """One Windows node and one of Linux, with kubelets that run every pod at once."""

    def __init__(self) -> None:
        super().__init__(cast(Any, None))
        self.boots = 7
        self.ready = True
        self.looks = 0
        """How often the rebooting node was looked at."""
        self.pods: dict[str, dict[str, Any]] = {}
        self.services: dict[str, dict[str, Any]] = {}
        self.namespace: str | None = None
        self.commands: list[tuple[str, tuple[str, ...]]] = []
        self.on_shutdown: Callable[[], CommandResult] = self.shut_down
        self.restarts = True
        self.answers_after = True
        """Whether containers answer after the reboot."""

    def shut_down(self) -> CommandResult:
        """The node goes with its containers, and is back after some looks."""
        self.ready = False
        return CommandResult(0, "", "")

    def boot(self) -> None:
        self.boots, self.ready = self.boots + 1, True

    def look(self) -> None:
        self.looks += 1
        if not self.ready and self.looks > 5:
            self.boot()

    def nodes(self) -> list[dict[str, Any]]:
        def node(name: str, os: str, *, ready: bool, boot: str) -> dict[str, Any]:
            conditions = [{"type": "Ready", "status": str(ready)}]
            info = {"kernelVersion": "10.0.20348.1", "bootID": boot}
            return {
                "metadata": {"name": name, "labels": {"kubernetes.io/os": os}},
                "status": {"conditions": conditions, "nodeInfo": info},
            }

        return [
            node("lin-1", "linux", ready=True, boot="a-b-c"),
            node("win-1", "windows", ready=self.ready, boot=str(self.boots)),
            node("win-2", "windows", ready=True, boot="3"),
        ]

    def pod(self, value: dict[str, Any]) -> dict[str, Any]:
        here = value["spec"]["nodeName"] == "win-1"
        number = self.boots if here and self.restarts else 0
        status = {
            "podIP": "10.1.0.5",
            # until its kubelet is back, the API server has the state of before
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"imageID": IMAGE, "containerID": f"containerd://{number}", "state": {"running": {}}}],
        }
        return {**value, "status": status}

    async def list_objects(self, resource: Any, namespace: Any = None, **options: Any) -> Listing[Any]:
        values: list[dict[str, Any]] = []
        if resource is NODES:
            values = [
                node
                for node in self.nodes()
                if options.get("fields") in ("", None, f"metadata.name={node['metadata']['name']}")
            ]
            if options.get("fields"):
                self.look()
        elif resource is PODS:
            values = [self.pod(value) for value in self.pods.values()]
        elif resource is SERVICES:
            values = list(self.services.values())
        return Listing([UnstructuredObject(ObjectMeta(value["metadata"]["name"]), value) for value in values], [], "7")

    async def request(self, method: str, path: str, query: Any = None, body: Any = None, **_: Any) -> bytes:
        if method == "GET":
            return b"Started HTTP server"
        assert method == "POST"
        if query != {"dryRun": "All"}:
            name = body["metadata"]["name"]
            if body["kind"] == "Namespace":
                self.namespace = name
            elif body["kind"] == "Pod":
                self.pods[name] = body
            else:
                self.services[name] = {**body, "spec": {**body["spec"], "clusterIP": "10.96.0.7"}}
        return b"{}"

    async def get(self, resource: Any, name: str, namespace: Any = None) -> Any:
        assert resource is NAMESPACES
        if self.namespace is None:
            raise NotFound(404, "", "gone")
        return UnstructuredObject(ObjectMeta(name), {})

    async def delete(self, resource: Any, name: str, namespace: Any = None, **_: Any) -> None:
        self.namespace = None

    async def execute(self, namespace: str, pod: str, command: Any, seconds: float = 0) -> CommandResult:
        self.commands.append((pod, tuple(command)))
        if tuple(command) == COMMAND:
            return self.on_shutdown()
        on_rebooted = self.pods[pod]["spec"]["nodeName"] == "win-1" and self.boots > 7
        if on_rebooted and not self.answers_after:
            return CommandResult(1, "TIMEOUT", "")
        app = self.pods[pod]["metadata"]["labels"][APP]
        text = {STORE: f"transom-verify\r\n{pod}", HOST: "C:\\hpc\\"}.get(app, "ContainerUser")
        return CommandResult(0, text, "")

    @property
    def shutdowns(self) -> list[str]:
        return [pod for pod, command in self.commands if "shutdown.exe" in command]


async def rebooted(cluster: Cluster, asked: VerificationRequest | None = None, **more: Any) -> CheckResult:
    results = await verify_cluster(cluster, asked or wanted(), timeouts=QUICK, **more)
    assert cluster.namespace is None
    (result,) = [result for result in results if result.id == "reboot"]
    return result


async def test_a_node_that_reboots_well() -> None:
    cluster, lines, noted = Cluster(), list[str](), list[str]()
    result = await rebooted(cluster, print_progress=lines.append, rebooting=noted.append)
    assert result.verdict == "pass", result.seen
    assert (cluster.shutdowns, cluster.boots, noted) == ([REBOOT], 8, ["win-1", ""])
    # what was asked before is asked again
    asked = [question for question in cluster.commands if question[1] != COMMAND]
    half = len(asked) // 2
    assert sorted(asked[:half]) == sorted(asked[half:])
    assert [line for line in lines if "win-1 reboots, and all of its pods with it" in line]
    assert [line for line in lines if "not booted yet: not Ready" in line]


async def test_without_the_option_no_node_reboots() -> None:
    cluster = Cluster()
    result = await rebooted(cluster, wanted(reboot="", host_process=True))
    assert (result.verdict, result.seen) == ("not applicable", "not asked for: --reboot")
    assert (cluster.shutdowns, REBOOT in cluster.pods) == ([], False)


@pytest.mark.parametrize(
    ("node", "words"), [("win-9", "has no node win-9"), ("lin-1", "is not a Windows node"), ("win-1", "is not Ready")]
)
async def test_a_node_that_cannot_be_rebooted(node: str, words: str) -> None:
    cluster = Cluster()
    cluster.ready = node != "win-1"
    result = await rebooted(cluster, wanted(node))
    assert (result.verdict, cluster.shutdowns) == ("fail", [])
    assert words in result.seen and result.seen.startswith("nothing was rebooted")


async def test_a_node_that_refuses() -> None:
    cluster, noted = Cluster(), list[str]()
    cluster.on_shutdown = lambda: CommandResult(5, "", "Access is denied.(5)")
    result = await rebooted(cluster, rebooting=noted.append)
    assert (result.verdict, result.seen, noted[-1]) == ("fail", "win-1 was not rebooted: Access is denied.(5)", "")
    assert cluster.looks == 0


def refuse() -> CommandResult:
    raise build_status_error(403, "", "pods/exec is forbidden")


def lose() -> CommandResult:
    raise ConnectionFailed("the connection was closed")


async def test_the_api_server_refuses_the_command() -> None:
    cluster = Cluster()
    cluster.on_shutdown = refuse
    result = await rebooted(cluster)
    assert result.verdict == "fail" and "was not rebooted: pods/exec is forbidden" in result.seen
    assert cluster.looks == 0


async def test_the_answer_to_the_command_is_lost() -> None:
    """The node may reboot all the same, so it is waited for."""
    cluster = Cluster()

    def go_and_lose() -> CommandResult:
        cluster.shut_down()
        return lose()

    cluster.on_shutdown = go_and_lose
    assert (await rebooted(cluster)).verdict == "pass"
    still = Cluster()
    still.on_shutdown = lose
    result = await rebooted(still)
    assert (result.verdict, result.seen.partition(" after")[0]) == ("fail", "win-1 has not booted yet")


async def test_a_node_that_does_not_come_back() -> None:
    cluster, noted = Cluster(), list[str]()
    cluster.boot = lambda: None  # type: ignore[method-assign]
    result = await rebooted(cluster, rebooting=noted.append)
    assert (result.verdict, noted) == ("fail", ["win-1"])
    assert result.seen.startswith("win-1 has not booted yet: not Ready")


async def test_a_node_that_boots_and_is_not_ready() -> None:
    cluster = Cluster()

    def boot() -> None:
        cluster.boots = 8

    cluster.boot = boot  # type: ignore[method-assign]
    assert (await rebooted(cluster)).seen.startswith("win-1 has booted and is not Ready")


async def test_pods_that_do_not_start_again() -> None:
    """Until the kubelet reports, the API server has their state of before: that is no answer."""
    cluster = Cluster()
    cluster.restarts = False
    result = await rebooted(cluster)
    assert result.verdict == "fail"
    assert "reboot, store-0, web-0 did not start again" in result.seen


async def test_a_check_that_fails_after_the_reboot() -> None:
    cluster = Cluster()
    cluster.answers_after = False
    result = await rebooted(cluster)
    assert result.verdict == "fail"
    assert "win-1 was Ready again after 0 s; exec fails: 1 of 2: win-1: TIMEOUT" in result.seen


async def test_a_check_that_failed_before_is_not_held_against_the_reboot() -> None:
    cluster = Cluster()
    execute = cluster.execute

    async def fail_as_user(namespace: str, pod: str, command: Any, seconds: float = 0) -> CommandResult:
        if "echo %USERNAME%" in command:
            return CommandResult(0, "ContainerAdministrator", "")
        return await execute(namespace, pod, command, seconds)

    cluster.execute = fail_as_user  # type: ignore[method-assign]
    results = await verify_cluster(cluster, wanted(), timeouts=QUICK)
    verdicts = {result.id: result.verdict for result in results}
    assert (verdicts["run-as-user"], verdicts["reboot"]) == ("fail", "pass")


async def test_stopped_while_the_node_reboots() -> None:
    cluster, lines = Cluster(), list[str]()
    cluster.boot = lambda: None  # type: ignore[method-assign]
    started = asyncio.Event()

    def note(node: str) -> None:
        started.set()

    pace = msgspec.structs.replace(QUICK, rebooting=60)
    running = asyncio.create_task(verify_cluster(cluster, wanted(), timeouts=pace, print_progress=lines.append, rebooting=note))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cluster.namespace is None
    assert [line for line in lines if "win-1 reboots also without this command" in line]


async def test_a_dry_run_says_what_it_would_do() -> None:
    cluster = Cluster()
    results = {result.id: result for result in await validate_with_server(cluster, wanted(), "default")}
    assert (results["reboot"].verdict, cluster.commands, cluster.pods) == ("not applicable", [], {})
    assert "it would run `shutdown.exe /r /t 10` on win-1" in results["reboot"].seen
    results = {result.id: result for result in await validate_with_server(cluster, wanted("win-9"), "default")}
    assert (results["reboot"].verdict, results["reboot"].seen) == ("fail", "the cluster has no node win-9")
    results = {result.id: result for result in await validate_with_server(cluster, wanted(""), "default")}
    assert results["reboot"].seen == "not made: --dry-run"


def test_one_container_of_the_system_on_one_node_alone() -> None:
    nodes = (Node("lin-1", "linux", True), Node("win-1", "windows", True), Node("win-2", "windows", True))
    assert build_namespace(wanted())["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    pods = [item for item in iter_objects(wanted(), nodes, "n") if item["kind"] == "Pod"]
    (pod,) = [pod for pod in pods if "hostNetwork" in pod["spec"]]
    assert (pod["metadata"]["name"], pod["spec"]["nodeName"]) == (REBOOT, "win-1")
    options = pod["spec"]["securityContext"]["windowsOptions"]
    assert options == {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}
    # its own command would run again after each start
    assert "shutdown" not in str(pod["spec"]["containers"])


def test_a_node_without_boot_id_is_left_alone() -> None:
    node = Node("win-1", "windows", True)
    assert "bootID" in find_node_problem([node], "win-1")
    assert not has_rebooted(node, msgspec.structs.replace(node, boot_id=""))


def test_what_fails_after_a_reboot_is_named_shortly() -> None:
    results = [CheckResult.from_claim(check, "fail", f"no {check.id}", 0) for check in CHECKS[:6]]
    verdict, seen = judge_reboot("win-1", 143.4, (), results)
    assert verdict == "fail"
    assert seen.startswith("win-1 was Ready again after 143 s; nodes fails: no nodes; ")
    assert seen.endswith("and 3 more: logs, exec, volumes")
