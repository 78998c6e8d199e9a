"""What keeps an installation from working although its objects look right: admission, rights, other installs, deletion."""

from collections.abc import Iterator, Mapping
from typing import Any

from transom.common.mappings import get_at
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
from transom.diagnosis.snapshot import Observed, Seen
from transom.pods.registration import NAME as REGISTRATION
from transom.pods.registration import is_own
from transom.reasons.reason_table import REASONS

_WEBHOOK = "transom-webhook"
_BOUND = ("transom", _WEBHOOK)


def find_refused_pods(seen: Observed) -> Iterator[Seen]:
    """Find new pods that the API server refuses, because of `failurePolicy: Fail` without an admission server that answers."""
    reason = REASONS["PodsRefused"]
    command = reason.remedy.replace("`", "")
    for proxy in seen.list_objects("EgressProxy"):
        injected = get_condition(proxy, "PodsInjected")
        if injected.get("reason") == reason.id:
            yield Seen(format_label("EgressProxy", proxy), str(injected.get("message")), command)
            return
    registration = next((obj for obj in seen.list_objects("MutatingWebhookConfiguration") if get_name(obj) == REGISTRATION), {})
    if not is_own(registration) or not _is_fail_closed(registration):
        return
    server = next((own_object for own_object in seen.iter_own_objects("Deployment") if get_name(own_object) == _WEBHOOK), None)
    services = [item for item in get_items(registration, "webhooks") if get_at(item, "clientConfig", "service")]
    if services and (server is None or not get_at(server, "status", "availableReplicas")):
        state = "no Deployment exists with the name" if server is None else "no pod is available of Deployment"
        evidence = f"failurePolicy is Fail, and {state} {_WEBHOOK} in namespace {seen.namespace}"
        yield Seen(f"MutatingWebhookConfiguration/{REGISTRATION}", evidence, command)


def _is_fail_closed(registration: Mapping[str, Any]) -> bool:
    # the default of admissionregistration.k8s.io/v1 is Fail
    return any(item.get("failurePolicy", "Fail") == "Fail" for item in get_items(registration, "webhooks"))


def find_bindings_elsewhere(seen: Observed) -> Iterator[Seen]:
    """Find ClusterRoleBindings of Transom that an install in another namespace has taken over."""
    for binding in seen.list_objects("ClusterRoleBinding"):
        if get_name(binding) not in _BOUND:
            continue
        namespaces = sorted({str(item.get("namespace")) for item in get_items(binding, "subjects")})
        if seen.namespace in namespaces:
            continue
        deployed = any(get_name(own_object) == get_name(binding) for own_object in seen.iter_own_objects("Deployment"))
        if not deployed and get_name(binding) != "transom":
            continue
        named = f"the ServiceAccount of namespace {', '.join(namespaces)}" if namespaces else "no ServiceAccount"
        evidence = f"it binds {named}, and Transom is in {seen.namespace}: one Transom works in a cluster"
        uninstall = f"transom uninstall -n {namespaces[0]} removes the other one; " if namespaces else ""
        command = f"{_apply_rights(seen.namespace)}, or use -n {namespaces[0]}" if namespaces else _apply_rights(seen.namespace)
        yield Seen(f"ClusterRoleBinding/{get_name(binding)}", evidence, f"{uninstall}{command}")


def find_missing_rights(seen: Observed) -> Iterator[Seen]:
    """Find rights that the options in use require and Transom's ServiceAccount lacks."""
    accounts: dict[str, list[str]] = {}
    for obj in seen.list_objects("SubjectAccessReview"):
        if get_at(obj, "status", "allowed") is False:
            accounts.setdefault(str(get_at(obj, "spec", "user")), []).append(get_name(obj))
    for account, rights in accounts.items():
        _, _, namespace, name = account.split(":")
        yield Seen(f"ServiceAccount/{namespace}/{name}", f"it may not {', '.join(rights)}", _apply_rights(namespace))


def find_refused_writes(seen: Observed) -> Iterator[Seen]:
    """Find writes of the operator that the API server refuses due to a quota, a webhook or a policy."""
    command = REASONS["WriteRefused"].remedy
    if refused := describe_refused_writes(seen):
        yield Seen(f"Lease/{seen.namespace}/transom", f"the API server refuses: {refused}", command)


def _apply_rights(namespace: str) -> str:
    return f"transom manifests -n {namespace} --part rbac --part webhook | kubectl apply -f - (with the options of the install)"


def find_waiting_deletions(seen: Observed) -> Iterator[Seen]:
    """Find objects of Transom whose deletion no operator can finish."""
    if why := describe_termination(seen):
        command = "delete what blocks it (the next findings), then install again; docs/uninstall.md#if-a-deletion-does-not-end"
        yield Seen(f"Namespace/{seen.namespace}", why, command)
    who = find_leader(seen)
    if who is not None and who.working and not describe_termination(seen):
        return
    for kind, row in (("EgressProxy", build_proxy_row), ("WindowsInstance", build_host_row)):
        for obj in seen.list_objects(kind):
            if get_metadata(obj).get("deletionTimestamp") and get_metadata(obj).get("finalizers"):
                status = row(obj)
                step = format_deletion_step(kind, status.name, status.namespace)
                yield Seen(format_label(kind, obj), status.message, f"start the operator, or leave hosts unchanged: {step}")


def find_unobserved_edits(seen: Observed) -> Iterator[Seen]:
    """Find objects with an edit that the operator has not observed."""
    for kind, row in (("EgressProxy", build_proxy_row), ("WindowsInstance", build_host_row)):
        for obj in seen.list_objects(kind):
            status = row(obj)
            if status.reason in (NOT_OBSERVED, STATUS_NEWER):
                command = f"kubectl rollout restart deployment transom -n {seen.namespace}"
                if status.reason == NOT_OBSERVED:
                    command = f"kubectl logs deployment/transom -n {seen.namespace} --tail=50"
                yield Seen(format_label(kind, obj), status.message, command)
