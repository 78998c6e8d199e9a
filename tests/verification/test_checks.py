"""The checks of `transom verify cluster` as data: what is asked of a cluster, and what is made of the answers."""

from collections.abc import Callable

import msgspec
import pytest

from transom.verification.checks import CHECKS, ClusterCheck
from transom.verification.objects import (
    AGNHOST_IMAGE,
    BALANCED,
    HOST,
    LINUX,
    NODE_PORT,
    STORE,
    VARIANTS,
    WEB,
    Node,
    VerificationRequest,
    build_namespace,
    find_image_variant,
    iter_objects,
    select_linux_node,
    to_mirror,
)
from transom.verification.probe_state import Answer, Exec, Fetch, Log, ProbePod, ProbeService, ProbeState, Question

BY_ID = {check.id: check for check in CHECKS}
NODES = (
    Node("win-1", "windows", True, "10.0.20348.2485", address="192.0.2.1"),
    Node("win-2", "windows", True, "10.0.26100.1742", address="192.0.2.2"),
    Node("linux-1", "linux", True, address="192.0.2.3"),
)
GOOD = ProbeState(
    NODES,
    (
        ProbePod("linux", "linux-1", "linux", "10.244.0.5", True, AGNHOST_IMAGE),
        ProbePod("web-0", "win-1", "windows", "10.244.1.5", True, AGNHOST_IMAGE),
        ProbePod("web-1", "win-2", "windows", "fd00::5", True, AGNHOST_IMAGE),
        ProbePod("host-0", "win-1", "windows", "192.0.2.1", True, AGNHOST_IMAGE, app=HOST),
        ProbePod("host-1", "win-2", "windows", "192.0.2.2", True, AGNHOST_IMAGE, app=HOST),
        ProbePod("store-0", "win-1", "windows", "10.244.1.6", True, AGNHOST_IMAGE, app=STORE),
        ProbePod("store-1", "win-2", "windows", "10.244.2.6", True, AGNHOST_IMAGE, app=STORE),
    ),
    (
        ProbeService(WEB, "10.96.0.10"),
        ProbeService(LINUX, "10.96.0.11"),
        ProbeService(BALANCED, "10.96.0.12", "203.0.113.7"),
        ProbeService(NODE_PORT, "10.96.0.13", "", 30080),
    ),
    True,
    "https://example.com/",
    "https://api.corp.example/",
    True,
    True,
)


def well(check: ClusterCheck) -> Callable[[Question], Answer]:
    """What a cluster answers in which everything works."""

    def answer(question: Question) -> Answer:
        match question:
            case Log():
                return Answer(question, 0, "Started HTTP server on port 8080\nStarted UDP server on port 8081\n")
            case Exec() if check.id == "egress-proxy":
                return Answer(question, 0, "200 404")
            case Exec() if check.id == "volumes":
                return Answer(question, 0, f"transom-verify\r\n{question.pod}")
            case Exec() if check.id == "run-as-user":
                return Answer(question, 0, "ContainerUser\r\n")
            case Exec() if check.id == "host-process":
                return Answer(question, 0, "C:\\hpc\\\r\n")
            case Exec() if check.id == "egress-direct":
                return Answer(question, 0, "000 401")
            case _:
                return Answer(question, 0)

    return answer


def judged(check: ClusterCheck, standing: ProbeState, answer: Callable[[Question], Answer]) -> tuple[str, str]:
    questions = check.ask(standing)
    assert not isinstance(questions, str), questions
    return check.judge(standing, [answer(question) for question in questions])


@pytest.mark.parametrize("check", CHECKS, ids=lambda item: item.id)
def test_a_cluster_that_works_passes(check: ClusterCheck) -> None:
    assert judged(check, GOOD, well(check))[0] == "pass"


@pytest.mark.parametrize("check", [check for check in CHECKS if check.ask(GOOD)], ids=lambda item: item.id)
def test_one_answer_that_is_none_fails(check: ClusterCheck) -> None:
    last = check.ask(GOOD)[-1]
    verdict, seen = judged(check, GOOD, lambda item: Answer(item, -1, "HTTP 403") if item == last else well(check)(item))
    assert verdict == "fail"
    assert "HTTP 403" in seen and last.what in seen


@pytest.mark.parametrize(
    ("id", "answer", "seen"),
    [
        ("egress-proxy", Answer(Log("", ""), 0, "000 200"), "did the webhook give the pods one (--label)?"),
        ("egress-proxy", Answer(Log("", ""), 0, "407 000"), "407 000"),
        ("egress-direct", Answer(Log("", ""), 0, "200 200"), "200 200"),
        ("egress-direct", Answer(Log("", ""), 0, "000 000"), "000 000"),
        ("egress-direct", Answer(Log("", ""), 0, "curl: what?"), "curl: what?"),
        ("dns", Answer(Log("", ""), 1, "DNS: lookup web: no such host"), "no such host"),
        ("logs", Answer(Log("", ""), 0, ""), "exit code 0"),
        ("volumes", Answer(Log("", ""), 1, "Access is denied."), "Access is denied"),
        ("volumes", Answer(Log("", ""), 0, "transom-verify\r\nanother"), "another"),
        ("run-as-user", Answer(Log("", ""), 0, "ContainerAdministrator"), "ContainerAdministrator"),
        ("host-process", Answer(Log("", ""), 0, "%CONTAINER_SANDBOX_MOUNT_POINT%"), "%CONTAINER_SANDBOX"),
        ("node-port", Answer(Log("", ""), 1, "TIMEOUT"), "linux-1 to win-2: TIMEOUT"),
    ],
)
def test_what_is_no_good_answer(id: str, answer: Answer, seen: str) -> None:
    verdict, told = judged(BY_ID[id], GOOD, lambda item: msgspec.structs.replace(answer, question=item))
    assert verdict == "fail"
    assert seen in told


@pytest.mark.parametrize("word", ["TIMEOUT", "REFUSED", "OTHER: no route to host"])
def test_a_name_that_leads_nowhere_is_resolved(word: str) -> None:
    assert judged(BY_ID["dns"], GOOD, lambda item: Answer(item, 1, word))[0] == "pass"
    assert judged(BY_ID["windows-to-linux"], GOOD, lambda item: Answer(item, 1, word))[0] == "fail"


def test_who_asks_whom() -> None:
    def pairs(id: str) -> list[tuple[str, str]]:
        asked = BY_ID[id].ask(GOOD)
        return [(item.pod, item.command[2]) if isinstance(item, Exec) else ("", item.url) for item in asked]  # type: ignore[union-attr]

    assert pairs("windows-to-windows") == [("web-0", "[fd00::5]:8080"), ("web-1", "10.244.1.5:8080")]
    assert pairs("windows-to-linux") == [("web-0", "10.244.0.5:8080"), ("web-1", "10.244.0.5:8080")]
    assert pairs("linux-to-windows") == [("linux", "10.244.1.5:8080"), ("linux", "[fd00::5]:8080")]
    assert pairs("service-windows") == [("web-0", "10.96.0.10:80"), ("web-1", "10.96.0.10:80")]
    assert pairs("service-of-linux") == [("web-0", "10.96.0.11:80"), ("web-1", "10.96.0.11:80")]
    assert pairs("service-from-linux") == [("linux", "10.96.0.10:80")]
    assert pairs("node-port") == [("linux", "192.0.2.1:30080"), ("linux", "192.0.2.2:30080")]
    assert [pod for pod, _ in pairs("host-process")] == ["host-0", "host-1"]
    assert pairs("load-balancer") == [("", "http://203.0.113.7:80/hostname")]
    assert isinstance(BY_ID["load-balancer"].ask(GOOD)[0], Fetch)


def test_what_is_not_there_is_not_asked() -> None:
    alone = ProbeState(NODES[:1], GOOD.pods[1:2], GOOD.services)
    assert BY_ID["volumes"].ask(alone) == ()
    silent = {check.id for check in CHECKS if isinstance(check.ask(alone), str)}
    linux = {"windows-to-linux", "linux-to-windows", "service-of-linux", "service-from-linux"}
    unasked = {"load-balancer", "node-port", "host-process", "egress-proxy", "egress-direct"}
    assert silent == {*linux, *unasked, "windows-to-windows"}


def test_a_cluster_without_windows_fails() -> None:
    none = ProbeState(NODES[2:], GOOD.pods[:1], GOOD.services)
    assert judged(BY_ID["nodes"], none, well(BY_ID["nodes"])) == (
        "fail",
        "the cluster has no node with the label kubernetes.io/os=windows",
    )
    assert [judged(BY_ID[id], none, well(BY_ID[id]))[0] for id in ("image-pull", "web")] == ["fail"] * 2
    assert str(BY_ID["exec"].ask(none)).startswith("not run: no web server of Windows runs")


def test_what_no_container_could_answer_is_claimed_as_not_run() -> None:
    """One cause is one failure: the others are not made, and say so."""
    waiting = [msgspec.structs.replace(pod, waiting="ImagePullBackOff", ready=False) for pod in GOOD.pods]
    cause = {"nodes", "image-pull", "web", "volumes", "host-process"}
    for pods in (tuple(waiting), (GOOD.pods[0], *waiting[1:])):
        standing = msgspec.structs.replace(GOOD, pods=pods)
        asked = {check.id: check.ask(standing) for check in CHECKS if check.id not in cause}
        assert {str(item).partition(":")[0] for item in asked.values()} == {"not run"}
    one_runs = msgspec.structs.replace(GOOD, pods=(GOOD.pods[0], GOOD.pods[1], waiting[2]))
    assert BY_ID["windows-to-windows"].ask(one_runs) == (
        "not run: web servers run on 1 of 2 Windows nodes, see image-pull and web"
    )
    assert [item.what for item in BY_ID["exec"].ask(one_runs)] == ["win-1"]  # type: ignore[union-attr]
    no_linux = msgspec.structs.replace(GOOD, pods=(waiting[0], *GOOD.pods[1:]))
    assert str(BY_ID["windows-to-linux"].ask(no_linux)).startswith("not run: the web server of Linux does not run")


def test_a_pod_that_does_not_start_says_why() -> None:
    waiting = ProbePod("web-0", "win-1", "windows", waiting="ErrImagePull: no matching manifest")
    standing = ProbeState((Node("win-1", "windows", True, "10.0.14393.1"),), (waiting,))
    verdict, seen = judged(BY_ID["image-pull"], standing, well(BY_ID["image-pull"]))
    assert verdict == "fail"
    assert "win-1: ErrImagePull: no matching manifest (the image is for builds 17763, 20348, 26100" in seen


def test_the_variants_of_the_image() -> None:
    assert [find_image_variant(f"10.0.{variant.build}.1") for variant in VARIANTS] == list(VARIANTS)
    assert [find_image_variant(text) for text in ("", "10.0", "10.0.x", "6.8.0-31-generic", f"10.0.{'9' * 5000}")] == [None] * 5
    assert to_mirror(AGNHOST_IMAGE, "registry.corp.example/k8s/") == "registry.corp.example/k8s/e2e-test-images/agnhost:2.52"


def test_a_node_that_is_not_ready_gets_no_pod() -> None:
    cordoned = Node("linux-0", "linux", True, schedulable=False)
    nodes = (cordoned, *NODES[1:], Node("win-0", "windows", False))
    wanted = VerificationRequest("n", AGNHOST_IMAGE, "linux:1")
    pods = [obj for obj in iter_objects(wanted, nodes, "n") if obj["kind"] == "Pod"]
    assert [(pod["spec"]["nodeName"], pod["spec"]["containers"][0]["image"]) for pod in pods] == [
        ("win-2", AGNHOST_IMAGE),
        ("win-2", AGNHOST_IMAGE),
        ("linux-1", "linux:1"),
    ]
    assert select_linux_node((cordoned,)) == cordoned
    assert select_linux_node(()) is None


@pytest.mark.parametrize(("check", "app"), [("volumes", STORE), ("host-process", HOST)])
def test_a_pod_of_a_check_that_does_not_start_fails_that_check_alone(check: str, app: str) -> None:
    pods = tuple(
        msgspec.structs.replace(pod, image_id="", waiting="ContainerCreating: MountVolume.SetUp failed")
        if pod.app == app
        else pod
        for pod in GOOD.pods
    )
    standing = msgspec.structs.replace(GOOD, pods=pods)
    verdicts = {check.id: judged(check, standing, well(check)) for check in CHECKS}
    assert [id for id, (verdict, _) in verdicts.items() if verdict == "fail"] == [check]
    assert "win-1: ContainerCreating: MountVolume.SetUp failed" in verdicts[check][1]


def test_what_is_asked_for_alone_opens_ports_and_is_privileged() -> None:
    usual, more = (
        VerificationRequest("n", AGNHOST_IMAGE, AGNHOST_IMAGE),
        VerificationRequest("n", "a", "b", node_port=True, host_process=True),
    )
    for wanted, level, kinds in ((usual, "restricted", set()), (more, "privileged", {"NodePort"})):
        assert build_namespace(wanted)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == level
        made = list(iter_objects(wanted, NODES, "n"))
        assert {item["spec"]["type"] for item in made if item["kind"] == "Service"} == {"ClusterIP"} | kinds
        host = [item for item in made if item["kind"] == "Pod" and item["spec"].get("hostNetwork")]
        assert len(host) == (2 if wanted.host_process else 0)
        assert all(item["spec"]["securityContext"]["windowsOptions"]["hostProcess"] for item in host)
