"""What keeps an installation from working although its objects look right: admission, rights, other installs, deletion."""

from collections.abc import Iterator, Mapping
from typing import Any

from transom.common.mappings import get_nested_value
from transom.diagnosis.fields import format_label, get_condition, get_items, get_metadata, get_name
from transom.diagnosis.overview import (
    NOT_OBSERVED,
    STATUS_NEWER,
    build_host_row,
    build_proxy_row,
    describe_failed_reads,
    describe_refused_writes,
    describe_termination,
    find_leader,
    format_deletion_step,
    list_other_operators,
)
from transom.diagnosis.snapshot import ClusterSnapshot, Evidence
from transom.manifests.roles import parse_controllers
from transom.pods.webhook_configuration import NAME as REGISTRATION
from transom.pods.webhook_configuration import is_own_configuration
from transom.reasons.reason_table import REASONS

_WEBHOOK = "transom-webhook"
_BOUND = ("transom", _WEBHOOK)


_NO_SPACE = "database space exceeded"
"""go.etcd.io/etcd/api v3.6.8, v3rpc/rpctypes/error.go, ErrGRPCNoSpace: the API server repeats it."""
_FREE_SPACE = (
    "on a member of etcd: etcdctl endpoint status -w json (shows REVISION); etcdctl compact REVISION; etcdctl defrag (on each"
    " member); etcdctl alarm disarm; see https://etcd.io/docs/v3.6/op-guide/maintenance/#space-quota"
)


def find_refused_pods(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find new pods that the API server refuses: `failurePolicy: Fail` without an admission server that answers."""
    reason = REASONS["PodsRefused"]
    command = reason.remedy.replace("`", "")
    for proxy in snapshot.list_objects("EgressProxy"):
        injected = get_condition(proxy, "PodsInjected")
        if injected.get("reason") == reason.id:
            yield Evidence(format_label("EgressProxy", proxy), str(injected.get("message")), command)
            return
    registration = next(
        (obj for obj in snapshot.list_objects("MutatingWebhookConfiguration") if get_name(obj) == REGISTRATION), {}
    )
    if not is_own_configuration(registration) or not _is_fail_closed(registration):
        return
    server = next(
        (own_object for own_object in snapshot.iter_own_objects("Deployment") if get_name(own_object) == _WEBHOOK), None
    )
    services = [item for item in get_items(registration, "webhooks") if get_nested_value(item, "clientConfig", "service")]
    if services and (server is None or not get_nested_value(server, "status", "availableReplicas")):
        state = "no Deployment exists with the name" if server is None else "no pod is available of Deployment"
        evidence = f"failurePolicy is Fail, and {state} {_WEBHOOK} in namespace {snapshot.namespace}"
        yield Evidence(f"MutatingWebhookConfiguration/{REGISTRATION}", evidence, command)


def _is_fail_closed(registration: Mapping[str, Any]) -> bool:
    # the default of admissionregistration.k8s.io/v1 is Fail
    return any(item.get("failurePolicy", "Fail") == "Fail" for item in get_items(registration, "webhooks"))


def find_two_operators(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find an operator that leads in another namespace, next to the one in Transom's."""
    who = find_leader(snapshot)
    if who is None or not who.working:
        return
    for namespace in list_other_operators(snapshot):
        evidence = f"an operator renews it, next to that of namespace {snapshot.namespace}: one Transom works in a cluster"
        yield Evidence(f"Lease/{namespace}/transom", evidence, f"transom uninstall -n {namespace} removes that one")


_HOST_CONTROLLERS = ("hosts", "nodes")


def find_missing_controllers(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find WindowsInstances although the operator runs without a controller for hosts (`--controllers`)."""
    made = next(
        (own_object for own_object in snapshot.iter_own_objects("Deployment") if get_name(own_object) == "transom"), None
    )
    if made is None or not any(snapshot.iter_own_objects("WindowsInstance")):
        return
    containers = get_items(made, "spec", "template", "spec", "containers")
    arguments = [str(argument) for container in containers for argument in container.get("args") or ()]
    named = next((argument.partition("=")[2] for argument in arguments if argument.startswith("--controllers=")), None)
    try:
        controllers = parse_controllers(named)
    except ValueError:
        # the operator does not start with it, which other checks find
        return
    if named is not None and not set(_HOST_CONTROLLERS) & set(controllers):
        command = "add windows to controllers of the chart, or to --controllers of `transom manifests`, and apply it"
        yield Evidence(f"Deployment/{snapshot.namespace}/transom", f"--controllers={named}", command)


def find_bound_namespace(snapshot: ClusterSnapshot) -> str:
    """Return the namespace of the ServiceAccount that ClusterRoleBinding `transom` binds, if it is another one, or empty."""
    for binding in snapshot.list_objects("ClusterRoleBinding"):
        namespaces = sorted(str(item["namespace"]) for item in get_items(binding, "subjects") if item.get("namespace"))
        if get_name(binding) == "transom" and namespaces and snapshot.namespace not in namespaces:
            return namespaces[0]
    return ""


def find_bindings_elsewhere(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find ClusterRoleBindings of Transom that an install in another namespace has taken over."""
    for binding in snapshot.list_objects("ClusterRoleBinding"):
        if get_name(binding) not in _BOUND:
            continue
        namespaces = sorted({str(item.get("namespace")) for item in get_items(binding, "subjects")})
        if snapshot.namespace in namespaces:
            continue
        deployed = any(get_name(own_object) == get_name(binding) for own_object in snapshot.iter_own_objects("Deployment"))
        if not deployed and get_name(binding) != "transom":
            continue
        named = f"the ServiceAccount of namespace {', '.join(namespaces)}" if namespaces else "no ServiceAccount"
        evidence = f"it binds {named}, and Transom is in {snapshot.namespace}: one Transom works in a cluster"
        uninstall = f"transom uninstall -n {namespaces[0]} removes the other one; " if namespaces else ""
        command = (
            f"{_format_rights_command(snapshot.namespace)}, or use -n {namespaces[0]}"
            if namespaces
            else _format_rights_command(snapshot.namespace)
        )
        yield Evidence(f"ClusterRoleBinding/{get_name(binding)}", evidence, f"{uninstall}{command}")


def find_missing_rights(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find rights that the options in use require and Transom's ServiceAccount lacks."""
    accounts: dict[str, list[str]] = {}
    for obj in snapshot.list_objects("SubjectAccessReview"):
        if get_nested_value(obj, "status", "allowed") is False:
            accounts.setdefault(str(get_nested_value(obj, "spec", "user")), []).append(get_name(obj))
    for account, rights in accounts.items():
        _, _, namespace, name = account.split(":")
        yield Evidence(
            f"ServiceAccount/{namespace}/{name}", f"it may not {', '.join(rights)}", _format_rights_command(namespace)
        )


def is_etcd_full(snapshot: ClusterSnapshot) -> bool:
    """Return True if the API server refuses writes because etcd has no space left."""
    return _NO_SPACE in snapshot.write_refusal or _NO_SPACE in describe_refused_writes(snapshot)


def find_full_etcd(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find that etcd has no space left (alarm `NOSPACE`)."""
    if is_etcd_full(snapshot):
        refusal = snapshot.write_refusal or describe_refused_writes(snapshot)
        yield Evidence("etcd", f"the API server refuses due: {refusal}", _FREE_SPACE)


def find_refused_writes(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find that the API server refuses writes of the operator, although it has the right: a quota, a webhook, a policy."""
    command = REASONS["WriteRefused"].remedy
    if (refused := describe_refused_writes(snapshot)) and _NO_SPACE not in refused:
        yield Evidence(f"Lease/{snapshot.namespace}/transom", f"the API server refuses: {refused}", command)
    if snapshot.write_refusal and _NO_SPACE not in snapshot.write_refusal:
        evidence = f"the API server fails to create an object: {snapshot.write_refusal}"
        yield Evidence("Namespace/default", evidence, command)


def find_failed_reads(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find that the operator cannot read a kind, although it has the right: the API server cannot read it from etcd."""
    if failed := describe_failed_reads(snapshot):
        yield Evidence(
            f"Lease/{snapshot.namespace}/transom", f"the operator cannot read {failed}", REASONS["ReadFailed"].remedy
        )


def _format_rights_command(namespace: str) -> str:
    return f"transom manifests -n {namespace} --part rbac --part webhook | kubectl apply -f - (with the options of the install)"


def find_waiting_deletions(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find objects of Transom whose deletion no operator can finish."""
    if why := describe_termination(snapshot):
        command = "delete what blocks it (the next findings), then install again; docs/uninstall.md#if-a-deletion-hangs"
        yield Evidence(f"Namespace/{snapshot.namespace}", why, command)
    who = find_leader(snapshot)
    if who is not None and who.working and not describe_termination(snapshot):
        return
    for kind, row in (("EgressProxy", build_proxy_row), ("WindowsInstance", build_host_row)):
        for obj in snapshot.list_objects(kind):
            if get_metadata(obj).get("deletionTimestamp") and get_metadata(obj).get("finalizers"):
                status = row(obj)
                step = format_deletion_step(kind, status.name, status.namespace)
                yield Evidence(format_label(kind, obj), status.message, f"start the operator, or leave hosts unchanged: {step}")


def find_unobserved_edits(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find objects with an edit that the operator has not observed."""
    for kind, row in (("EgressProxy", build_proxy_row), ("WindowsInstance", build_host_row)):
        for obj in snapshot.list_objects(kind):
            status = row(obj)
            if status.reason in (NOT_OBSERVED, STATUS_NEWER):
                command = f"kubectl rollout restart deployment transom -n {snapshot.namespace}"
                if status.reason == NOT_OBSERVED:
                    command = f"kubectl logs deployment/transom -n {snapshot.namespace} --tail=50"
                yield Evidence(format_label(kind, obj), status.message, command)
