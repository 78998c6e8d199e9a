"""What `transom verify cluster` asks of a cluster, as data: the questions, and a judgement of the answers."""

from collections.abc import Callable, Sequence
from typing import Final

from transom.common.check_results import Claim, Verdict
from transom.verification.objects import (
    AGNHOST,
    BALANCED,
    HOST,
    LINUX,
    NODE_PORT,
    POD_INFO,
    PORT,
    SCRATCH,
    SERVICE_PORT,
    STORE,
    USER,
    VARIANTS,
    WEB,
    find_image_variant,
)
from transom.verification.probe_state import Answer, Exec, Fetch, Log, ProbePod, ProbeState, Question

_SECONDS: Final = 15
"""That a connection may take."""


class ClusterCheck(Claim, frozen=True):
    """A claim about a cluster. `ask` gives the questions, or why there are none; `judge` gets the answers in their order."""

    ask: Callable[[ProbeState], tuple[Question, ...] | str]
    judge: Callable[[ProbeState, Sequence[Answer]], tuple[Verdict, str]]


def _ask_nothing(_: ProbeState) -> tuple[Question, ...]:
    return ()


def _judge_exit_codes(_: ProbeState, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    return _build_verdict(answers, [answer for answer in answers if answer.code != 0])


def _build_verdict(answers: Sequence[Answer], bad: Sequence[Answer]) -> tuple[Verdict, str]:
    if not answers:
        return "fail", "no pod ran that could have been asked"
    if not bad:
        return "pass", ", ".join(dict.fromkeys(answer.question.what for answer in answers))
    message = "; ".join(f"{item.question.what}: {item.text.strip() or f'exit code {item.code}'}" for item in bad)
    return "fail", f"{len(bad)} of {len(answers)}: {message}"


def _judge_nodes(standing: ProbeState, _: Sequence[Answer]) -> tuple[Verdict, str]:
    windows = [node for node in standing.nodes if node.os == "windows"]
    unready = [window.name for window in windows if not window.ready]
    if not windows:
        return "fail", "the cluster has no node with the label kubernetes.io/os=windows"
    if unready:
        return "fail", f"{len(unready)} of {len(windows)} not Ready: {', '.join(unready)}"
    return "pass", ", ".join(f"{window.name} ({window.version})" for window in windows)


def _judge_pulls(standing: ProbeState, _: Sequence[Answer]) -> tuple[Verdict, str]:
    if not standing.windows:
        return "fail", "no Windows node is Ready"
    servers = [pod for pod in standing.pods if pod.serves]
    missing = [server for server in servers if not server.image_id]
    if not missing:
        return "pass", ", ".join(dict.fromkeys(server.image_id for server in servers))
    return "fail", "; ".join(
        f"{item.node}: {item.waiting or 'nothing was said'}{_format_hint(standing, item)}" for item in missing
    )


def _format_hint(standing: ProbeState, pod: ProbePod) -> str:
    version = next((node.version for node in standing.nodes if node.name == pod.node), "")
    if pod.os != "windows" or find_image_variant(version) is not None:
        return ""
    builds = ", ".join(str(variant.build) for variant in VARIANTS)
    return f" (the image is for builds {builds}, the node has {version}: name another, --image)"


def _judge_serving(standing: ProbeState, _: Sequence[Answer]) -> tuple[Verdict, str]:
    unready = [window for window in standing.windows if not window.ready]
    if not standing.windows:
        return "fail", "no Windows node is Ready"
    if unready:
        return "fail", "; ".join(f"{item.node}: {item.waiting or 'its probe is not answered'}" for item in unready)
    return "pass", ", ".join(window.node for window in standing.windows)


def _build_connect(pod: ProbePod, target: str, what: str) -> Exec:
    """kubernetes/kubernetes test/images/agnhost/connect: no output and 0, or a word for what is wrong."""
    return Exec(pod.name, (AGNHOST, "connect", target, f"--timeout={_SECONDS}s"), what)


def _build_questions(standing: ProbeState, questions: Callable[[ProbePod], Question | None]) -> tuple[Question, ...] | str:
    """For each running web server on Windows; the reason to skip if none runs."""
    pods = standing.list_running("windows")
    return tuple(question for pod in pods if (question := questions(pod)) is not None) if pods else _NO_WEB


_NO_WEB: Final = "not run: no web server of Windows runs, see image-pull and web"
_NO_LINUX_NODE: Final = "no Linux node is Ready"
_NO_LINUX: Final = "not run: the web server of Linux does not run, see image-pull"


def _ask_exec(standing: ProbeState) -> tuple[Question, ...] | str:
    return _build_questions(standing, lambda item: _build_connect(item, f"127.0.0.1:{PORT}", item.node))


def _ask_logs(standing: ProbeState) -> tuple[Question, ...] | str:
    return _build_questions(standing, lambda item: Log(item.name, item.node))


def _judge_logs(_: ProbeState, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    """kubernetes/kubernetes test/images/agnhost/netexec: what it says first."""
    return _build_verdict(
        answers, [answer for answer in answers if answer.code != 0 or "Started HTTP server" not in answer.text]
    )


def _ask_volumes(standing: ProbeState) -> tuple[Question, ...] | str:
    script = rf"echo {_MARK}> {SCRATCH}\file&& type {SCRATCH}\file&& type {POD_INFO}\name"
    return tuple(Exec(item.name, ("cmd.exe", "/c", script), item.node) for item in standing.list_pods(STORE) if item.runs)


_MARK: Final = "transom-verify"


def _judge_volumes(standing: ProbeState, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    """Judge whether the written text is read again, and the file with the pod's name contains it."""
    if waiting := _describe_waiting(standing, STORE):
        return "fail", waiting
    bad = [answer for answer in answers if answer.code != 0 or _MARK not in answer.text or _get_pod(answer) not in answer.text]
    return _build_verdict(answers, bad)


def _describe_waiting(standing: ProbeState, app: str) -> str:
    """Return the pods of that kind that do not run, and why."""
    unready = [item for item in standing.list_pods(app) if not item.runs]
    return "; ".join(f"{item.node}: {item.waiting or 'nothing was said'}" for item in unready)


def _get_pod(answer: Answer) -> str:
    return answer.question.pod if isinstance(answer.question, Exec) else ""


def _ask_user(standing: ProbeState) -> tuple[Question, ...] | str:
    return _build_questions(standing, lambda item: Exec(item.name, ("cmd.exe", "/c", "echo %USERNAME%"), item.node))


def _judge_user(_: ProbeState, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    return _build_verdict(
        answers, [answer for answer in answers if answer.code != 0 or answer.text.strip().casefold() != USER.casefold()]
    )


def _ask_host_process(standing: ProbeState) -> tuple[Question, ...] | str:
    if not standing.host_process:
        return "not asked for: --host-process"
    # only a HostProcess container has the variable, and cmd.exe prints the name of an unset one
    command = ("cmd.exe", "/c", "echo %CONTAINER_SANDBOX_MOUNT_POINT%")
    return tuple(Exec(item.name, command, item.node) for item in standing.list_pods(HOST) if item.runs)


def _judge_host_process(standing: ProbeState, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    if waiting := _describe_waiting(standing, HOST):
        return "fail", waiting
    return _build_verdict(
        answers, [answer for answer in answers if answer.code != 0 or "%" in answer.text or ":" not in answer.text]
    )


def _ask_node_ports(standing: ProbeState) -> tuple[Question, ...] | str:
    """Connect by a node that the pod is not on, and by its own."""
    if not standing.node_port:
        return "not asked for: --node-port"
    port, pods = standing.get_service(NODE_PORT).node_port, standing.list_running("windows")
    if not pods:
        return _NO_WEB
    linux = _find_linux_pod(standing)
    asking = linux if isinstance(linux, ProbePod) else pods[0]
    targets = {pod.node for pod in pods}
    nodes = [node for node in standing.nodes if node.name in targets and node.address]
    return tuple(
        _build_connect(asking, _join_host_port(node.address, port), f"{asking.node} to {node.name}") for node in nodes if port
    )


def _ask_dns(standing: ProbeState) -> tuple[Question, ...] | str:
    # of the search list Windows has one suffix, the pod's own namespace (kubernetes.io, "DNS for Services and Pods")
    return _build_questions(standing, lambda item: _build_connect(item, f"{WEB}:{SERVICE_PORT}", item.node))


def _judge_resolved(_: ProbeState, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    """Judge a resolution: a name that was resolved and then not reached counts as resolved."""
    led = ("TIMEOUT", "REFUSED", "OTHER")
    return _build_verdict(
        answers, [answer for answer in answers if answer.code != 0 and not answer.text.lstrip().startswith(led)]
    )


def _ask_between_windows(standing: ProbeState) -> tuple[Question, ...] | str:
    pods = [item for item in standing.list_running("windows") if item.address]
    if len(standing.windows) < 2:
        return "there is one Windows node at most"
    if len(pods) < 2:
        return f"not run: web servers run on {len(pods)} of {len(standing.windows)} Windows nodes, see image-pull and web"
    # each is once the one who asks and once the one who is asked
    pairs = zip(pods, (*pods[1:], pods[0]), strict=True)
    return tuple(_build_connect(item, _format_target(other), f"{item.node} to {other.node}") for item, other in pairs)


def _ask_linux_from_windows(standing: ProbeState) -> tuple[Question, ...] | str:
    other = _find_linux_pod(standing)
    if isinstance(other, str):
        return other
    target, node = _format_target(other), other.node
    return _build_questions(standing, lambda item: _build_connect(item, target, f"{item.node} to {node}"))


def _ask_from_linux(standing: ProbeState) -> tuple[Question, ...] | str:
    linux_pod = _find_linux_pod(standing)
    if isinstance(linux_pod, str):
        return linux_pod

    def build_question(other: ProbePod) -> Question | None:
        return _build_connect(linux_pod, _format_target(other), f"{linux_pod.node} to {other.node}") if other.address else None

    return _build_questions(standing, build_question)


def _find_linux_pod(standing: ProbeState) -> ProbePod | str:
    """Return the Linux pod, or why there is none."""
    if not standing.linux:
        return _NO_LINUX_NODE
    return next((item for item in standing.list_running("linux") if item.address), _NO_LINUX)


def _format_target(pod: ProbePod) -> str:
    return _join_host_port(pod.address, PORT)


def _join_host_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _ask_service_from_windows(standing: ProbeState) -> tuple[Question, ...] | str:
    return _ask_service(standing, WEB)


def _ask_service_from_linux(standing: ProbeState) -> tuple[Question, ...] | str:
    linux_pod, address = _find_linux_pod(standing), standing.get_service(WEB).address
    if isinstance(linux_pod, str):
        return linux_pod
    if not standing.list_running("windows"):
        return _NO_WEB
    return (_build_connect(linux_pod, _join_host_port(address, SERVICE_PORT), linux_pod.node),) if address else ()


def _ask_linux_service(standing: ProbeState) -> tuple[Question, ...] | str:
    linux_pod = _find_linux_pod(standing)
    return linux_pod if isinstance(linux_pod, str) else _ask_service(standing, LINUX)


def _ask_service(standing: ProbeState, name: str) -> tuple[Question, ...] | str:
    address = standing.get_service(name).address
    return _build_questions(
        standing, lambda item: _build_connect(item, _join_host_port(address, SERVICE_PORT), item.node) if address else None
    )


def _ask_load_balancer(standing: ProbeState) -> tuple[Question, ...] | str:
    if not standing.load_balancer:
        return "not asked for: --load-balancer"
    if not standing.list_running("windows"):
        return _NO_WEB
    address = standing.get_service(BALANCED).public
    return (Fetch(f"http://{_join_host_port(address, SERVICE_PORT)}/hostname", address),) if address else ()


def _judge_load_balancer(standing: ProbeState, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    return _judge_exit_codes(standing, answers) if answers else ("fail", "the Service was given no address")


def _ask_through_proxy(standing: ProbeState) -> tuple[Question, ...] | str:
    return _build_fetches(standing, standing.egress) if standing.egress else "not asked for: --egress-url"


def _ask_direct(standing: ProbeState) -> tuple[Question, ...] | str:
    return _build_fetches(standing, standing.direct) if standing.direct else "not asked for: --direct-url"


def _build_fetches(standing: ProbeState, url: str) -> tuple[Question, ...] | str:
    """Build fetches that print the proxy's code for CONNECT and the server's code (curl's manual, --write-out).

    000 for none.
    """
    command = (
        *("curl", "--silent", "--show-error", "--insecure", "--max-time", str(2 * _SECONDS), "--output", "NUL"),
        *("--write-out", "%{http_connect} %{http_code}", url),
    )
    return _build_questions(standing, lambda item: Exec(item.name, command, item.node))


def _judge_proxied(_: ProbeState, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    verdict, seen = _build_verdict(
        answers, [answer for answer in answers if answer.code != 0 or _parse_codes(answer)[0] != "200"]
    )
    unproxied = [answer for answer in answers if answer.code == 0 and _parse_codes(answer)[0] == "000"]
    return verdict, f"{seen}: answered without a proxy: did the webhook give the pods one (--label)?" if unproxied else seen


def _judge_direct(_: ProbeState, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    return _build_verdict(
        answers,
        [
            answer
            for answer in answers
            if answer.code != 0 or _parse_codes(answer)[0] != "000" or _parse_codes(answer)[1] == "000"
        ],
    )


def _parse_codes(answer: Answer) -> tuple[str, str]:
    """Return both codes in the last line that curl wrote."""
    words = ((answer.text.splitlines() or [""])[-1]).split()
    return (words[0], words[1]) if len(words) == 2 else ("", "")


_NETWORK: Final = "kubernetes.io, Networking on Windows"
ACCEPTED: Final = Claim(
    "accepted",
    "the API server takes the namespace, pods and Services, with Pod Security `restricted`",
    "kubernetes.io, Pod Security Standards",
    "admission refuses Windows pods that ask for nothing",
)
REBOOTED: Final = Claim(
    "reboot",
    "a Windows node reboots, it and its pods start again, and the checks pass as before",
    "kubernetes/kubernetes test/e2e/windows/reboot_node.go",
    "after each reboot, such as for updates of Windows, a person must repair the node",
)
CLEAN: Final = Claim("clean", "the namespace of the verification is deleted", "docs/verify-cluster.md", "`--clean` deletes it")
CHECKS: Final = (
    ClusterCheck(
        "nodes",
        "each Windows node is Ready",
        "kubernetes.io, Nodes",
        "pods of Windows do not start",
        _ask_nothing,
        _judge_nodes,
    ),
    ClusterCheck(
        "image-pull",
        "each node pulls the image for its system",
        "kubernetes.io, Images",
        "containerd does not reach the registry: its proxy, its CAs, or an image for another build of Windows",
        _ask_nothing,
        _judge_pulls,
    ),
    ClusterCheck(
        "web",
        "a web server runs on each Windows node, and the kubelet's probe reaches it",
        "kubernetes.io, Windows containers in Kubernetes",
        "no container starts, or the node does not reach its own pods",
        _ask_nothing,
        _judge_serving,
    ),
    ClusterCheck(
        "logs", "the API server gives the log of each", "kubernetes.io, Logging", "`kubectl logs` fails", _ask_logs, _judge_logs
    ),
    ClusterCheck(
        "exec",
        "a command runs in each, by way of the API server",
        "kubernetes.io, kubectl exec",
        "`kubectl exec` fails: the kubelet's certificate, its port, or a proxy between",
        _ask_exec,
        _judge_exit_codes,
    ),
    ClusterCheck(
        "volumes",
        "each has an empty directory to write to, and its name by a volume",
        "kubernetes.io, Storage on Windows",
        "the kubelet's directories, or their permissions",
        _ask_volumes,
        _judge_volumes,
    ),
    ClusterCheck(
        "run-as-user",
        "each runs as the user of `runAsUserName`",
        "kubernetes.io, Configure RunAsUserName for Windows pods",
        "programs of images whose user is ContainerAdministrator run as administrators of the container",
        _ask_user,
        _judge_user,
    ),
    ClusterCheck(
        "host-process",
        "a HostProcess container runs on each Windows node",
        "kubernetes.io, Create a Windows HostProcess Pod",
        "kube-proxy, Calico and other agents that run as HostProcess containers do not start",
        _ask_host_process,
        _judge_host_process,
    ),
    ClusterCheck(
        "dns",
        "the name of a Service is resolved in each",
        _NETWORK,
        "clusterDNS of the kubelet is wrong, or DNS is not reached from Windows",
        _ask_dns,
        _judge_resolved,
    ),
    ClusterCheck(
        "windows-to-windows",
        "pods of one Windows node reach those of another",
        _NETWORK,
        "the overlay between Windows nodes",
        _ask_between_windows,
        _judge_exit_codes,
    ),
    ClusterCheck(
        "windows-to-linux",
        "pods of Windows reach a pod of Linux",
        _NETWORK,
        "the overlay from Windows to Linux",
        _ask_linux_from_windows,
        _judge_exit_codes,
    ),
    ClusterCheck(
        "linux-to-windows",
        "a pod of Linux reaches the pods of Windows",
        _NETWORK,
        "the overlay from Linux to Windows, or a firewall of Windows",
        _ask_from_linux,
        _judge_exit_codes,
    ),
    ClusterCheck(
        "service-windows",
        "pods of Windows reach a Service with pods of Windows",
        _NETWORK,
        "kube-proxy on Windows",
        _ask_service_from_windows,
        _judge_exit_codes,
    ),
    ClusterCheck(
        "service-of-linux",
        "pods of Windows reach a Service with a pod of Linux",
        _NETWORK,
        "kube-proxy on Windows",
        _ask_linux_service,
        _judge_exit_codes,
    ),
    ClusterCheck(
        "service-from-linux",
        "a pod of Linux reaches a Service with pods of Windows",
        _NETWORK,
        "the way back from Windows",
        _ask_service_from_linux,
        _judge_exit_codes,
    ),
    ClusterCheck(
        "node-port",
        "a Service of type NodePort answers at each Windows node",
        "kubernetes.io, Service",
        "kube-proxy on Windows, or a firewall of Windows or the network",
        _ask_node_ports,
        _judge_exit_codes,
    ),
    ClusterCheck(
        "load-balancer",
        "a Service of type LoadBalancer has an address, and answers there",
        "kubernetes.io, Service",
        "Windows nodes are not targets of the load balancer",
        _ask_load_balancer,
        _judge_load_balancer,
    ),
    ClusterCheck(
        "egress-proxy",
        "pods of Windows reach a URL outside through the proxy",
        "docs/pods.md",
        "pods have no proxy, or it refuses them",
        _ask_through_proxy,
        _judge_proxied,
    ),
    ClusterCheck(
        "egress-direct",
        "pods of Windows reach a URL that NO_PROXY has, around the proxy",
        "docs/how-no-proxy-is-read.md",
        "NO_PROXY lacks it, or the URL is reachable only by the proxy",
        _ask_direct,
        _judge_direct,
    ),
)
"""In the order in which they are made."""
CLAIMS: Final[tuple[Claim, ...]] = (ACCEPTED, *CHECKS, REBOOTED, CLEAN)
