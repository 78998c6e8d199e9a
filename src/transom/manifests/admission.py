"""The admission server of an install: what it may do, and what runs.

The registration is not among these objects: the replicas make it, and an apply would reset it. ClusterRole/transom-webhook owns
it, so that it goes with the install.
"""

from collections.abc import Iterator
from typing import Any, Final

from transom.manifests.conditions import AnyTest, EqualsValue, IsSet, NotTest, Test, ValuePlace
from transom.manifests.grants import LABELS, Grants, Rule, build_account_values, build_rule, iter_account_objects
from transom.manifests.roles import EGRESS_PROXIES, FOLLOW, build_controller_test
from transom.manifests.templates import OWN, Conditional, JoinedText, resolve_template
from transom.manifests.workloads import build_deployment_objects, build_metrics_ports, build_pod
from transom.pods.webhook_configuration import NAME as REGISTRATION
from transom.pods.webhook_configuration import TIMEOUT

NAME: Final = "transom-webhook"
_PORT: Final = ValuePlace("webhook.port")
METRICS_PORT: Final = ValuePlace("webhook.metricsPort")
_TIMEOUT: Final = ValuePlace("webhook.timeoutSeconds")
COMPONENT: Final = {**LABELS, "app.kubernetes.io/component": "webhook"}
_GRACE: Final = 30
_PRIORITY: Final = 1_000_000_000
"""The highest that is not the system's own."""


WEBHOOK: Final = Grants(
    everywhere=(
        build_rule("transom.dev", "egressproxies", FOLLOW, "the settings that pods get"),
        build_rule("config.openshift.io", "proxies networks infrastructures", FOLLOW, "the settings that pods get"),
        build_rule("networking.k8s.io", "servicecidrs", FOLLOW, "the networks in NO_PROXY"),
        build_rule("", "configmaps", FOLLOW, "the networks of the cluster (kube-system, kube-public), OpenShift's trusted CA"),
        build_rule("", "namespaces", FOLLOW, "which namespaces request settings"),
        build_rule("", "services", FOLLOW, "their names in NO_PROXY; read only with `spec.pods.serviceNames: Add`"),
        build_rule("", "namespaces", "get", "its last settings stay in effect if all of Transom is deleted at once", OWN),
        build_rule("apiextensions.k8s.io", "customresourcedefinitions", "get", "whether settings can exist", EGRESS_PROXIES),
        build_rule("", "events", "create patch", "reports a missing Secret in the namespace of the pod"),
        build_rule(
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            f"get {FOLLOW} create patch",
            "the webhook configuration, and its CA",
            REGISTRATION,
        ),
        build_rule("rbac.authorization.k8s.io", "clusterroles", "get", "its role owns the webhook configuration", NAME),
    ),
    own=(
        build_rule("", "secrets", FOLLOW, "credentials, for the settings"),
        build_rule("", "secrets", "get create patch", "the certificate that the replicas share", NAME),
        build_rule("coordination.k8s.io", "leases", "create", "which replica renews the certificate"),
        build_rule("coordination.k8s.io", "leases", "get update", "which replica renews the certificate", NAME),
    ),
    default=(build_rule("", "services", FOLLOW, "the address of the API server, which pods reach directly", "kubernetes"),),
)
"""What `transom webhook` needs."""


SERVES: Final = AnyTest((build_controller_test("pods"), IsSet(ValuePlace("webhook.always"))))
"""Without the controller `pods`, pods would wait for a Secret that no controller creates, so it is optional."""


_CERTIFICATE: Final = f"{NAME}-certificate"
_ISSUED: Final = IsSet(ValuePlace("webhook.issuer"))


def _build_certificate() -> dict[str, Any]:
    """Return the Certificate for cert-manager (cert-manager.io, docs/reference/api-docs, CertificateSpec)."""
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


def iter_admission_roles(place: str) -> Iterator[dict[str, Any]]:
    """ServiceAccount, roles and bindings of `transom webhook`."""
    yield from resolve_template(list(iter_admission_role_templates()), build_account_values(), place)


def iter_admission_role_templates() -> Iterator[Any]:
    """Yield the same objects as templates."""
    placed: dict[str, list[tuple[Rule, Test | None]]] = {}
    for where, rules in WEBHOOK.iter_namespaced_rules(OWN, openshift=False):
        placed.setdefault(where, []).extend((item, None) for item in rules)
    yield from iter_account_objects(NAME, "webhook", [(item, None) for item in WEBHOOK.everywhere], placed)


def build_admission_server() -> list[Any]:
    """PriorityClass, Deployment, Service and PodDisruptionBudget, as templates. All of its replicas answer."""
    arguments = [
        "webhook",
        f"--namespace={OWN}",
        JoinedText(("--bind-address=0.0.0.0:", _PORT)),
        JoinedText(("--metrics-bind-address=0.0.0.0:", METRICS_PORT)),
        Conditional(NotTest(EqualsValue(_TIMEOUT, TIMEOUT)), JoinedText(("--timeout=", _TIMEOUT))),
        Conditional(EqualsValue(ValuePlace("webhook.failurePolicy"), "Fail"), "--failure-policy=Fail"),
        Conditional(_ISSUED, f"--certificate-secret={_CERTIFICATE}"),
    ]
    ports: dict[str, int | ValuePlace] = {"https": _PORT, "http": METRICS_PORT}
    spec = build_pod("webhook", arguments, COMPONENT, name=NAME, ports=ports, grace=_GRACE, upstream=METRICS_PORT)
    on_host = IsSet(ValuePlace("webhook.hostNetwork"))
    # a pod in its node's network otherwise asks the node's DNS server, which does not know Services (Kubernetes, "DNS Policy")
    spec |= {"hostNetwork": Conditional(on_host, True), "dnsPolicy": Conditional(on_host, "ClusterFirstWithHostNet")}
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": NAME, "labels": LABELS},
        "value": _PRIORITY,
        "description": "The admission server that gives pods the egress proxy.",
    }
    https = {"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"}
    own_class = Conditional(EqualsValue(ValuePlace("webhook.priorityClassName"), NAME), priority)
    return [
        own_class,
        Conditional(_ISSUED, _build_certificate()),
        *build_deployment_objects("webhook", NAME, COMPONENT, spec, [https, *build_metrics_ports()]),
    ]
