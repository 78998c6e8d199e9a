"""What workloads of a cluster with Windows nodes and a proxy fall into, and its hosts: what they have is not what was set."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.capi.check.calico_check import find_calico_faults
from transom.common.mappings import get_nested_value
from transom.diagnosis.fields import format_label, get_condition, get_items, get_labels, get_mapping, get_name, get_namespace
from transom.diagnosis.overview import build_overview
from transom.diagnosis.snapshot import ClusterSnapshot, Evidence, Value
from transom.pods.decision import INJECT_CA, decide_pod, list_excluded_containers
from transom.pods.environment import PROXY_VARIABLES, SECRET, explain_exclusion
from transom.pods.namespace_services import EXTERNAL_NAME, add_service_names, build_short_names, group_names
from transom.pods.outdated_pods import find_owner
from transom.pods.pod_types import HOST_OS, MIRROR, OS_LABELS, WINDOWS_BUILD, Pod
from transom.pods.service_names import ServiceReference, find_proxied_services
from transom.proxy.secret import Secret
from transom.reasons.reason_table import REASONS
from transom.windows.nodes import support
from transom.windows.nodes.scheduling import TAINT, TOLERATION

_HOLDING: Final = ("NoSchedule", "NoExecute")
_RESOURCES: Final = {"Deployment": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset"}
_ON_LINUX: Final = '\'{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/os":"linux"}}}}}\''
_SYSTEMS: Final = (*OS_LABELS, WINDOWS_BUILD)
_APPLIED: Final = ("ProxyApplied", "TrustApplied")


def find_linux_pods_on_windows(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find Linux pods that a Windows node accepts, because they tolerate every taint and select no operating system."""
    windows = _list_windows_nodes(snapshot)
    if not windows:
        return
    owners: dict[tuple[str, str, str], list[Value]] = {}
    for value in snapshot.list_objects("Pod"):
        pod = as_pod(value)
        owner = find_owner(pod)
        linux = not pod.finished and pod.metadata.get_annotation(MIRROR) is None and not pod.spec.windows
        if (
            linux
            and owner[1] != "DaemonSet"
            and not _has_os_selector(get_mapping(value, "spec"))
            and _can_tolerate_everything(get_mapping(value, "spec"))
        ):
            owners.setdefault(owner, []).append(value)
    for (namespace, kind, name), pods in sorted(owners.items()):
        node_names = sorted({str(node) for pod in pods if (node := get_nested_value(pod, "spec", "nodeName")) in windows})
        evidence = "its pods tolerate every taint and choose no operating system"
        evidence += f"; some are on {', '.join(node_names[:3])}" if node_names else f"; {len(windows):,} nodes have Windows"
        yield Evidence(f"{kind}/{namespace}/{name}", evidence, _format_linux_selector(kind, namespace, name))


def find_daemon_sets_without_os(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find DaemonSets that select no operating system and that a Windows node accepts."""
    windows = _list_windows_nodes(snapshot)
    for obj in snapshot.list_objects("DaemonSet"):
        spec = get_mapping(obj, "spec", "template", "spec")
        pod = as_pod(get_mapping(obj, "spec", "template"))
        if pod.spec.windows or _has_os_selector(spec):
            continue
        taking = [name for name, node in windows.items() if _can_run_on(node, spec)]
        if taking:
            evidence = f"its pods choose no operating system, and {', '.join(taking[:3])} with Windows take them"
            command = _format_linux_selector("DaemonSet", get_namespace(obj) or "", get_name(obj))
            yield Evidence(format_label("DaemonSet", obj), evidence, command)


def find_credentials_in_config_maps(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find URLs with a password in ConfigMaps."""
    for obj in snapshot.list_objects("ConfigMap"):
        keys = sorted(key for key, text in get_mapping(obj, "data").items() if isinstance(text, Secret))
        if keys:
            namespace, name = get_namespace(obj), get_name(obj)
            evidence = f"the value of {', '.join(keys[:5])} contains a URL with a password"
            made = f"kubectl create secret generic {name} -n {namespace} --from-file={keys[0]}=FILE"
            command = (
                f"{made}; kubectl patch configmap {name} -n {namespace} --type=json -p '[{_format_removal_patch(keys[0])}]'"
            )
            edit = f"move the URL to a Secret, and remove {', '.join(keys[:5])} from the ConfigMap"
            yield Evidence(format_label("ConfigMap", obj), evidence, command, edit=edit)


def find_proxies_in_env_from(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find pods that also get a proxy from `envFrom`."""
    egress = snapshot.pod_egress
    if egress is None or not egress.pairs:
        return
    spaces = {get_name(obj): get_labels(obj) for obj in snapshot.list_objects("Namespace")}
    having = {
        (get_namespace(obj), get_name(obj)): keys
        for obj in snapshot.list_objects("ConfigMap")
        if (keys := sorted(PROXY_VARIABLES & get_mapping(obj, "data").keys()))
    }
    keys_by_pod: dict[tuple[str, str, str], tuple[str, list[str]]] = {}
    for value in snapshot.list_objects("Pod"):
        namespace = get_namespace(value) or ""
        labels = spaces.get(namespace, {})
        if explain_exclusion(namespace, labels, snapshot.namespace) is not None or not egress.is_selected(namespace, labels):
            continue
        for name in _iter_env_from_names(value):
            if (brought := having.get((namespace, name))) is not None:
                keys_by_pod.setdefault(find_owner(as_pod(value)), (name, brought))
    for (namespace, kind, name), (config_map, keys) in sorted(keys_by_pod.items()):
        evidence = f"envFrom of ConfigMap/{namespace}/{config_map} brings {', '.join(keys)}"
        removals = ",".join(map(_format_removal_patch, keys))
        command = f"kubectl patch configmap {config_map} -n {namespace} --type=json -p '[{removals}]'"
        yield Evidence(f"{kind}/{namespace}/{name}", evidence, command)


def find_windows_pods_without_ca(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find Windows pods that request the CAs. Programs that read the store of Windows do not see the file."""
    egress = snapshot.pod_egress
    if egress is None or not egress.trust:
        return
    spaces = {get_name(obj): get_labels(obj) for obj in snapshot.list_objects("Namespace")}
    owners: set[tuple[str, str, str]] = set()
    for value in snapshot.list_objects("Pod"):
        pod, namespace = as_pod(value), get_namespace(value) or ""
        request = pod.metadata.get_label(INJECT_CA) or spaces.get(namespace, {}).get(INJECT_CA)
        if request == "true" and pod.spec.windows and not pod.spec.host_process and not pod.finished:
            owners.add(find_owner(pod))
    for namespace, kind, name in sorted(owners):
        evidence = "its pods run on Windows and ask for the CAs, which they get as a file and variables"
        command = (
            "in the image, as its administrator, before the program starts: certutil -addstore Root %REQUESTS_CA_BUNDLE%, or "
            "in Nano Server certoc.exe -addstore root %REQUESTS_CA_BUNDLE%"
        )
        yield Evidence(f"{kind}/{namespace}/{name}", evidence, command)


def find_services_by_short_name(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find containers that use the short name of a Service, which NO_PROXY does not cover."""
    egress = snapshot.pod_egress
    if egress is None or not egress.no_proxy:
        return
    services = {(get_namespace(obj) or "", get_name(obj)): _get_external_name(obj) for obj in snapshot.list_objects("Service")}
    names_by_namespace = group_names(services)
    spaces = {get_name(obj): get_labels(obj) for obj in snapshot.list_objects("Namespace")}
    services_by_owner: dict[tuple[str, str, str], dict[str, ServiceReference]] = {}
    for value in snapshot.list_objects("Pod"):
        pod, namespace = as_pod(value), get_namespace(value) or ""
        if pod.finished or decide_pod(pod, namespace, spaces.get(namespace, {}), egress).no_proxy_reason is not None:
            continue
        containers = [*get_items(value, "spec", "initContainers"), *get_items(value, "spec", "containers")]
        left_out = list_excluded_containers(pod)
        own_containers = [container for container in containers if get_nested_value(container, "name") not in left_out]
        no_proxy = add_service_names(egress, namespace, names_by_namespace.get(namespace, ())).no_proxy
        for proxied_service in find_proxied_services(own_containers, namespace, services, no_proxy):
            services_by_owner.setdefault(find_owner(pod), {}).setdefault(proxied_service.name, proxied_service)
    for (namespace, kind, name), names in sorted(services_by_owner.items()):
        first = next(iter(names.values()))
        listed = ", ".join(list(names)[:5])
        evidence = f"{first.place} of container {first.container} refers to Service {listed}: these requests go to the proxy"
        command = f"in {kind} {name} of namespace {namespace}: write {first.full_name} instead of {first.name}"
        if first.name in build_short_names(namespace, names_by_namespace.get(namespace, ()), egress.no_proxy).items:
            # a pod has the names that existed when it was created
            command += (
                ", or replace its pods: new ones have the name in NO_PROXY"
                if egress.service_names
                else ", or set spec.pods.serviceNames: Add in EgressProxy/cluster and replace its pods"
            )
        yield Evidence(f"{kind}/{namespace}/{name}", evidence, command)


def _get_external_name(service: Value) -> str:
    host = get_nested_value(service, "spec", "externalName")
    return host if isinstance(host, str) and get_nested_value(service, "spec", "type") == EXTERNAL_NAME else ""


def find_unschedulable_windows_pods(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find Windows pods that do not tolerate the taint `os` of any Windows node, or select another build."""
    windows = _list_windows_nodes(snapshot)
    steps_by_owner: dict[tuple[str, str, str], tuple[str, str]] = {}
    for value in snapshot.list_objects("Pod") if windows else ():
        pod, spec = as_pod(value), get_mapping(value, "spec")
        if not pod.spec.windows or pod.finished or get_nested_value(spec, "nodeName"):
            continue
        selecting = {name: node for name, node in windows.items() if _matches_node_selector(spec, node)}
        if not selecting:
            builds = sorted({get_labels(node).get(WINDOWS_BUILD, "unknown") for node in windows.values()})
            wanted = get_mapping(spec, "nodeSelector")
            selector = ", ".join(f"{key}={text}" for key, text in sorted(wanted.items()))
            evidence = f"no Windows node has the labels of its node selector ({selector}); their builds are {', '.join(builds)}"
            command = "kubectl get nodes -l kubernetes.io/os=windows --show-labels shows the labels; correct the selector"
            steps_by_owner.setdefault(find_owner(pod), (evidence, command))
        elif not any(_can_tolerate_system_taints(spec, node) for node in selecting.values()):
            name, node = next(iter(selecting.items()))
            (taint, *_) = _list_system_taints(node)
            evidence = f"it does not tolerate os={taint.get('value', '')}:{taint.get('effect')}, the taint of {name}"
            steps_by_owner.setdefault(find_owner(pod), (evidence, _format_toleration_command(find_owner(pod), spec)))
    for (namespace, kind, name), (evidence, command) in sorted(steps_by_owner.items()):
        yield Evidence(f"{kind}/{namespace}/{name}", evidence, command)


def _matches_node_selector(spec: Mapping[str, Any], node: Value) -> bool:
    return all(get_labels(node).get(key) == value for key, value in get_mapping(spec, "nodeSelector").items())


def _list_system_taints(node: Value) -> list[Mapping[str, Any]]:
    return [
        item
        for item in get_items(node, "spec", "taints")
        if get_nested_value(item, "key") == TAINT["key"] and get_nested_value(item, "effect") in _HOLDING
    ]


def _can_tolerate_system_taints(spec: Mapping[str, Any], node: Value) -> bool:
    tolerations = get_items(spec, "tolerations")
    return all(
        any(_is_tolerated(toleration, taint, taint["effect"]) for toleration in tolerations)
        for taint in _list_system_taints(node)
    )


def _format_toleration_command(owner: tuple[str, str, str], spec: Mapping[str, Any]) -> str:
    """Return the command that adds the toleration to those that an owner's template has."""
    namespace, kind, name = owner
    resource = _RESOURCES.get(kind)
    if resource is None:
        toleration = msgspec.json.encode(TOLERATION).decode()
        return f"add the toleration {toleration} where {kind} {name} of namespace {namespace} is made"
    # the API server adds those with a time to each pod
    own = [dict(item) for item in get_items(spec, "tolerations") if get_nested_value(item, "tolerationSeconds") is None]
    patch = {"spec": {"template": {"spec": {"tolerations": [*own, TOLERATION]}}}}
    return f"kubectl patch {resource} {name} -n {namespace} -p '{msgspec.json.encode(patch).decode()}'"


def find_waiting_network_plugins(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find network plugins whose pods wait for Transom's webhook, which itself needs the network."""
    egress = snapshot.pod_egress
    failing = any(
        get_nested_value(item, "failurePolicy") == "Fail"
        for registration in snapshot.list_objects("MutatingWebhookConfiguration")
        for item in get_items(registration, "webhooks")
    )
    if egress is None or not egress.has_pod_settings or not (failing or egress.in_secret):
        return
    spaces = {get_name(obj): get_labels(obj) for obj in snapshot.list_objects("Namespace")}
    for entry in snapshot.list_objects("DaemonSet"):
        namespace, spec = get_namespace(entry) or "", get_mapping(entry, "spec", "template", "spec")
        if (
            get_nested_value(spec, "hostNetwork") is not True
            or get_nested_value(spec, "priorityClassName") != "system-node-critical"
        ):
            continue
        pod, labels = as_pod(get_mapping(entry, "spec", "template")), spaces.get(namespace, {})
        decided = decide_pod(pod, namespace, labels, egress)
        if decided.no_proxy_reason is not None and decided.no_ca_reason is not None:
            continue
        why = "the webhook has failurePolicy Fail" if failing else f"its containers wait for Secret {SECRET}"
        evidence = f"its pods are critical for each node and use the host's network, and {why}"
        command = f"kubectl label namespace {namespace} transom.dev/inject=disabled"
        yield Evidence(format_label("DaemonSet", entry), evidence, command)


def find_calico_without_windows(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find a Calico Installation whose network Windows nodes cannot use."""
    windows = _list_windows_nodes(snapshot)
    for obj in snapshot.list_objects("Installation"):
        network = get_mapping(obj, "spec", "calicoNetwork")
        dataplane = get_nested_value(network, "windowsDataplane") or "Disabled"
        label, page = format_label("Installation", obj), "docs/windows-workers.md#calico"
        if dataplane == "Disabled":
            if windows and get_nested_value(obj, "spec", "cni", "type") in (None, "Calico"):
                evidence = f"windowsDataplane is Disabled, and {len(windows):,} nodes have Windows"
                patch = '{"spec":{"calicoNetwork":{"windowsDataplane":"HNS"}}}'
                yield Evidence(label, evidence, f"{_PATCH_INSTALLATION} '{patch}'; {page} lists what else it requires")
            continue
        for path, message in find_calico_faults(network):
            field = ".".join(map(str, path))
            edit = f"set spec.calicoNetwork.ipPools[*].encapsulation to VXLAN, for Linux nodes too ({page})"
            yield Evidence(
                label,
                f"spec.calicoNetwork.{field} is {message}",
                f"kubectl edit installation {get_name(obj)}: {edit}",
                edit=edit,
            )


_PATCH_INSTALLATION: Final = "kubectl patch installation default --type=merge -p"


def as_pod(value: Mapping[str, Any]) -> Pod:
    """Return a pod, or the template of one, with the fields that are valid."""
    try:
        return msgspec.convert(dict(value), Pod)
    except msgspec.ValidationError:
        return Pod()


def _list_windows_nodes(snapshot: ClusterSnapshot) -> dict[str, Value]:
    return {get_name(obj): obj for obj in snapshot.list_objects("Node") if get_labels(obj).get(HOST_OS) == "windows"}


def _has_os_selector(spec: Mapping[str, Any]) -> bool:
    """Return True if a pod selects its operating system in any way."""
    if get_nested_value(spec, "os", "name") or any(label in get_mapping(spec, "nodeSelector") for label in _SYSTEMS):
        return True
    terms = get_items(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    return bool(terms) and all(
        any(get_nested_value(item, "key") in _SYSTEMS for item in get_items(term, "matchExpressions")) for term in terms
    )


def _can_tolerate_everything(spec: Mapping[str, Any]) -> bool:
    """Return True if it tolerates every taint: no key, and Exists (core/v1, Toleration)."""
    return any(
        _is_tolerated(item, {}, "NoSchedule") for item in get_items(spec, "tolerations") if not get_nested_value(item, "key")
    )


def _can_run_on(node: Value, spec: Mapping[str, Any]) -> bool:
    selector = get_mapping(spec, "nodeSelector")
    taints = [item for item in get_items(node, "spec", "taints") if get_nested_value(item, "effect") in _HOLDING]
    fits = all(get_labels(node).get(key) == value for key, value in selector.items())
    return fits and all(
        any(_is_tolerated(item, taint, taint["effect"]) for item in get_items(spec, "tolerations")) for taint in taints
    )


def _is_tolerated(toleration: Any, taint: Mapping[str, Any], effect: str) -> bool:
    if get_nested_value(toleration, "effect") not in (None, "", effect):
        return False
    exists = get_nested_value(toleration, "operator") == "Exists"
    if not get_nested_value(toleration, "key"):
        return bool(exists)
    same = get_nested_value(toleration, "key") == taint.get("key")
    return bool(same and (exists or (get_nested_value(toleration, "value") or "") == (taint.get("value") or "")))


def _format_removal_patch(key: str) -> str:
    return f'{{"op":"remove","path":"/data/{key}"}}'


def _format_linux_selector(kind: str, namespace: str, name: str) -> str:
    resource = _RESOURCES.get(kind)
    if resource is None:
        return f"set nodeSelector kubernetes.io/os: linux where {kind} {name} of namespace {namespace} is made"
    return f"kubectl patch {resource} {name} -n {namespace} -p {_ON_LINUX}"


def _iter_env_from_names(pod: Value) -> Iterable[str]:
    for containers in ("containers", "initContainers"):
        for container in get_items(pod, "spec", containers):
            for item in get_items(container, "envFrom"):
                if (name := get_nested_value(item, "configMapRef", "name")) and not get_nested_value(item, "prefix"):
                    yield str(name)


def find_outdated_services(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find services that still run with their previous environment."""
    for own_object in snapshot.iter_own_objects("WindowsInstance"):
        pending_conditions = [
            each for type_ in _APPLIED if (each := get_condition(own_object, type_)).get("reason") == "PendingRestart"
        ]
        if pending_conditions:
            command = REASONS["PendingRestart"].get_remedy_command(get_name(own_object), snapshot.namespace)
            yield Evidence(format_label("WindowsInstance", own_object), str(pending_conditions[0].get("message")), command)


def find_pending_reboots(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find hosts whose services keep a previous machine environment until a reboot."""
    for own_object in snapshot.iter_own_objects("WindowsInstance"):
        reboot_condition = get_condition(own_object, "RebootRequired")
        if reboot_condition.get("status") == "True" and reboot_condition.get("reason") == "PendingBoot":
            node = get_nested_value(own_object, "status", "nodeName")
            drain = f"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data, then " if node else ""
            command = f"{drain}on the host: shutdown /r /t 0" + (f", then kubectl uncordon {node}" if node else "")
            yield Evidence(format_label("WindowsInstance", own_object), str(reboot_condition.get("message")), command)


def find_version_skew(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find kubelets that are incompatible with the API server, and components of Transom with different versions."""
    for node in snapshot.list_objects("Node"):
        kubelet = str(get_nested_value(node, "status", "nodeInfo", "kubeletVersion") or "")
        if get_labels(node).get(HOST_OS) != "windows" or not kubelet or not snapshot.kubernetes:
            continue
        # the sentence is about the payload that a kubelet comes from
        if (refusal := support.find_skew_refusal(kubelet, snapshot.kubernetes)) is not None:
            yield Evidence(
                format_label("Node", node), refusal.replace("the payload's kubelet", "its kubelet"), "transom payload build DIR"
            )
    images = {
        name: deployment.image
        for name, deployment in (build_overview(snapshot).deployments or {}).items()
        if name in ("transom", "transom-webhook")
    }
    if len(set(images.values())) > 1:
        image_list = " and ".join(f"{name} {image}" for name, image in images.items())
        command = "transom manifests --image REGISTRY/transom:TAG | kubectl apply -f -"
        yield Evidence(f"Deployment/{snapshot.namespace}/transom", f"the images differ: {image_list}", command)
