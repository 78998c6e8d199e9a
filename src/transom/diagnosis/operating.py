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
    describe_refused_writes,
    describe_termination,
    find_leader,
    format_deletion_step,
)
from transom.diagnosis.snapshot import ClusterSnapshot, Evidence
from transom.pods.webhook_configuration import NAME as REGISTRATION
from transom.pods.webhook_configuration import is_own_configuration
from transom.reasons.reason_table import REASONS

_WEBHOOK = "transom-webhook"
_BOUND = ("transom", _WEBHOOK)


def find_refused_pods(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find new pods that the API server refuses, because of `failurePolicy: Fail` without an admission server that answers."""
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


def find_refused_writes(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find writes of the operator that the API server refuses due to a quota, a webhook or a policy."""
    command = REASONS["WriteRefused"].remedy
    if refused := describe_refused_writes(snapshot):
        yield Evidence(f"Lease/{snapshot.namespace}/transom", f"the API server refuses: {refused}", command)


def _format_rights_command(namespace: str) -> str:
    return f"transom manifests -n {namespace} --part rbac --part webhook | kubectl apply -f - (with the options of the install)"


def find_waiting_deletions(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find objects of Transom whose deletion no operator can finish."""
    if why := describe_termination(snapshot):
        command = "delete what blocks it (the next findings), then install again; docs/uninstall.md#if-a-deletion-does-not-end"
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
