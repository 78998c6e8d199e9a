"""The status of an EgressProxy: what is wrong with it, and what of it holds. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from transom.controllers.runtime.conditions import PENDING, Condition, Conditions, merge, timestamp
from transom.proxy.finding import Finding
from transom.proxy.layers import BASE, openshift_bundle
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.status import EgressProxyStatus, HostsStatus, TrustBundleStatus
from transom.proxy.trust import pem
from transom.proxy.url import parse
from transom.readiness import EndpointAnswer

TYPES: Final = ("Ready", "Valid", "TrustBundleValid", "EndpointsAnswer", "Superseded")
"""Those that the egress controller speaks of; others in a status stay as they are."""
PROXY: Final = f"Proxy/{BASE}"
"""What findings call OpenShift's object."""
_SHOWN: Final = 3
_MAX_MESSAGE: Final = 4096


def concerning(
    name: str, spec: Mapping[str, Any], namespace: str, findings: Iterable[Finding], proxy: Mapping[str, Any] | None = None
) -> list[Finding]:
    """The findings about an EgressProxy, and about the Secret and the ConfigMap that it names.

    `proxy` is the spec of OpenShift's Proxy where that is the base in its place: what is wrong with it is wrong for both.
    """
    objects = {f"EgressProxy/{name}"} | (set() if proxy is None else _objects_of_proxy(proxy))
    for kind, field in (("Secret", "credentialsSecret"), ("ConfigMap", "trustedCA")):
        reference = spec.get(field)
        if isinstance(reference, Mapping) and reference.get("name"):
            objects.add(f"{kind}/{namespace}/{reference['name']}")
    return [finding for finding in findings if finding.object in objects]


def concerning_proxy(spec: Mapping[str, Any], findings: Iterable[Finding]) -> list[Finding]:
    """The findings about OpenShift's Proxy, and about the ConfigMap that it names."""
    objects = _objects_of_proxy(spec)
    return [finding for finding in findings if finding.object in objects]


def _objects_of_proxy(spec: Mapping[str, Any]) -> set[str]:
    reference = spec.get("trustedCA")
    name = reference.get("name") if isinstance(reference, Mapping) else None
    bundle = openshift_bundle(name) if isinstance(name, str) else None
    return {PROXY} | ({"/".join(("ConfigMap", *bundle))} if bundle else set())


def validity_of_proxy(findings: Sequence[Finding]) -> Condition:
    """What is said of OpenShift's Proxy, in events: nothing is written on it."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        return Condition("False", "Invalid", f"{_told(PROXY, errors)}; what was valid before holds")
    return Condition("True", "Valid", "the settings are valid")


def validity(
    name: str, spec: Mapping[str, Any], findings: Sequence[Finding], proxy: Mapping[str, Any] | None = None
) -> Conditions:
    """What can be said without asking anybody. `proxy` is the spec of OpenShift's Proxy, None where there is none."""
    errors = [finding for finding in findings if finding.severity == "error"]
    own = f"EgressProxy/{name}"
    superseded = name == BASE and proxy is not None
    of_trust = [one for one in errors if one.object.startswith("ConfigMap/") or one.field.startswith("spec.trustedCA")]
    conditions = {
        "Valid": Condition("False", "Invalid", _told(own, errors))
        if errors
        else Condition("True", "Valid", _with_warnings("the settings are valid", own, findings)),
    }
    asked = spec.get("trustedCA"), (proxy or {}).get("trustedCA") if superseded else None
    if of_trust:
        conditions["TrustBundleValid"] = Condition("False", "Invalid", _told(own, of_trust))
    elif not any(isinstance(one, Mapping) and one.get("name") for one in asked):
        conditions["TrustBundleValid"] = Condition("True", "NotConfigured", "spec.trustedCA is not set")
    else:
        conditions["TrustBundleValid"] = Condition("True", "Valid", "every certificate can be read")
    if name == BASE:
        conditions["Superseded"] = (
            Condition("True", "OpenShiftProxy", "Proxy/cluster of config.openshift.io is the base; this object adds to it")
            if superseded
            else Condition("False", "NotSuperseded", "this object is the base")
        )
    return conditions


def readiness(answers: Sequence[EndpointAnswer]) -> Condition:
    """What the endpoints said."""
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


_TRIED: Final = Condition("False", PENDING, "the endpoints are being tried through the new settings")


def ready(conditions: Conditions, *, waits: bool, hosts: Condition) -> Condition:
    """What tools wait for: the first thing that stands in the way, or what the hosts say. `waits`: an edit is not valid yet."""
    endpoints = conditions.get("EndpointsAnswer")
    if (valid := conditions["Valid"]).status != "True":
        return valid
    if waits and (endpoints is None or endpoints.status == "True"):
        return _TRIED
    if endpoints is not None and endpoints.status == "False":
        return endpoints
    halted = conditions.get("RolloutHalted")
    if halted is not None and halted.status == "True":
        return Condition("False", "RolloutHalted", halted.message)
    return hosts


def is_progress_alone(live: EgressProxyStatus, wanted: EgressProxyStatus) -> bool:
    """Whether a status differs in nothing but how many hosts have the settings by now, and more are to come."""
    more = wanted.hosts is not None and wanted.hosts.waiting > 0
    return more and _without_progress(live) == _without_progress(wanted)


def _without_progress(told: EgressProxyStatus) -> EgressProxyStatus:
    hosts = told.hosts or HostsStatus()
    listed = tuple(msgspec.structs.replace(one, message="") if one.type == "Ready" else one for one in told.conditions)
    counts = HostsStatus(total=hosts.total, failed=hosts.failed)
    return msgspec.structs.replace(told, conditions=listed, hosts=counts)


def removing(hosts: Condition) -> Condition:
    """What is said of a base that is being deleted, while hosts are given back."""
    return Condition("False", "Removing", f"the object is being deleted, and the settings are taken away: {hosts.message}")


def held_back(answers: Sequence[EndpointAnswer]) -> Condition:
    """What the endpoints of settings that wait said."""
    condition = readiness(answers)
    if condition.status == "True":
        return condition
    message = f"{condition.message}; the change is held back until they answer, what was valid before holds"
    return Condition("False", condition.reason, message)


def effective(egress: Egress) -> EgressProxyStatus:
    """The settings that hold, as they may be shown."""
    bundle = None
    if egress.trust:
        bundle = TrustBundleStatus(
            sha256=hashlib.sha256(pem(egress.trust).encode()).hexdigest(),
            certificates=len(egress.trust),
            earliest_expiry=timestamp(min(one.not_after for one in egress.trust)),
        )
    return EgressProxyStatus(
        http_proxy=_redacted(egress.http_proxy),
        https_proxy=_redacted(egress.https_proxy),
        no_proxy=egress.no_proxy,
        trust_bundle=bundle,
    )


def changes(live: EgressProxyStatus, said: EgressProxyStatus) -> str:
    """What of the settings that hold is another than a status says, as one sentence; empty where nothing is."""
    told = []
    urls = (("httpProxy", live.http_proxy, said.http_proxy), ("httpsProxy", live.https_proxy, said.https_proxy))
    for name, before, after in urls:
        if before != after:
            told.append(f"{name} {after}" if after else f"{name} removed")
    if live.no_proxy != said.no_proxy:
        told.append(f"noProxy of {said.no_proxy.count(',') + 1} items" if said.no_proxy else "noProxy removed")
    bundle = said.trust_bundle or TrustBundleStatus()
    if (live.trust_bundle or TrustBundleStatus()).sha256 != bundle.sha256:
        told.append(f"trust bundle of {bundle.certificates} certificates" if bundle.sha256 else "trust bundle removed")
    return ", ".join(told)


def merged(
    live: EgressProxyStatus, conditions: Conditions, said: EgressProxyStatus, generation: int | None, now: datetime
) -> EgressProxyStatus:
    """The whole status: what is said, with conditions, of which those that nobody spoke of stay as they are."""
    types = dict.fromkeys((*TYPES, *(one.type for one in live.conditions), *conditions))
    listed = merge(live.conditions, conditions, types, generation, now, longest=_MAX_MESSAGE)
    return msgspec.structs.replace(said, conditions=listed, observed_generation=generation)


def _told(own: str, findings: Sequence[Finding]) -> str:
    told = [_one(own, finding) for finding in findings[:_SHOWN]]
    rest = len(findings) - len(told)
    return "; ".join(told) + (f"; and {rest} more" if rest else "")


def _one(own: str, finding: Finding) -> str:
    """A finding as a sentence that begins with its field."""
    where = finding.field if finding.object == own else f"{finding.field} of {finding.object}"
    return f"{where}: {finding.message}"


def _with_warnings(text: str, own: str, findings: Sequence[Finding]) -> str:
    warnings = [finding for finding in findings if finding.severity == "warning"]
    return f"{text}; warning: {_told(own, warnings)}" if warnings else text


def _redacted(url: Secret | None) -> str:
    return parse(url.reveal()).redacted if url else ""
