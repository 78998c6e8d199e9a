"""The admission server of an install: what it may do, and what runs.

The registration is not among these objects: the replicas make it, and an apply would reset it. ClusterRole/transom-webhook owns
it, so that it goes with the install.
"""

from collections.abc import Iterator
from typing import Any, Final

from transom.manifests.conditions import Either, Is, IsGiven, Test, ValuePlace
from transom.manifests.grants import LABELS, Grants, Rule, granted, rule
from transom.manifests.roles import EGRESS_PROXIES, FOLLOW, runs
from transom.manifests.templates import OWN, Conditional, resolved
from transom.manifests.workloads import PORT, metrics_ports, pod, replicas
from transom.pods.registration import NAME as REGISTRATION

NAME: Final = "transom-webhook"
HTTPS_PORT: Final = 9443
COMPONENT: Final = {**LABELS, "app.kubernetes.io/component": "webhook"}
_GRACE: Final = 30
_PRIORITY: Final = 1_000_000_000
"""The highest that is not the system's own."""


WEBHOOK: Final = Grants(
    everywhere=(
        rule("transom.dev", "egressproxies", FOLLOW, "the settings that pods get"),
        rule("config.openshift.io", "proxies networks infrastructures", FOLLOW, "the settings that pods get"),
        rule("networking.k8s.io", "servicecidrs", FOLLOW, "the networks that NO_PROXY has"),
        rule("", "configmaps", FOLLOW, "the networks of the cluster (kube-system, kube-public), OpenShift's trusted CA"),
        rule("", "namespaces", FOLLOW, "which namespaces asked for what"),
        rule("", "namespaces", "get", "where all of Transom is deleted at once, its last settings go on to hold", OWN),
        rule("apiextensions.k8s.io", "customresourcedefinitions", "get", "whether there can be settings", EGRESS_PROXIES),
        rule("", "events", "create patch", "a Secret that is missing is told in the namespace of the pod"),
        rule(
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            f"get {FOLLOW} create patch",
            "the registration, and its CA",
            REGISTRATION,
        ),
        rule("rbac.authorization.k8s.io", "clusterroles", "get", "its own role owns the registration", NAME),
    ),
    own=(
        rule("", "secrets", FOLLOW, "credentials, for the settings"),
        rule("", "secrets", "get create patch", "the certificate that the replicas share", NAME),
        rule("coordination.k8s.io", "leases", "create", "which replica renews the certificate"),
        rule("coordination.k8s.io", "leases", "get update", "which replica renews the certificate", NAME),
    ),
    default=(rule("", "services", FOLLOW, "the address of the API server, which pods reach directly", "kubernetes"),),
)
"""What `transom webhook` needs."""


SERVES: Final = Either((runs("pods"), IsGiven(ValuePlace("webhook.always"))))
"""Without the controller `pods` its pods would wait for a Secret that nobody keeps: it is there for who asks."""


_CERTIFICATE: Final = f"{NAME}-certificate"
_ISSUED: Final = IsGiven(ValuePlace("webhook.issuer"))


def _certificate() -> dict[str, Any]:
    """What cert-manager is asked for (cert-manager.io, docs/reference/api-docs, CertificateSpec)."""
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": NAME, "namespace": OWN, "labels": COMPONENT},
        "spec": {
            "secretName": _CERTIFICATE,
            "dnsNames": [f"{NAME}.{OWN}.svc"],
            "usages": ["digital signature", "server auth"],
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "issuerRef": ValuePlace("webhook.issuer"),
        },
    }


def admission_roles(place: str) -> Iterator[dict[str, Any]]:
    """ServiceAccount, roles and bindings of `transom webhook`."""
    yield from resolved(list(admission_role_templates()), {}, place)


def admission_role_templates() -> Iterator[Any]:
    """The same as templates."""
    placed: dict[str, list[tuple[Rule, Test | None]]] = {}
    for where, rules in WEBHOOK.placed(OWN, openshift=False):
        placed.setdefault(where, []).extend((one, None) for one in rules)
    yield from granted(NAME, [(one, None) for one in WEBHOOK.everywhere], placed)


def admission() -> list[Any]:
    """PriorityClass, Deployment, Service and PodDisruptionBudget, as templates. All of its replicas answer."""
    arguments = [
        "webhook",
        f"--namespace={OWN}",
        f"--bind-address=0.0.0.0:{HTTPS_PORT}",
        f"--metrics-bind-address=0.0.0.0:{PORT}",
        Conditional(Is(ValuePlace("webhook.failurePolicy"), "Fail"), "--failure-policy=Fail"),
        Conditional(_ISSUED, f"--certificate-secret={_CERTIFICATE}"),
    ]
    ports = {"https": HTTPS_PORT, "http": PORT}
    spec = pod("webhook", arguments, COMPONENT, name=NAME, ports=ports, grace=_GRACE)
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": NAME, "labels": LABELS},
        "value": _PRIORITY,
        "description": "The admission server that gives pods the egress proxy.",
    }
    https = {"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"}
    own_class = Conditional(Is(ValuePlace("webhook.priorityClassName"), NAME), priority)
    return [
        own_class,
        Conditional(_ISSUED, _certificate()),
        *replicas("webhook", NAME, COMPONENT, spec, [https, *metrics_ports()]),
    ]
