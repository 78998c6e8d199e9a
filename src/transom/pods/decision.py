"""Which pods get the variables and the CAs, with the reason in words. Of several reasons, the first is reported."""

from collections.abc import Mapping
from typing import Final

from transom.pods.environment import PodEgress, explain_exclusion
from transom.pods.pod_types import MIRROR, Pod

INJECT_PROXY: Final = "transom.dev/inject-proxy"
"""Annotation of a pod: `false` or `override`."""
INJECT_CA: Final = "transom.dev/inject-ca"
"""Label of a pod or a namespace: `true`; a pod's own `false` takes precedence over its namespace's."""
KYVERNO: Final = "policies.kyverno.io/inject-proxy-env"
"""Annotation by which a pod keeps out of the proxy policies of Kyverno: `exclude`."""
NODE_USE_ENV_PROXY: Final = "transom.dev/inject-node-use-env-proxy"
"""Annotation of a pod: `true` adds NODE_USE_ENV_PROXY=1, by which Node.js 22.21 and 24 read the variables themselves."""
EXCLUDE_CONTAINERS: Final = "transom.dev/exclude-containers"
"""Annotation of a pod: the names of containers, with commas, that get nothing."""
WITHHELD: Final = (
    "the proxy has credentials and spec.pods.namespaceSelector of EgressProxy/cluster is not set: "
    "set it to the namespaces that may have them"
)


class PodDecision(tuple[str | None, str | None]):
    """Why not: for the variables and for the CAs; None where the pod gets them."""

    __slots__ = ()

    @property
    def no_proxy_reason(self) -> str | None:
        """Why the pod gets no variables."""
        return self[0]

    @property
    def no_ca_reason(self) -> str | None:
        """Why the pod gets no CAs."""
        return self[1]


def decide_pod(pod: Pod, namespace: str, labels: Mapping[str, str], egress: PodEgress) -> PodDecision:
    """Decide whether a pod of a namespace (with these labels) gets the variables and the CAs."""
    whole = _explain_untouched(pod, namespace, labels, egress)
    if whole is not None:
        return PodDecision((whole, whole))
    return PodDecision((_explain_no_proxy(pod, egress), _explain_no_ca(pod, labels, egress)))


def find_unknown_value(pod: Pod) -> str | None:
    """Return a warning for an annotation with an unknown value."""
    value = pod.metadata.get_annotation(INJECT_PROXY)
    if value is None or value in ("false", "override", "true"):
        return None
    return f'annotation {INJECT_PROXY} is neither "false" nor "override": it is not heeded'


def should_override(pod: Pod) -> bool:
    """Return True if the pod's own values are replaced."""
    return pod.metadata.get_annotation(INJECT_PROXY) == "override"


def list_excluded_containers(pod: Pod) -> frozenset[str]:
    """Return the names of containers that get nothing. They may not exist yet: another webhook may add them later."""
    value = pod.metadata.get_annotation(EXCLUDE_CONTAINERS)
    return frozenset(name.strip() for name in value.split(",")) if value else frozenset()


def _explain_untouched(pod: Pod, namespace: str, labels: Mapping[str, str], egress: PodEgress) -> str | None:
    reason = explain_exclusion(namespace, labels, egress.namespace)
    if reason is not None:
        return reason
    if pod.metadata.get_annotation(MIRROR) is not None:
        return "the pod is a mirror of a static pod: what the kubelet runs is not changed by it"
    if pod.spec.host_process:
        return "the pod has a HostProcess container: it has the environment of the host"
    if not egress.has_pod_settings:
        return "no settings for pods exist"
    if not egress.is_selected(namespace, labels):
        return "spec.pods.namespaceSelector does not select the namespace"
    return None


def _explain_no_proxy(pod: Pod, egress: PodEgress) -> str | None:
    if pod.metadata.get_annotation(INJECT_PROXY) == "false":
        return f'annotation {INJECT_PROXY} is "false"'
    if pod.metadata.get_annotation(KYVERNO) == "exclude":
        return f'annotation {KYVERNO} is "exclude"'
    if egress.withheld:
        return WITHHELD
    if not egress.pairs:
        return "the settings have no proxy"
    return None


def _explain_no_ca(pod: Pod, labels: Mapping[str, str], egress: PodEgress) -> str | None:
    request = pod.metadata.get_label(INJECT_CA)
    if request == "false":
        return f'label {INJECT_CA} of the pod is "false"'
    if request != "true" and labels.get(INJECT_CA) != "true":
        return f"neither the pod nor its namespace is labelled {INJECT_CA}: true"
    if not egress.trust:
        return "the settings have no trustedCA"
    return None


def is_withheld(decision: PodDecision) -> bool:
    """Return True if the pod lacks the variables only because its namespace may not read the credentials."""
    return decision.no_proxy_reason is WITHHELD
