"""What `transom verify cluster` asks of a cluster, as data: the questions, and a judgement of the answers."""

from collections.abc import Callable, Sequence
from typing import Final

from transom.checked import Claim, Verdict
from transom.verification.objects import AGNHOST, BALANCED, LINUX, PORT, SERVICE_PORT, VARIANTS, WEB, variant_of
from transom.verification.standing import Answer, Exec, Fetch, Log, Question, Standing, StandingPod

_SECONDS: Final = 15
"""That a connection may take."""


class ClusterCheck(Claim, frozen=True):
    """A claim about a cluster. `ask` gives the questions, or why there are none; `judge` gets the answers in their order."""

    ask: Callable[[Standing], tuple[Question, ...] | str]
    judge: Callable[[Standing, Sequence[Answer]], tuple[Verdict, str]]


def _nothing(_: Standing) -> tuple[Question, ...]:
    return ()


def _all_well(_: Standing, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    return _judged(answers, [one for one in answers if one.code != 0])


def _judged(answers: Sequence[Answer], bad: Sequence[Answer]) -> tuple[Verdict, str]:
    if not answers:
        return "fail", "no pod ran that could have been asked"
    if not bad:
        return "pass", ", ".join(dict.fromkeys(one.question.what for one in answers))
    told = "; ".join(f"{one.question.what}: {one.text.strip() or f'exit code {one.code}'}" for one in bad)
    return "fail", f"{len(bad)} of {len(answers)}: {told}"


def _nodes(standing: Standing, _: Sequence[Answer]) -> tuple[Verdict, str]:
    windows = [one for one in standing.nodes if one.os == "windows"]
    unready = [one.name for one in windows if not one.ready]
    if not windows:
        return "fail", "the cluster has no node with the label kubernetes.io/os=windows"
    if unready:
        return "fail", f"{len(unready)} of {len(windows)} not Ready: {', '.join(unready)}"
    return "pass", ", ".join(f"{one.name} ({one.version})" for one in windows)


def _pulled(standing: Standing, _: Sequence[Answer]) -> tuple[Verdict, str]:
    if not standing.windows:
        return "fail", "no Windows node is Ready"
    missing = [one for one in standing.pods if not one.image_id]
    if not missing:
        return "pass", ", ".join(dict.fromkeys(one.image_id for one in standing.pods))
    return "fail", "; ".join(f"{one.node}: {one.waiting or 'nothing was said'}{_hint(standing, one)}" for one in missing)


def _hint(standing: Standing, pod: StandingPod) -> str:
    version = next((one.version for one in standing.nodes if one.name == pod.node), "")
    if pod.os != "windows" or variant_of(version) is not None:
        return ""
    builds = ", ".join(str(one.build) for one in VARIANTS)
    return f" (the image is for builds {builds}, the node has {version}: name another, --image)"


def _serving(standing: Standing, _: Sequence[Answer]) -> tuple[Verdict, str]:
    unready = [one for one in standing.windows if not one.ready]
    if not standing.windows:
        return "fail", "no Windows node is Ready"
    if unready:
        return "fail", "; ".join(f"{one.node}: {one.waiting or 'its probe is not answered'}" for one in unready)
    return "pass", ", ".join(one.node for one in standing.windows)


def _connects(pod: StandingPod, target: str, what: str) -> Exec:
    """kubernetes/kubernetes test/images/agnhost/connect: no output and 0, or a word for what is wrong."""
    return Exec(pod.name, (AGNHOST, "connect", target, f"--timeout={_SECONDS}s"), what)


def _asked(standing: Standing, questions: Callable[[StandingPod], Question | None]) -> tuple[Question, ...] | str:
    """Of each web server of Windows that runs; why nothing is asked where none does."""
    pods = standing.running("windows")
    return tuple(one for pod in pods if (one := questions(pod)) is not None) if pods else _NO_WEB


_NO_WEB: Final = "not run: no web server of Windows runs, see image-pull and web"
_NO_LINUX_NODE: Final = "no Linux node is Ready"
_NO_LINUX: Final = "not run: the web server of Linux does not run, see image-pull"


def _exec(standing: Standing) -> tuple[Question, ...] | str:
    return _asked(standing, lambda one: _connects(one, f"127.0.0.1:{PORT}", one.node))


def _logs(standing: Standing) -> tuple[Question, ...] | str:
    return _asked(standing, lambda one: Log(one.name, one.node))


def _logged(_: Standing, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    """kubernetes/kubernetes test/images/agnhost/netexec: what it says first."""
    return _judged(answers, [one for one in answers if one.code != 0 or "Started HTTP server" not in one.text])


def _dns(standing: Standing) -> tuple[Question, ...] | str:
    # of the search list Windows has one suffix, the pod's own namespace (kubernetes.io, "DNS for Services and Pods")
    return _asked(standing, lambda one: _connects(one, f"{WEB}:{SERVICE_PORT}", one.node))


def _resolved(_: Standing, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    """A name that was resolved and then led nowhere was resolved."""
    led = ("TIMEOUT", "REFUSED", "OTHER")
    return _judged(answers, [one for one in answers if one.code != 0 and not one.text.lstrip().startswith(led)])


def _between_windows(standing: Standing) -> tuple[Question, ...] | str:
    pods = [one for one in standing.running("windows") if one.address]
    if len(standing.windows) < 2:
        return "there is one Windows node at most"
    if len(pods) < 2:
        return f"not run: web servers run on {len(pods)} of {len(standing.windows)} Windows nodes, see image-pull and web"
    # each is once the one who asks and once the one who is asked
    pairs = zip(pods, (*pods[1:], pods[0]), strict=True)
    return tuple(_connects(one, _target(other), f"{one.node} to {other.node}") for one, other in pairs)


def _to_linux(standing: Standing) -> tuple[Question, ...] | str:
    other = _linux(standing)
    if isinstance(other, str):
        return other
    target, node = _target(other), other.node
    return _asked(standing, lambda one: _connects(one, target, f"{one.node} to {node}"))


def _from_linux(standing: Standing) -> tuple[Question, ...] | str:
    one = _linux(standing)
    if isinstance(one, str):
        return one

    def to(other: StandingPod) -> Question | None:
        return _connects(one, _target(other), f"{one.node} to {other.node}") if other.address else None

    return _asked(standing, to)


def _linux(standing: Standing) -> StandingPod | str:
    """The pod of Linux; why there is none."""
    if not standing.linux:
        return _NO_LINUX_NODE
    return next((one for one in standing.running("linux") if one.address), _NO_LINUX)


def _target(pod: StandingPod) -> str:
    return _joined(pod.address, PORT)


def _joined(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _service_from_windows(standing: Standing) -> tuple[Question, ...] | str:
    return _of_service(standing, WEB)


def _service_from_linux(standing: Standing) -> tuple[Question, ...] | str:
    one, address = _linux(standing), standing.service(WEB).address
    if isinstance(one, str):
        return one
    if not standing.running("windows"):
        return _NO_WEB
    return (_connects(one, _joined(address, SERVICE_PORT), one.node),) if address else ()


def _linux_service(standing: Standing) -> tuple[Question, ...] | str:
    one = _linux(standing)
    return one if isinstance(one, str) else _of_service(standing, LINUX)


def _of_service(standing: Standing, name: str) -> tuple[Question, ...] | str:
    address = standing.service(name).address
    return _asked(standing, lambda one: _connects(one, _joined(address, SERVICE_PORT), one.node) if address else None)


def _balanced(standing: Standing) -> tuple[Question, ...] | str:
    if not standing.load_balancer:
        return "not asked for: --load-balancer"
    if not standing.running("windows"):
        return _NO_WEB
    address = standing.service(BALANCED).public
    return (Fetch(f"http://{_joined(address, SERVICE_PORT)}/hostname", address),) if address else ()


def _is_balanced(standing: Standing, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    return _all_well(standing, answers) if answers else ("fail", "the Service was given no address")


def _through(standing: Standing) -> tuple[Question, ...] | str:
    return _fetches(standing, standing.egress) if standing.egress else "not asked for: --egress-url"


def _around(standing: Standing) -> tuple[Question, ...] | str:
    return _fetches(standing, standing.direct) if standing.direct else "not asked for: --direct-url"


def _fetches(standing: Standing, url: str) -> tuple[Question, ...] | str:
    """What the proxy said to CONNECT, and what the server said (curl's manual, --write-out); 000 where nobody was asked."""
    command = (
        *("curl", "--silent", "--show-error", "--insecure", "--max-time", str(2 * _SECONDS), "--output", "NUL"),
        *("--write-out", "%{http_connect} %{http_code}", url),
    )
    return _asked(standing, lambda one: Exec(one.name, command, one.node))


def _proxied(_: Standing, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    verdict, seen = _judged(answers, [one for one in answers if one.code != 0 or _codes(one)[0] != "200"])
    unproxied = [one for one in answers if one.code == 0 and _codes(one)[0] == "000"]
    return verdict, f"{seen}: answered without a proxy: did the webhook give the pods one (--label)?" if unproxied else seen


def _direct(_: Standing, answers: Sequence[Answer]) -> tuple[Verdict, str]:
    return _judged(answers, [one for one in answers if one.code != 0 or _codes(one)[0] != "000" or _codes(one)[1] == "000"])


def _codes(answer: Answer) -> tuple[str, str]:
    """The last line that curl wrote."""
    words = ((answer.text.splitlines() or [""])[-1]).split()
    return (words[0], words[1]) if len(words) == 2 else ("", "")


_NETWORK: Final = "kubernetes.io, Networking on Windows"
ACCEPTED: Final = Claim(
    "accepted",
    "the API server takes the namespace, pods and Services, with Pod Security `restricted`",
    "kubernetes.io, Pod Security Standards",
    "admission refuses Windows pods that ask for nothing",
)
CLEAN: Final = Claim("clean", "the namespace of the verification is gone", "docs/verify-cluster.md", "`--clean` takes it away")
CHECKS: Final = (
    ClusterCheck(
        "nodes",
        "each Windows node is Ready",
        "kubernetes.io, Nodes",
        "pods of Windows do not start",
        _nothing,
        _nodes,
    ),
    ClusterCheck(
        "image-pull",
        "each node pulls the image for its system",
        "kubernetes.io, Images",
        "containerd does not reach the registry: its proxy, its CAs, or an image for another build of Windows",
        _nothing,
        _pulled,
    ),
    ClusterCheck(
        "web",
        "a web server runs on each Windows node, and the kubelet's probe reaches it",
        "kubernetes.io, Windows containers in Kubernetes",
        "no container starts, or the node does not reach its own pods",
        _nothing,
        _serving,
    ),
    ClusterCheck(
        "logs", "the API server gives the log of each", "kubernetes.io, Logging", "`kubectl logs` fails", _logs, _logged
    ),
    ClusterCheck(
        "exec",
        "a command runs in each, by way of the API server",
        "kubernetes.io, kubectl exec",
        "`kubectl exec` fails: the kubelet's certificate, its port, or a proxy between",
        _exec,
        _all_well,
    ),
    ClusterCheck(
        "dns",
        "the name of a Service is resolved in each",
        _NETWORK,
        "clusterDNS of the kubelet is wrong, or DNS is not reached from Windows",
        _dns,
        _resolved,
    ),
    ClusterCheck(
        "windows-to-windows",
        "pods of one Windows node reach those of another",
        _NETWORK,
        "the overlay between Windows nodes",
        _between_windows,
        _all_well,
    ),
    ClusterCheck(
        "windows-to-linux",
        "pods of Windows reach a pod of Linux",
        _NETWORK,
        "the overlay from Windows to Linux",
        _to_linux,
        _all_well,
    ),
    ClusterCheck(
        "linux-to-windows",
        "a pod of Linux reaches the pods of Windows",
        _NETWORK,
        "the overlay from Linux to Windows, or a firewall of Windows",
        _from_linux,
        _all_well,
    ),
    ClusterCheck(
        "service-windows",
        "pods of Windows reach a Service with pods of Windows",
        _NETWORK,
        "kube-proxy on Windows",
        _service_from_windows,
        _all_well,
    ),
    ClusterCheck(
        "service-of-linux",
        "pods of Windows reach a Service with a pod of Linux",
        _NETWORK,
        "kube-proxy on Windows",
        _linux_service,
        _all_well,
    ),
    ClusterCheck(
        "service-from-linux",
        "a pod of Linux reaches a Service with pods of Windows",
        _NETWORK,
        "the way back from Windows",
        _service_from_linux,
        _all_well,
    ),
    ClusterCheck(
        "load-balancer",
        "a Service of type LoadBalancer has an address, and answers there",
        "kubernetes.io, Service",
        "Windows nodes are no targets of the load balancer",
        _balanced,
        _is_balanced,
    ),
    ClusterCheck(
        "egress-proxy",
        "pods of Windows reach a URL outside through the proxy",
        "docs/pods.md",
        "pods have no proxy, or it refuses them",
        _through,
        _proxied,
    ),
    ClusterCheck(
        "egress-direct",
        "pods of Windows reach a URL that NO_PROXY has, around the proxy",
        "docs/how-no-proxy-is-read.md",
        "NO_PROXY lacks it, or there is no way but the proxy",
        _around,
        _direct,
    ),
)
"""In the order in which they are made."""
CLAIMS: Final[tuple[Claim, ...]] = (ACCEPTED, *CHECKS, CLEAN)
