"""Common mistakes in a first installation of Transom."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from transom.common.counting import format_count
from transom.common.mappings import get_nested_value
from transom.common.timestamps import parse_timestamp
from transom.diagnosis.fields import (
    format_age,
    format_label,
    get_condition,
    get_items,
    get_labels,
    get_mapping,
    get_name,
    get_namespace,
)
from transom.diagnosis.operating import find_bound_namespace, is_etcd_full
from transom.diagnosis.overview import describe_termination, find_leader, iter_missing_rights, list_other_operators
from transom.diagnosis.snapshot import ClusterSnapshot, Evidence
from transom.pods.environment import explain_exclusion
from transom.pods.webhook_configuration import NAME as REGISTRATION
from transom.proxy.layers import BASE
from transom.proxy.secret import Secret
from transom.reasons.reason_table import find_remedy
from transom.windows.nodes.inventory import CONFIG_MAP, OF_PEER
from transom.windows.nodes.private_keys import has_passphrase
from transom.windows.nodes.windows_instance import KEY, PREVIOUS, WindowsInstanceSpec

_NOT_PULLED: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")


def find_missing_base_settings(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find a missing `EgressProxy/cluster` that hosts or other objects require."""
    proxies = snapshot.list_objects("EgressProxy")
    hosts = [
        own_object
        for own_object in snapshot.iter_own_objects("WindowsInstance")
        if get_nested_value(own_object, "spec", "clusterRef") is None
    ]
    if any(get_name(proxy) == BASE for proxy in (*proxies, *snapshot.list_objects("Proxy"))):
        return
    if not hosts and (not proxies or snapshot.list_objects("Cluster")):
        return
    if not proxies:
        evidence = f"no EgressProxy exists, and it would apply to {format_count(len(hosts), 'WindowsInstance')}"
        yield Evidence(f"EgressProxy/{BASE}", evidence, _INIT, edit=_INIT_FILES)
        return
    names = ", ".join(map(get_name, proxies))
    # one with a selector is meant for some workload clusters
    likely = [get_name(proxy) for proxy in proxies if get_nested_value(proxy, "spec", "clusterSelector") is None]
    first = next(iter(likely), get_name(proxies[0]))
    if not likely:
        evidence = f"EgressProxies are {names}: all select workload clusters, and none is named `{BASE}`"
        yield Evidence(f"EgressProxy/{first}", evidence, _INIT, edit=_INIT_FILES)
        return
    command = f"{_format_copy_command('egressproxy', first, '', BASE, rename=True)} && kubectl delete egressproxy {first}"
    edit = f"set metadata.name to {BASE}"
    yield Evidence(f"EgressProxy/{first}", f"EgressProxies are {names}: none is named `{BASE}`", command, edit=edit)


_INIT: Final = "transom init DIR makes one to start from; then: kubectl apply -f DIR"
_INIT_FILES: Final = "transom init DIR makes one to start from: copy its egress.yaml"


def find_instances_elsewhere(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find WindowsInstances and ConfigMaps `windows-instances` in namespaces that Transom does not watch."""
    listed = [obj for obj in snapshot.list_objects("ConfigMap") if get_name(obj) == CONFIG_MAP]
    for kind, entry in (("WindowsInstance", snapshot.list_objects("WindowsInstance")), ("ConfigMap", listed)):
        for item in entry:
            namespace, name, of = get_namespace(item) or "", get_name(item), kind.lower()
            if namespace not in (snapshot.namespace, OF_PEER):
                moved = _format_copy_command(of, name, namespace, snapshot.namespace)
                evidence = f"it is in namespace {namespace}, Transom in {snapshot.namespace}"
                edit = f"set metadata.namespace to {snapshot.namespace}, or name {namespace} with -n"
                yield Evidence(
                    format_label(kind, item), evidence, f"{moved} && kubectl delete {of} {name} -n {namespace}", edit=edit
                )


def find_references_elsewhere(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find Secrets and ConfigMaps of the settings that are not in Transom's namespace."""
    if describe_termination(snapshot):
        # nothing can be created there
        return
    for kind, name, by in iter_references(snapshot):
        if any(get_name(own_object) == name for own_object in snapshot.iter_own_objects(kind)):
            continue
        places = [namespace for item, namespace, named in snapshot.elsewhere if (item, named) == (kind, name)]
        wanted = f"{kind}/{snapshot.namespace}/{name}"
        if places:
            evidence = f"{by} names it; it is in namespace {', '.join(places)}, and not in {snapshot.namespace}"
            yield Evidence(wanted, evidence, _format_copy_command(kind.lower(), name, places[0], snapshot.namespace))
        else:
            edit = _format_addition(kind, name, by)
            yield Evidence(
                wanted, f"{by} names it, and there is none", _format_creation(kind, name, by, snapshot.namespace), edit=edit
            )


def iter_references(snapshot: ClusterSnapshot) -> Iterator[tuple[str, str, str]]:
    """Kind and name of each object that Transom reads from its namespace, and the object that names it; each once."""
    owners: dict[tuple[str, str], str] = {}
    for obj in snapshot.list_objects("EgressProxy"):
        for kind, field in (("Secret", "credentialsSecret"), ("ConfigMap", "trustedCA")):
            if name := get_nested_value(obj, "spec", field, "name"):
                owners.setdefault((kind, str(name)), f"spec.{field} of EgressProxy/{get_name(obj)}")
    for own_object in snapshot.iter_own_objects("WindowsInstance"):
        name = get_nested_value(own_object, "spec", "keySecret", "name") or WindowsInstanceSpec().key_secret.name
        owners.setdefault(("Secret", str(name)), f"spec.keySecret of WindowsInstance/{get_name(own_object)}")
    yield from ((kind, name, by) for (kind, name), by in owners.items())


def _format_creation(kind: str, name: str, by: str, namespace: str) -> str:
    if kind == "ConfigMap":
        return f"kubectl create configmap {name} -n {namespace} --from-file=ca-bundle.crt=FILE"
    if by.startswith("spec.keySecret"):
        return f"kubectl create secret generic {name} -n {namespace} --from-file={KEY}=FILE"
    return f"kubectl create secret generic {name} -n {namespace} --from-file=username=FILE --from-file=password=FILE"


def _format_addition(kind: str, name: str, by: str) -> str:
    """Return what to add to files."""
    if kind == "ConfigMap":
        return f"add ConfigMap {name} to the files, with the key ca-bundle.crt; transom init DIR --ca FILE writes one to copy"
    if by.startswith("spec.keySecret"):
        return (
            f"add Secret {name} to the files, with the key {KEY}; transom init DIR --key FILE --host ADDRESS writes one to copy"
        )
    return f"add Secret {name} to the files, with the keys username and password"


def find_missing_definitions(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find missing CRDs of Transom."""
    if snapshot.undefined:
        evidence = f"{snapshot.source} does not know {', '.join(snapshot.undefined)}: is it the cluster that is meant?"
        yield Evidence("CustomResourceDefinition", evidence, "transom manifests --part crds | kubectl apply -f -")


_LONGEST_LEASE: Final = 60
"""Seconds. `transom run` writes 15."""


def find_missing_leader(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find objects that need an operator while no operator runs."""
    leader_state = find_leader(snapshot)
    if (
        leader_state is None
        or leader_state.working
        or not (snapshot.list_objects("EgressProxy") or snapshot.list_objects("WindowsInstance"))
    ):
        return
    evidence = (
        f"the last leader stopped cleanly and last renewed it at {leader_state.renewed}"
        if leader_state.renewed
        else "it never had a holder"
    )
    if leader_state.holder:
        renewed = format_age(snapshot.now, parse_timestamp(leader_state.renewed)) or "never"
        evidence = f"{leader_state.holder} was the last to hold it, and renewed it {renewed} ago"
    labels = "-l app.kubernetes.io/component=operator"
    command = f"kubectl describe pods -n {snapshot.namespace} {labels}"
    if any(_is_running(pod) for pod in snapshot.iter_own_objects("Pod")):
        command = f"kubectl logs -n {snapshot.namespace} {labels} --tail=50"
    if is_etcd_full(snapshot):
        evidence += "; etcd is full (etcd-full)"
    if next(iter_missing_rights(snapshot), None):
        evidence += "; its ServiceAccount lacks rights (rights-missing)"
    made = next(
        (own_object for own_object in snapshot.iter_own_objects("Deployment") if get_name(own_object) == "transom"), None
    )
    if made is not None and get_nested_value(made, "spec", "replicas") == 0:
        command = f"kubectl scale deployment transom -n {snapshot.namespace} --replicas=2"
        evidence += "; Deployment transom has 0 replicas"
    elif why := "; ".join(_explain_pods_not_running(snapshot)):
        evidence += f"; {why}"
    if snapshot.was_read("Deployment") and not any(
        get_name(own_object) == "transom" for own_object in snapshot.iter_own_objects("Deployment")
    ):
        evidence += f"; Deployment transom does not exist in namespace {snapshot.namespace}"
        command = "transom manifests --image REGISTRY/transom:TAG | kubectl apply -f -"
        if bound := find_bound_namespace(snapshot):
            command = f"use -n {bound}: ClusterRoleBinding transom names that namespace"
        elif others := list_other_operators(snapshot):
            command = f"use -n {others[0]}: an operator leads in that namespace"
    if leader_state.holder and leader_state.duration > _LONGEST_LEASE:
        command = f"kubectl delete lease transom -n {snapshot.namespace}"
        evidence += f"; no replica takes it for {leader_state.duration:,} s, which Transom does not write"
    yield Evidence(f"Lease/{snapshot.namespace}/transom", evidence, command)


def _is_running(pod: Mapping[str, Any]) -> bool:
    """Return True for a pod of the operator that runs, and may not be ready: its log has the cause."""
    return (
        get_labels(pod).get("app.kubernetes.io/component") == "operator"
        and get_nested_value(pod, "status", "phase") == "Running"
    )


def _explain_pods_not_running(snapshot: ClusterSnapshot) -> Iterator[str]:
    """Iterate over reasons why the operator's pods do not run."""
    for pod in snapshot.iter_own_objects("Pod"):
        if get_labels(pod).get("app.kubernetes.io/component") != "operator":
            continue
        unscheduled = get_condition(pod, "PodScheduled")
        if unscheduled.get("status") == "False":
            yield f"{get_name(pod)}: {unscheduled.get('reason')}: {unscheduled.get('message')}"
        for status in get_items(pod, "status", "containerStatuses"):
            waiting, ended = (get_mapping(status, *path) for path in (("state", "waiting"), ("lastState", "terminated")))
            if waiting.get("reason") and waiting["reason"] not in _NOT_PULLED:
                last = f", last {ended.get('reason')}, exit code {ended.get('exitCode')}" if ended else ""
                yield f"{get_name(pod)}: {waiting['reason']}{last}"


def find_image_errors(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find pods of Transom whose image cannot be pulled."""
    for pod in snapshot.iter_own_objects("Pod"):
        for status in (*get_items(pod, "status", "initContainerStatuses"), *get_items(pod, "status", "containerStatuses")):
            waiting = get_mapping(status, "state", "waiting")
            if waiting.get("reason") in _NOT_PULLED:
                evidence = f"{status.get('image')}: {waiting['reason']}: {waiting.get('message') or 'no word of the runtime'}"
                command = "transom manifests --image REGISTRY/transom:TAG | kubectl apply -f - (make one: docs/image.md)"
                yield Evidence(format_label("Pod", pod), evidence, command)
                break


def find_encrypted_keys(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find SSH keys with a passphrase."""
    names = {name for kind, name, by in iter_references(snapshot) if kind == "Secret" and by.startswith("spec.keySecret")}
    for secret in snapshot.iter_own_objects("Secret"):
        data = get_mapping(secret, "data")
        for entry in (KEY, PREVIOUS):
            key = data.get(entry)
            if get_name(secret) in names and isinstance(key, Secret) and has_passphrase(key.reveal()):
                made = f"kubectl create secret generic {get_name(secret)} -n {snapshot.namespace} --from-file={entry}=COPY"
                command = f"ssh-keygen -p -N '' -f COPY && {made} --dry-run=client -o yaml | kubectl apply -f -"
                edit = f"run ssh-keygen -p -N '' -f COPY, and put the content of COPY into the Secret as {entry}"
                object_name = f"Secret/{snapshot.namespace}/{get_name(secret)}"
                yield Evidence(object_name, f"{entry} is sealed with a passphrase", command, edit=edit)


def find_line_breaks_in_credentials(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find proxy credentials that end with a line break, which `echo` and editors add."""
    references = iter_references(snapshot)
    names = {name for kind, name, by in references if kind == "Secret" and by.startswith("spec.credentialsSecret")}
    for secret in snapshot.iter_own_objects("Secret"):
        data = get_mapping(secret, "data")
        broken = [
            key
            for key in ("username", "password")
            if isinstance(credential := data.get(key), Secret) and _ends_with_line_break(credential)
        ]
        if get_name(secret) in names and broken:
            name = f"{get_name(secret)} -n {snapshot.namespace}"
            made = f"kubectl create secret generic {name} --from-literal=username=USER --from-file=password=/dev/stdin"
            command = f"printf %s PASSWORD | {made} --dry-run=client -o yaml | kubectl apply -f -"
            problem, edit = (
                f"Secret/{snapshot.namespace}/{get_name(secret)}",
                "write the value without it: `printf %s PASSWORD | base64`",
            )
            yield Evidence(problem, f"{' and '.join(broken)}: ends with a line break", command, edit=edit)


def _ends_with_line_break(text: Secret) -> bool:
    return text.reveal().endswith("\n")


def find_idle_webhook(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find a webhook configuration, existing or expected, with which no pod gets settings."""
    egress = snapshot.pod_egress
    if egress is None or not egress.has_pod_settings:
        return
    if egress.withheld:
        evidence = "the proxy has credentials, and spec.pods.namespaceSelector is not set: pods get no proxy"
        yield Evidence(f"EgressProxy/{BASE}", evidence, _SELECT)
        return
    for item in snapshot.list_objects("MutatingWebhookConfiguration"):
        if get_name(item) == REGISTRATION and not item.get("webhooks"):
            evidence = "it asks about no pod, though the settings are for pods"
            command = f"kubectl rollout restart deployment/transom-webhook -n {snapshot.namespace}"
            yield Evidence(f"MutatingWebhookConfiguration/{REGISTRATION}", evidence, command)
    spaces = [
        obj
        for obj in snapshot.list_objects("Namespace")
        if explain_exclusion(get_name(obj), get_labels(obj), snapshot.namespace) is None
    ]
    if (
        egress.selector is not None
        and spaces
        and not any(egress.is_selected(get_name(space), get_labels(space)) for space in spaces)
    ):
        evidence = f"spec.pods.namespaceSelector selects none of {format_count(len(spaces), 'Namespace')}"
        yield Evidence(f"EgressProxy/{BASE}", evidence, "kubectl label namespace NAME KEY=VALUE, as the selector asks for")


_SELECT: Final = (
    f"kubectl patch egressproxy {BASE} --type=merge -p "
    '\'{"spec":{"pods":{"namespaceSelector":{"matchLabels":{"egress":"allowed"}}}}}\' '
    "&& kubectl label namespace NAME egress=allowed"
)


def _format_copy_command(kind: str, name: str, place: str, to: str, *, rename: bool = False) -> str:
    """Format the command that copies an object under another name, or to another namespace, per `place` and `to`."""
    own = rf"s/^  name: {name}$/  name: {to}/;" if rename else ""
    edit = f"sed -E '{own}/^  (namespace|uid|resourceVersion|generation|creationTimestamp):/d'"
    source, target = f" -n {place}" if place else "", "" if rename else f" -n {to}"
    return f"kubectl get {kind} {name}{source} -o yaml | {edit} | kubectl apply{target} -f -"


def find_changed_host_keys(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find hosts whose key differs from the recorded one."""
    for own_object in snapshot.iter_own_objects("WindowsInstance"):
        key_condition = next(
            (
                each
                for each in (get_condition(own_object, "Reachable"), get_condition(own_object, "Configured"))
                if _is_key_changed(each)
            ),
            None,
        )
        if key_condition is not None:
            command = find_remedy("HostKeyChanged", get_name(own_object), snapshot.namespace)
            yield Evidence(format_label("WindowsInstance", own_object), str(key_condition.get("message")), command)


def _is_key_changed(key_condition: Mapping[str, Any]) -> bool:
    return bool(key_condition.get("reason") == "HostKeyChanged")
