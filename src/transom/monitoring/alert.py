"""The alerts, as rules of Prometheus, each with the content of its runbook."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from transom.monitoring.metric_definitions import (
    API_REQUESTS,
    CHECK_INTERVAL,
    EGRESS_PROXIES,
    HOSTS,
    LAST_PASS,
    LEADER,
    PODS_REFUSED,
    QUEUE_DEPTH,
    REQUESTS_REFUSED,
    SERVING_EXPIRY,
    TRUST_EXPIRY,
    UNCONFIGURED,
)
from transom.reasons.reason_table import REASONS

PAGES: Final = "docs/runbooks"
_EACH: Final = "without (instance, pod)"
"""Replicas report the same values. Labels that Prometheus adds, such as a cluster's name, stay."""


class Tolerance(msgspec.Struct, frozen=True):
    """How long what is wrong may last.

    `patience` is multiplied with each alert's own time, `span` is what a rate is taken over; so many `keys` may wait for a
    worker all that time.
    """

    patience: float = 1.0
    span: str = "10m"
    keys: int = 20


PACE: Final = Tolerance()


class Alert(msgspec.Struct, frozen=True):
    """A rule. `expression` may have `{span}` and `{keys}`; it has to be true for so many `minutes`.

    `summary` is one line, with `{{ $labels.x }}` for the value of a label. The others are the runbook: the consequence
    (`impact`), commands that show more (`look`), and what fixes it (`fix`), each a line of Markdown.
    """

    name: str
    severity: Literal["critical", "warning"]
    minutes: int
    expression: str
    summary: str
    impact: str
    look: tuple[str, ...]
    fix: tuple[str, ...]

    @property
    def page(self) -> str:
        """The file of its runbook."""
        return f"{self.name}.md"

    def build_rule(self, pace: Tolerance = PACE) -> dict[str, Any]:
        """As Prometheus reads it."""
        expression = self.expression.replace("{span}", pace.span).replace("{keys}", str(pace.keys))
        return {
            "alert": self.name,
            "expr": expression,
            "for": f"{self.minutes * 60 * pace.patience:.0f}s" if pace.patience != 1 else f"{self.minutes}m",
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": self.impact, "runbook": f"{PAGES}/{self.page}"},
        }


def _format_instances(more: str = "") -> str:
    return f"kubectl get windowsinstances -n transom-system{more}"


_DESCRIBE: Final = "kubectl describe egressproxy cluster"
_LOG: Final = "kubectl logs -n transom-system deployment/transom --tail=200"

ALERTS: Final[tuple[Alert, ...]] = (
    Alert(
        "TransomNoLeader",
        "critical",
        5,
        f"max {_EACH} ({LEADER.name}) == 0 or absent({LEADER.name})",
        "No Transom operator is the leader.",
        "Hosts keep their settings. Transom rolls out no changes, new Windows nodes do not join, and drift stays.",
        (
            "kubectl get pods -n transom-system",
            "kubectl get lease transom -n transom-system -o yaml",
            _LOG,
        ),
        (
            "If a pod does not run, `kubectl describe pod` shows the cause (image, memory, an unavailable node).",
            "If pods run but none is the leader, the log shows `lease not renewed` or `lease cannot be read` with the"
            " cause: the API"
            " server is slow or unavailable, or the ServiceAccount has lost its rights (apply the manifests again).",
            "If Prometheus has no metrics of Transom, check the ServiceMonitor, and the NetworkPolicy, which allows"
            " namespaces with"
            ' the label `transom.dev/metrics: "true"`.',
        ),
    ),
    Alert(
        "TransomSettingsInvalid",
        "warning",
        15,
        "sum without (condition, status)"
        f' (max {_EACH} ({EGRESS_PROXIES.name}{{condition=~"Valid|TrustBundleValid",status="False"}})) > 0',
        "Egress settings are invalid.",
        "The last valid settings stay in effect: the change reaches no host, pod or workload cluster.",
        (
            "kubectl get egressproxies",
            _DESCRIBE,
            "kubectl get egressproxies,secrets,configmaps -A -o yaml | transom validate -f -",
        ),
        (
            "Correct the field that the condition's message begins with.",
            "For `TrustBundleValid`, create the ConfigMap of `spec.trustedCA`, or remove everything from it that is not a"
            " certificate.",
        ),
    ),
    Alert(
        "TransomHostsNotConfigured",
        "warning",
        60,
        f'sum without (reason) (max {_EACH} ({UNCONFIGURED.name}{{reason!~"RolloutHalted|UpgradePending"}})) > 0',
        "Hosts that have not been configured for an hour: {{ $value }}.",
        "These hosts do not have the current settings, or are not nodes yet. Other hosts are not affected.",
        (_format_instances(), _format_instances(" -o wide"), "kubectl describe windowsinstance -n transom-system"),
        (
            "`kubectl get windowsinstances` shows the reason of each host. [Reasons](../reasons.md) explains what to do."
            " The alert fires even if the reason of a host changes again and again.",
            "If a host stays offline for a while, run `transom pause HOST`.",
        ),
    ),
    Alert(
        "TransomRolloutHalted",
        "warning",
        5,
        f'max {_EACH} ({EGRESS_PROXIES.name}{{condition="RolloutHalted",status="True"}}) > 0',
        "A rollout is halted.",
        "Hosts that the rollout has not reached keep their settings, keys or versions until it resumes.",
        (_DESCRIBE, _format_instances()),
        (
            f"{REASONS['RolloutHalted'].remedy}. Any change of these settings also starts a new rollout.",
            f"`EgressFails`: {REASONS['EgressFails'].meaning} {REASONS['EgressFails'].remedy}.",
        ),
    ),
    Alert(
        "TransomCertificateExpires",
        "warning",
        60,
        f"min {_EACH} ({TRUST_EXPIRY.name}) - time() < 30 * 86400",
        "A CA of the trust bundle expires in less than 30 days.",
        "After that day, programs that trust only this CA reach nothing through the proxy.",
        (
            "kubectl get egressproxy cluster -o jsonpath='{.status.trustBundle}'",
            "kubectl get configmap -n transom-system corp-ca -o jsonpath='{.data.ca-bundle\\.crt}' | transom trust inspect -",
        ),
        (
            "Add the new CA to the ConfigMap of `spec.trustedCA`, wait until every host has both CAs, change the proxy,"
            " then remove"
            " the old CA: [rotate a CA](../how-to/rotate-a-ca.md).",
        ),
    ),
    Alert(
        "TransomWebhookCertificateExpires",
        "critical",
        60,
        f"min {_EACH} ({SERVING_EXPIRY.name} > 0) - time() < 14 * 86400",
        "The certificate of the admission server expires in less than 14 days.",
        "After it has expired, the API server no longer calls the admission server: new pods start without the settings, or"
        " do not"
        " start (`failurePolicy: Fail`).",
        (
            "kubectl logs -n transom-system deployment/transom-webhook --tail=200",
            "kubectl get secret transom-webhook -n transom-system",
            "kubectl get certificate -n transom-system",
        ),
        (
            "Transom renews its own certificate when a quarter of its lifetime is left. If that fails, the log shows `not"
            " kept` with the cause.",
            "If cert-manager issues the certificate, check the Certificate and its issuer.",
            "To renew it at once, delete Secret `transom-webhook`: Transom creates a new one, and updates the webhook"
            " configuration.",
        ),
    ),
    Alert(
        "TransomPassesStale",
        "warning",
        15,
        f"time() - max {_EACH} ({LAST_PASS.name}) > 3 * max {_EACH} ({CHECK_INTERVAL.name})"
        f' and max without (instance, pod, condition, status) ({HOSTS.name}{{condition="Configured",status="True"}}) > 0',
        "No pass on a host has finished for three check intervals.",
        "Transom does not check hosts: drift stays, and the status of hosts is outdated.",
        (_LOG, _format_instances()),
        (
            "If `TransomNoLeader` fires as well, fix that first.",
            "If the leader makes no pass, its workers hang or its queue is stuck ([TransomQueueStuck](TransomQueueStuck.md)).",
            "To restart the operator: `kubectl rollout restart deployment/transom -n transom-system`. Report the defect"
            " with the log.",
        ),
    ),
    Alert(
        "TransomQueueStuck",
        "warning",
        5,
        f"min_over_time(({QUEUE_DEPTH.name} * ignoring (controller) group_left () {LEADER.name})[{{span}}:]) > {{keys}}",
        "The queue of controller {{ $labels.controller }} stays long.",
        "Changes reach hosts, pods or clusters late.",
        (_LOG, "kubectl top pods -n transom-system", _format_instances()),
        (
            "For `hosts` and `nodes`: each host that does not answer occupies a worker for `--connect-timeout`. Pause these"
            " hosts"
            " (`transom pause HOST`), or raise `--workers`.",
            "For all controllers: the API server is slow ([TransomApiErrors](TransomApiErrors.md)), or the pod has reached"
            " its CPU limit.",
        ),
    ),
    Alert(
        "TransomApiErrors",
        "warning",
        10,
        f'sum without (code, instance, pod) (rate({API_REQUESTS.exposed}{{code=~"none|403|429|5.."}}[{{span}}]))'
        f" / sum without (code, instance, pod) (rate({API_REQUESTS.exposed}[{{span}}])) > 0.1",
        "More than a tenth of the requests to the API server fail.",
        "Transom reads outdated objects and writes late. With 403, a part of it does not work.",
        (_LOG, "kubectl auth can-i --list --as=system:serviceaccount:transom-system:transom -n transom-system"),
        (
            "`403`: the roles are older than the operator, or were changed. Apply the manifests again"
            " ([TransomRequestsRefused](TransomRequestsRefused.md)).",
            "`429` and `5xx`: the API server is overloaded, or another webhook refuses writes"
            " ([TransomRequestsRefused](TransomRequestsRefused.md)). Check the metrics of the API server.",
            "`none`: the API server is unreachable. Check DNS, network, NetworkPolicies and its certificate.",
        ),
    ),
    Alert(
        "TransomRequestsRefused",
        "warning",
        5,
        f"sum without (reason) (max {_EACH} ({REQUESTS_REFUSED.name})) > 0",
        "The API server refuses requests of the operator: {{ $value }} kinds.",
        "Work that needs these requests is not done, and `kubectl` shows statuses that may be outdated. If the API server also"
        " refuses the Lease, no operator is the leader.",
        (
            "transom status",
            "kubectl get lease transom -n transom-system -o yaml",
            "kubectl get resourcequotas -n transom-system",
            "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies",
            _LOG,
        ),
        (
            "`RightMissing` (condition `RightsMissing`): apply the roles again with `transom manifests -n NAMESPACE --part rbac"
            " | kubectl apply -f -` and the options of the install. `transom doctor` lists all missing rights.",
            "`WriteRefused` (condition `WritesRefused`): the annotation `transom.dev/refused-writes` of the Lease and the log"
            " line `write refused` have the API server's reason. Raise the quota, repair the webhook of another product or"
            " delete its configuration, or [end the deletion](../uninstall.md#if-a-deletion-does-not-end) of the namespace.",
            "`ReadFailed` (condition `ReadsFailed`): the message has the API server's reason, such as an encryption provider"
            " that does not answer. Transom works with the objects of before until the API server can read them.",
            "`database space exceeded`: [free space in etcd](../failures.md#etcd-is-full).",
        ),
    ),
    Alert(
        "TransomPodsRefused",
        "critical",
        1,
        f"max {_EACH} ({PODS_REFUSED.name}) > 0",
        "The API server refuses new pods, because Transom's admission server does not answer.",
        "With `failurePolicy: Fail`, no pod of the selected namespaces starts: rollouts, jobs and restarts of nodes stop."
        " Running pods continue.",
        (
            _DESCRIBE,
            "kubectl get pods,endpointslices -n transom-system -l app.kubernetes.io/component=webhook",
            "kubectl logs -n transom-system deployment/transom-webhook --tail=200",
        ),
        (
            "To admit pods now, without the settings: `kubectl delete mutatingwebhookconfiguration transom`. A replica that"
            " runs registers itself again.",
            "To admit the pods of one namespace: `kubectl label namespace YOUR_NAMESPACE transom.dev/inject=disabled`.",
            "Then repair the admission server: its pods, its Service, and the network between the API server and port 9443.",
            "Recreate pods that started meanwhile, so that they get the settings: `kubectl rollout restart`.",
        ),
    ),
    Alert(
        "TransomPodsNotInjected",
        "warning",
        10,
        f'max {_EACH} ({EGRESS_PROXIES.name}{{condition="PodsInjected",status="False"}}) > 0',
        "New pods do not get the proxy settings.",
        "Pods that start now have no proxy variables and no CAs: their requests to the Internet fail. With `failurePolicy:"
        " Fail`, no pod starts at all: alert `TransomPodsRefused`.",
        (
            _DESCRIBE,
            "kubectl get mutatingwebhookconfiguration transom -o yaml",
            "kubectl logs -n transom-system deployment/transom-webhook --tail=200",
        ),
        (
            "Look up the reason of `PodsInjected` in [reasons](../reasons.md). `NoNamespaceSelector` requires"
            " `spec.pods.namespaceSelector`, all others an admission server that answers.",
            "Recreate pods that started meanwhile, so that they get the settings: `kubectl rollout restart`.",
        ),
    ),
)


def build_rules(pace: Tolerance = PACE) -> dict[str, Any]:
    """All of them, as the file that Prometheus and `promtool` read, and as the spec of a PrometheusRule."""
    return {"groups": [{"name": "transom", "rules": [alert.build_rule(pace) for alert in ALERTS]}]}


BY_NAME: Final[Mapping[str, Alert]] = {alert.name: alert for alert in ALERTS}
