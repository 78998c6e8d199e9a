"""What workloads of a cluster with Windows nodes and a proxy fall into, and its hosts: what they have is not what was set."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.diagnosis import Observed, Seen, Value
from transom.diagnosis.fields import at, condition, items, label_of, labels_of, mapping, name_of, namespace_of
from transom.diagnosis.overview import overview
from transom.pods import HOST_OS, MIRROR, Pod
from transom.pods.decision import INJECT_CA
from transom.pods.environment import PROXY_VARIABLES, excluded
from transom.pods.outdated import owner_of
from transom.proxy.secret import Secret
from transom.reasons import REASONS
from transom.windows.nodes import support

_HOLDING: Final = ("NoSchedule", "NoExecute")
_RESOURCES: Final = {"Deployment": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset"}
_ON_LINUX: Final = '\'{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/os":"linux"}}}}}\''
_APPLIED: Final = ("ProxyApplied", "TrustApplied")


def tolerates_windows(seen: Observed) -> Iterator[Seen]:
    """Linux pods that tolerate every taint and choose no system: a Windows node is as good as any."""
    windows = _windows_nodes(seen)
    if not windows:
        return
    owners: dict[tuple[str, str, str], list[Value]] = {}
    for value in seen.of("Pod"):
        pod = as_pod(value)
        owner = owner_of(pod)
        linux = not pod.finished and pod.metadata.annotation(MIRROR) is None and not pod.spec.windows
        if linux and owner[1] != "DaemonSet" and not _chooses(mapping(value, "spec")) and _blanket(mapping(value, "spec")):
            owners.setdefault(owner, []).append(value)
    for (namespace, kind, name), pods in sorted(owners.items()):
        there = sorted({str(node) for one in pods if (node := at(one, "spec", "nodeName")) in windows})
        evidence = "its pods tolerate every taint and choose no operating system"
        evidence += f"; some are on {', '.join(there[:3])}" if there else f"; {len(windows):,} nodes have Windows"
        yield Seen(f"{kind}/{namespace}/{name}", evidence, _choose_linux(kind, namespace, name))


def daemon_set_without_system(seen: Observed) -> Iterator[Seen]:
    """A DaemonSet that chooses no system, and that some Windows node takes."""
    windows = _windows_nodes(seen)
    for one in seen.of("DaemonSet"):
        spec = mapping(one, "spec", "template", "spec")
        pod = as_pod(mapping(one, "spec", "template"))
        if pod.spec.windows or _chooses(spec):
            continue
        taking = [name for name, node in windows.items() if _takes(node, spec)]
        if taking:
            evidence = f"its pods choose no operating system, and {', '.join(taking[:3])} with Windows take them"
            command = _choose_linux("DaemonSet", namespace_of(one) or "", name_of(one))
            yield Seen(label_of("DaemonSet", one), evidence, command)


def credentials_in_config_map(seen: Observed) -> Iterator[Seen]:
    """A URL with a password where everybody may read it."""
    for one in seen.of("ConfigMap"):
        keys = sorted(key for key, text in mapping(one, "data").items() if isinstance(text, Secret))
        if keys:
            namespace, name = namespace_of(one), name_of(one)
            evidence = f"data of {', '.join(keys[:5])} has a URL with a password"
            made = f"kubectl create secret generic {name} -n {namespace} --from-file={keys[0]}=FILE"
            command = f"{made}; kubectl patch configmap {name} -n {namespace} --type=json -p '[{_removal(keys[0])}]'"
            yield Seen(label_of("ConfigMap", one), evidence, command)


def environment_from_proxy(seen: Observed) -> Iterator[Seen]:
    """Pods to which `envFrom` brings a proxy, beside the one that Transom gives."""
    egress = seen.pod_egress
    if egress is None or not egress.pairs:
        return
    spaces = {name_of(one): labels_of(one) for one in seen.of("Namespace")}
    having = {
        (namespace_of(one), name_of(one)): keys
        for one in seen.of("ConfigMap")
        if (keys := sorted(PROXY_VARIABLES & mapping(one, "data").keys()))
    }
    told: dict[tuple[str, str, str], tuple[str, list[str]]] = {}
    for value in seen.of("Pod"):
        namespace = namespace_of(value) or ""
        labels = spaces.get(namespace, {})
        if excluded(namespace, labels, seen.namespace) is not None or not egress.selects(namespace, labels):
            continue
        for name in _config_maps(value):
            if (brought := having.get((namespace, name))) is not None:
                told.setdefault(owner_of(as_pod(value)), (name, brought))
    for (namespace, kind, name), (config_map, keys) in sorted(told.items()):
        evidence = f"envFrom of ConfigMap/{namespace}/{config_map} brings {', '.join(keys)}"
        command = f"kubectl patch configmap {config_map} -n {namespace} --type=json -p '[{','.join(map(_removal, keys))}]'"
        yield Seen(f"{kind}/{namespace}/{name}", evidence, command)


def windows_pod_without_ca(seen: Observed) -> Iterator[Seen]:
    """Windows pods that ask for the CAs: what reads the store of Windows in them does not see a file."""
    egress = seen.pod_egress
    if egress is None or not egress.trust:
        return
    spaces = {name_of(one): labels_of(one) for one in seen.of("Namespace")}
    owners: set[tuple[str, str, str]] = set()
    for value in seen.of("Pod"):
        pod, namespace = as_pod(value), namespace_of(value) or ""
        asked = pod.metadata.label(INJECT_CA) or spaces.get(namespace, {}).get(INJECT_CA)
        if asked == "true" and pod.spec.windows and not pod.spec.host_process and not pod.finished:
            owners.add(owner_of(pod))
    for namespace, kind, name in sorted(owners):
        evidence = "its pods run on Windows and ask for the CAs, which they get as a file and variables"
        command = "in the image, as its administrator, before the program starts: certutil -addstore Root %REQUESTS_CA_BUNDLE%"
        yield Seen(f"{kind}/{namespace}/{name}", evidence, command)


def as_pod(value: Mapping[str, Any]) -> Pod:
    """A pod, or the template of one, as far as it fits."""
    try:
        return msgspec.convert(dict(value), Pod)
    except msgspec.ValidationError:
        return Pod()


def _windows_nodes(seen: Observed) -> dict[str, Value]:
    return {name_of(one): one for one in seen.of("Node") if labels_of(one).get(HOST_OS) == "windows"}


def _chooses(spec: Mapping[str, Any]) -> bool:
    """Whether a pod says on which system it runs, by whatever means."""
    if at(spec, "os", "name") or HOST_OS in mapping(spec, "nodeSelector"):
        return True
    terms = items(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    return bool(terms) and all(any(at(one, "key") == HOST_OS for one in items(term, "matchExpressions")) for term in terms)


def _blanket(spec: Mapping[str, Any]) -> bool:
    """Whether it tolerates every taint: no key, and Exists (core/v1, Toleration)."""
    return any(_tolerates(one, {}, "NoSchedule") for one in items(spec, "tolerations") if not at(one, "key"))


def _takes(node: Value, spec: Mapping[str, Any]) -> bool:
    selector = mapping(spec, "nodeSelector")
    taints = [one for one in items(node, "spec", "taints") if at(one, "effect") in _HOLDING]
    fits = all(labels_of(node).get(key) == value for key, value in selector.items())
    return fits and all(any(_tolerates(one, taint, taint["effect"]) for one in items(spec, "tolerations")) for taint in taints)


def _tolerates(toleration: Any, taint: Mapping[str, Any], effect: str) -> bool:
    if at(toleration, "effect") not in (None, "", effect):
        return False
    exists = at(toleration, "operator") == "Exists"
    if not at(toleration, "key"):
        return bool(exists)
    same = at(toleration, "key") == taint.get("key")
    return bool(same and (exists or (at(toleration, "value") or "") == (taint.get("value") or "")))


def _removal(key: str) -> str:
    return f'{{"op":"remove","path":"/data/{key}"}}'


def _choose_linux(kind: str, namespace: str, name: str) -> str:
    resource = _RESOURCES.get(kind)
    if resource is None:
        return f"set nodeSelector kubernetes.io/os: linux where {kind} {name} of namespace {namespace} is made"
    return f"kubectl patch {resource} {name} -n {namespace} -p {_ON_LINUX}"


def _config_maps(pod: Value) -> Iterable[str]:
    for containers in ("containers", "initContainers"):
        for container in items(pod, "spec", containers):
            for one in items(container, "envFrom"):
                if (name := at(one, "configMapRef", "name")) and not at(one, "prefix"):
                    yield str(name)


def service_older(seen: Observed) -> Iterator[Seen]:
    """Services that run with the environment of before."""
    for one in seen.own("WindowsInstance"):
        said = [each for type_ in _APPLIED if (each := condition(one, type_)).get("reason") == "PendingRestart"]
        if said:
            command = REASONS["PendingRestart"].command(name_of(one), seen.namespace)
            yield Seen(label_of("WindowsInstance", one), str(said[0].get("message")), command)


def boot_pending(seen: Observed) -> Iterator[Seen]:
    """Hosts whose services keep the machine environment that was there when they booted."""
    for one in seen.own("WindowsInstance"):
        said = condition(one, "RebootRequired")
        if said.get("status") == "True" and said.get("reason") == "PendingBoot":
            node = at(one, "status", "nodeName")
            drain = f"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data, then " if node else ""
            command = f"{drain}on the host: shutdown /r /t 0" + (f", then kubectl uncordon {node}" if node else "")
            yield Seen(label_of("WindowsInstance", one), str(said.get("message")), command)


def version_skew(seen: Observed) -> Iterator[Seen]:
    """Kubelets that do not fit the API server, and parts of Transom of different versions."""
    for node in seen.of("Node"):
        kubelet = str(at(node, "status", "nodeInfo", "kubeletVersion") or "")
        if labels_of(node).get(HOST_OS) != "windows" or not kubelet or not seen.kubernetes:
            continue
        # the sentence is about the payload that a kubelet comes from
        if (said := support.skew_refusal(kubelet, seen.kubernetes)) is not None:
            yield Seen(
                label_of("Node", node), said.replace("the payload's kubelet", "its kubelet"), "transom payload build DIR"
            )
    images = {
        name: one.image for name, one in (overview(seen).deployments or {}).items() if name in ("transom", "transom-webhook")
    }
    if len(set(images.values())) > 1:
        told = " and ".join(f"{name} {image}" for name, image in images.items())
        command = "transom manifests --image REGISTRY/transom:TAG | kubectl apply -f -"
        yield Seen(f"Deployment/{seen.namespace}/transom", f"the images differ: {told}", command)
