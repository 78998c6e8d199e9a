"""The status of an EgressProxy: what is wrong with it, and what of it holds. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from transom.common.timestamps import format_timestamp
from transom.controllers.runtime.conditions import PENDING, Condition, Conditions, merge_conditions
from transom.http.readiness import EndpointAnswer
from transom.proxy.finding import Finding
from transom.proxy.layers import BASE, resolve_openshift_bundle
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.status import EgressProxyStatus, HostsStatus, TrustBundleStatus
from transom.proxy.trust import format_pem
from transom.proxy.url import parse

TYPES: Final = ("Ready", "Valid", "TrustBundleValid", "EndpointsAnswer", "Superseded")
"""Conditions that the egress controller sets; others in a status stay unchanged."""
NOT_LOOKED: Final = "NotLooked"
"""The reason of a condition that was not checked since the operator started."""
PROXY: Final = f"Proxy/{BASE}"
"""What findings call OpenShift's object."""
_SHOWN: Final = 3
_MAX_MESSAGE: Final = 4096


def select_findings(
    name: str, spec: Mapping[str, Any], namespace: str, findings: Iterable[Finding], proxy: Mapping[str, Any] | None = None
) -> list[Finding]:
    """Return the findings about an EgressProxy and the Secret and ConfigMap that it names.

    `proxy` is the spec of OpenShift's Proxy if that is the base instead: its problems are problems of both.
    """
    objects = {f"EgressProxy/{name}"} | (set() if proxy is None else _list_proxy_objects(proxy))
    for kind, field in (("Secret", "credentialsSecret"), ("ConfigMap", "trustedCA")):
        reference = spec.get(field)
        if isinstance(reference, Mapping) and reference.get("name"):
            objects.add(f"{kind}/{namespace}/{reference['name']}")
    return [finding for finding in findings if finding.object in objects]


def select_proxy_findings(spec: Mapping[str, Any], findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings about OpenShift's Proxy and the ConfigMap that it names."""
    objects = _list_proxy_objects(spec)
    return [finding for finding in findings if finding.object in objects]


def _list_proxy_objects(spec: Mapping[str, Any]) -> set[str]:
    reference = spec.get("trustedCA")
    name = reference.get("name") if isinstance(reference, Mapping) else None
    bundle = resolve_openshift_bundle(name) if isinstance(name, str) else None
    return {PROXY} | ({"/".join(("ConfigMap", *bundle))} if bundle else set())


def drop_unchecked(live: EgressProxyStatus, conditions: Conditions) -> Conditions:
    """Return conditions without those that were not checked yet, if the live status has an earlier answer.

    An operator that has just started has checked nothing, and a restart alone changes no condition.
    """
    existing = {condition.type for condition in live.conditions}
    return {
        type_: condition for type_, condition in conditions.items() if condition.reason != NOT_LOOKED or type_ not in existing
    }


def build_proxy_validity(findings: Sequence[Finding]) -> Condition:
    """Return the condition of OpenShift's Proxy for events; Transom does not write to that object."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        return Condition("False", "Invalid", f"{_format_findings(PROXY, errors)}; the last valid settings apply")
    return Condition("True", "Valid", "the settings are valid")


def build_validity(
    name: str, spec: Mapping[str, Any], findings: Sequence[Finding], proxy: Mapping[str, Any] | None = None
) -> Conditions:
    """Return the conditions that follow from the objects alone. `proxy` is the spec of OpenShift's Proxy, None without one."""
    errors = [finding for finding in findings if finding.severity == "error"]
    own = f"EgressProxy/{name}"
    superseded = name == BASE and proxy is not None
    of_trust = [error for error in errors if error.object.startswith("ConfigMap/") or error.field.startswith("spec.trustedCA")]
    conditions = {
        "Valid": Condition("False", "Invalid", _format_findings(own, errors))
        if errors
        else Condition("True", "Valid", _with_warnings("the settings are valid", own, findings)),
    }
    trusted_ca_names = spec.get("trustedCA"), (proxy or {}).get("trustedCA") if superseded else None
    if of_trust:
        conditions["TrustBundleValid"] = Condition("False", "Invalid", _format_findings(own, of_trust))
    elif not any(isinstance(item, Mapping) and item.get("name") for item in trusted_ca_names):
        conditions["TrustBundleValid"] = Condition("True", "NotConfigured", "spec.trustedCA is not set")
    else:
        conditions["TrustBundleValid"] = Condition("True", "Valid", "every certificate can be read")
    if name == BASE:
        conditions["Superseded"] = (
            Condition(
                "True",
                "OpenShiftProxy",
                "Proxy/cluster of config.openshift.io takes precedence; this object adds other settings",
            )
            if superseded
            else Condition("False", "NotSuperseded", "this object contains the default settings")
        )
    return conditions


def build_endpoints_condition(answers: Sequence[EndpointAnswer]) -> Condition:
    """Return the condition for the answers of the endpoints."""
    if not answers:
        return Condition("True", "NotConfigured", "spec.readinessEndpoints is not set")
    failed = [
        f"spec.readinessEndpoints[{index}]: {parse(answer.endpoint).redacted} through the proxy, 3 tries: {answer.failure}"
        for index, answer in enumerate(answers)
        if answer.failure
    ]
    if failed:
        return Condition("False", "EndpointFailed", "; ".join(failed))
    return Condition("True", "EndpointsAnswer", f"{len(answers)} of {len(answers)} answer through the proxy")


_TRIED: Final = Condition("False", PENDING, "Transom is testing the endpoints with the new settings")


def build_ready_condition(conditions: Conditions, *, is_edit_pending: bool, hosts: Condition) -> Condition:
    """Return the condition that tools wait for: the first problem, or the state of the hosts.

    `is_edit_pending`: an edit is invalid.
    """
    endpoints = conditions.get("EndpointsAnswer")
    if (valid := conditions["Valid"]).status != "True":
        return valid
    if is_edit_pending and (endpoints is None or endpoints.status == "True"):
        return _TRIED
    if endpoints is not None and endpoints.status == "False":
        return endpoints
    halted = conditions.get("RolloutHalted")
    if halted is not None and halted.status == "True":
        return Condition("False", "RolloutHalted", halted.message)
    return hosts


def is_only_progress(live: EgressProxyStatus, wanted: EgressProxyStatus) -> bool:
    """Return True if two statuses differ only in the number of hosts with the settings, and more hosts will follow."""
    more = wanted.hosts is not None and wanted.hosts.waiting > 0
    return more and _without_progress(live) == _without_progress(wanted)


def _without_progress(status: EgressProxyStatus) -> EgressProxyStatus:
    hosts = status.hosts or HostsStatus()
    listed = tuple(
        msgspec.structs.replace(condition, message="") if condition.type == "Ready" else condition
        for condition in status.conditions
    )
    counts = HostsStatus(total=hosts.total, failed=hosts.failed)
    return msgspec.structs.replace(status, conditions=listed, hosts=counts)


def build_removing_condition(hosts: Condition) -> Condition:
    """Return the condition of a base that is being deleted while hosts are restored."""
    return Condition("False", "Removing", f"the object is being deleted, and Transom is removing the settings: {hosts.message}")


def build_pending_endpoints_condition(answers: Sequence[EndpointAnswer]) -> Condition:
    """Return the condition for the answers of the endpoints of settings that are not effective yet."""
    condition = build_endpoints_condition(answers)
    if condition.status == "True":
        return condition
    message = (
        f"{condition.message}; the change is held back until they answer, and the last valid settings apply"
        " (`readinessPolicy: Report` applies it anyway)"
    )
    return Condition("False", condition.reason, message)


def build_current_endpoints_condition(answers: Sequence[EndpointAnswer]) -> Condition:
    """Return what the endpoints of the current settings said: those are not taken back by any `readinessPolicy`."""
    condition = build_endpoints_condition(answers)
    if condition.status == "True":
        return condition
    return Condition("False", condition.reason, f"{condition.message}; the current settings stay in effect")


def build_effective_status(egress: Egress) -> EgressProxyStatus:
    """Return the effective settings without secrets."""
    bundle = None
    if egress.trust:
        bundle = TrustBundleStatus(
            sha256=hashlib.sha256(format_pem(egress.trust).encode()).hexdigest(),
            certificates=len(egress.trust),
            earliest_expiry=format_timestamp(min(item.not_after for item in egress.trust)),
        )
    return EgressProxyStatus(
        http_proxy=_redact_url(egress.http_proxy),
        https_proxy=_redact_url(egress.https_proxy),
        no_proxy=egress.no_proxy,
        trust_bundle=bundle,
    )


def format_changes(live: EgressProxyStatus, new_status: EgressProxyStatus) -> str:
    """Return in one sentence how the effective settings differ from a status; empty if they do not."""
    phrases = []
    urls = (("httpProxy", live.http_proxy, new_status.http_proxy), ("httpsProxy", live.https_proxy, new_status.https_proxy))
    for name, before, after in urls:
        if before != after:
            phrases.append(f"{name} {after}" if after else f"{name} removed")
    if live.no_proxy != new_status.no_proxy:
        phrases.append(f"noProxy of {new_status.no_proxy.count(',') + 1} items" if new_status.no_proxy else "noProxy removed")
    bundle = new_status.trust_bundle or TrustBundleStatus()
    if (live.trust_bundle or TrustBundleStatus()).sha256 != bundle.sha256:
        phrases.append(f"trust bundle of {bundle.certificates} certificates" if bundle.sha256 else "trust bundle removed")
    return ", ".join(phrases)


def merge_status(
    live: EgressProxyStatus, conditions: Conditions, new_status: EgressProxyStatus, generation: int | None, now: datetime
) -> EgressProxyStatus:
    """Return the whole status: the new one with conditions, where conditions that are not passed stay unchanged."""
    types = dict.fromkeys((*TYPES, *(condition.type for condition in live.conditions), *conditions))
    listed = merge_conditions(live.conditions, conditions, types, generation, now, longest=_MAX_MESSAGE)
    return msgspec.structs.replace(new_status, conditions=listed, observed_generation=generation)


def _format_findings(own_name: str, findings: Sequence[Finding]) -> str:
    sentences = [_format_finding(own_name, finding) for finding in findings[:_SHOWN]]
    rest = len(findings) - len(sentences)
    return "; ".join(sentences) + (f"; and {rest} more" if rest else "")


def _format_finding(own_name: str, finding: Finding) -> str:
    """Return a finding as a sentence that begins with its field."""
    where = finding.field if finding.object == own_name else f"{finding.field} of {finding.object}"
    return f"{where}: {finding.message}"


def _with_warnings(text: str, own_name: str, findings: Sequence[Finding]) -> str:
    warnings = [finding for finding in findings if finding.severity == "warning"]
    return f"{text}; warning: {_format_findings(own_name, warnings)}" if warnings else text


def _redact_url(url: Secret | None) -> str:
    return parse(url.reveal()).redacted if url else ""
