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
    def runbook_file(self) -> str:
        """The file of its runbook."""
        return f"{self.name}.md"

    def build_rule(self, tolerance: Tolerance = PACE) -> dict[str, Any]:
        """As Prometheus reads it."""
        expression = self.expression.replace("{span}", tolerance.span).replace("{keys}", str(tolerance.keys))
        return {
            "alert": self.name,
            "expr": expression,
            "for": f"{self.minutes * 60 * tolerance.patience:.0f}s" if tolerance.patience != 1 else f"{self.minutes}m",
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": self.impact, "runbook": f"{PAGES}/{self.runbook_file}"},
        }


def _format_instances_command(arguments: str = "") -> str:
    return f"kubectl get windowsinstances -n transom-system{arguments}"


_DESCRIBE: Final = "kubectl describe egressproxy cluster"
_LOG: Final = "kubectl logs -n transom-system deployment/transom --tail=200"

ALERTS: Final[tuple[Alert, ...]] = (
    Alert(
        "TransomNoLeader",
        "critical",
        5,
        f"max {_EACH} ({LEADER.name}) == 0 or absent({LEADER.name})",
        "No Transom operator is the leader.",
        "Hosts keep their settings. Transom does not roll out changes, join new Windows nodes or correct drift.",
        (
            "kubectl get pods -n transom-system",
            "kubectl get lease transom -n transom-system -o yaml",
            _LOG,
        ),
        (
            "If a pod is not running, `kubectl describe pod` shows the cause (image, memory, an unavailable node).",
            "If pods are running but none is the leader, the log shows the cause after `lease not renewed` or `lease cannot be"
            " read`: a slow or unavailable API server, or a ServiceAccount that lost its rights (apply the manifests again).",
            "If Prometheus has no metrics of Transom, check the ServiceMonitor. Also check the NetworkPolicy, which allows"
            ' namespaces with the label `transom.dev/metrics: "true"`.',
        ),
    ),
    Alert(
        "TransomSettingsInvalid",
        "warning",
        15,
        "sum without (condition, status)"
        f' (max {_EACH} ({EGRESS_PROXIES.name}{{condition=~"Valid|TrustBundleValid",status="False"}})) > 0',
        "Egress settings are invalid.",
        "The last valid settings stay in effect. The change does not reach hosts, pods or workload clusters.",
        (
            "kubectl get egressproxies",
            _DESCRIBE,
            "kubectl get egressproxies,secrets,configmaps -A -o yaml | transom validate -f -",
        ),
        (
            "Correct the field at the beginning of the condition's message.",
            "For `TrustBundleValid`, create the ConfigMap of `spec.trustedCA`, or remove everything except certificates from"
            " it.",
        ),
    ),
    Alert(
        "TransomHostsNotConfigured",
        "warning",
        60,
        f'sum without (reason) (max {_EACH} ({UNCONFIGURED.name}{{reason!~"RolloutHalted|UpgradePending"}})) > 0',
        "Hosts that have not been configured for an hour: {{ $value }}.",
        "These hosts do not have the current settings, or are not nodes yet. Other hosts are not affected.",
        (
            _format_instances_command(),
            _format_instances_command(" -o wide"),
            "kubectl describe windowsinstance -n transom-system",
        ),
        (
            "`kubectl get windowsinstances` shows the reason for each host, which may keep changing."
            " [Reasons](../reasons.md) explains what to do.",
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
        (_DESCRIBE, _format_instances_command()),
        (
            f"{REASONS['RolloutHalted'].remedy}. Any change to these settings also starts a new rollout.",
            f"`EgressFails`: {REASONS['EgressFails'].meaning} {REASONS['EgressFails'].remedy}.",
        ),
    ),
    Alert(
        "TransomCertificateExpires",
        "warning",
        60,
        f"min {_EACH} ({TRUST_EXPIRY.name}) - time() < 30 * 86400",
        "A CA of the trust bundle expires in less than 30 days.",
        "After that, programs that trust only this CA cannot connect through the proxy.",
        (
            "kubectl get egressproxy cluster -o jsonpath='{.status.trustBundle}'",
            "kubectl get configmap -n transom-system corp-ca -o jsonpath='{.data.ca-bundle\\.crt}' | transom trust inspect -",
        ),
        (
            "[Rotate the CA](../how-to/rotate-a-ca.md): add the new CA to the ConfigMap of `spec.trustedCA`, wait until every"
            " host has both CAs, change the proxy, then remove the old CA.",
        ),
    ),
    Alert(
        "TransomWebhookCertificateExpires",
        "critical",
        60,
        f"min {_EACH} ({SERVING_EXPIRY.name} > 0) - time() < 14 * 86400",
        "The certificate of the admission server expires in less than 14 days.",
        "After that, the API server no longer calls the admission server. New pods start without the settings or, with"
        " `failurePolicy: Fail`, do not start.",
        (
            "kubectl logs -n transom-system deployment/transom-webhook --tail=200",
            "kubectl get secret transom-webhook -n transom-system",
            "kubectl get certificate -n transom-system",
        ),
        (
            "Transom renews its own certificate when a quarter of its lifetime is left. If that fails, the log shows `not"
            " kept` with the cause.",
            "If cert-manager issues the certificate, check the Certificate and its issuer.",
            "To renew it at once, delete Secret `transom-webhook`. Transom recreates it and updates the webhook configuration.",
        ),
    ),
    Alert(
        "TransomPassesStale",
        "warning",
        15,
        f"time() - max {_EACH} ({LAST_PASS.name}) > 3 * max {_EACH} ({CHECK_INTERVAL.name})"
        f' and max without (instance, pod, condition, status) ({HOSTS.name}{{condition="Configured",status="True"}}) > 0',
        "No pass on a host has finished for three check intervals.",
        "Transom does not check hosts or correct drift, and their status is outdated.",
        (_LOG, _format_instances_command()),
        (
            "If `TransomNoLeader` fires as well, fix that first.",
            "If the leader is not making passes, its workers hang or its queue is stuck"
            " ([TransomQueueStuck](TransomQueueStuck.md)).",
            "To restart the operator, run `kubectl rollout restart deployment/transom -n transom-system`. Report the defect"
            " with the log.",
        ),
    ),
    Alert(
        "TransomQueueStuck",
        "warning",
        5,
        f"min_over_time(({QUEUE_DEPTH.name} * ignoring (controller) group_left () {LEADER.name})[{{span}}:]) > {{keys}}",
        "The queue of controller {{ $labels.controller }} remains long.",
        "Changes reach hosts, pods or clusters late.",
        (_LOG, "kubectl top pods -n transom-system", _format_instances_command()),
        (
            "`hosts` and `nodes`: Each host that does not answer occupies a worker for `--connect-timeout`. Pause these"
            " hosts (`transom pause HOST`), or raise `--workers`.",
            "All controllers: The API server is slow ([TransomApiErrors](TransomApiErrors.md)), or the pod has reached"
            " its CPU limit.",
        ),
    ),
    Alert(
        "TransomApiErrors",
        "warning",
        10,
        f'sum without (code, instance, pod) (rate({API_REQUESTS.exposed_name}{{code=~"none|403|429|5.."}}[{{span}}]))'
        f" / sum without (code, instance, pod) (rate({API_REQUESTS.exposed_name}[{{span}}])) > 0.1",
        "More than a tenth of the requests to the API server fail.",
        "Transom reads outdated objects and writes late. After 403 errors, some features do not work.",
        (_LOG, "kubectl auth can-i --list --as=system:serviceaccount:transom-system:transom -n transom-system"),
        (
            "`403`: The roles are older than the operator, or were changed. Apply the manifests again"
            " ([TransomRequestsRefused](TransomRequestsRefused.md)).",
            "`429` and `5xx`: The API server is overloaded, or another webhook refuses writes"
            " ([TransomRequestsRefused](TransomRequestsRefused.md)). Check the metrics of the API server.",
            "`none`: The API server is unreachable. Check DNS, network, NetworkPolicies and its certificate.",
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
            " delete its configuration, or [end the deletion](../uninstall.md#if-a-deletion-hangs) of the namespace.",
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
        "With `failurePolicy: Fail`, no new pod starts in the selected namespaces, which blocks rollouts, jobs and node"
        " restarts. Running pods continue.",
        (
            _DESCRIBE,
            "kubectl get pods,endpointslices -n transom-system -l app.kubernetes.io/component=webhook",
            "kubectl logs -n transom-system deployment/transom-webhook --tail=200",
        ),
        (
            "To admit pods now, without the settings, run `kubectl delete mutatingwebhookconfiguration transom`. A running"
            " replica registers itself again.",
            "To admit the pods of one namespace, run `kubectl label namespace YOUR_NAMESPACE transom.dev/inject=disabled`.",
            "Then repair the admission server. Check its pods, its Service, and the network between the API server and port"
            " 9443.",
            "To apply the settings to pods that started in the meantime, run `kubectl rollout restart`.",
        ),
    ),
    Alert(
        "TransomPodsNotInjected",
        "warning",
        10,
        f'max {_EACH} ({EGRESS_PROXIES.name}{{condition="PodsInjected",status="False"}}) > 0',
        "New pods do not get the proxy settings.",
        "New pods have no proxy variables and no CAs, so their requests to the Internet fail. With `failurePolicy: Fail`, they"
        " do not start (alert `TransomPodsRefused`).",
        (
            _DESCRIBE,
            "kubectl get mutatingwebhookconfiguration transom -o yaml",
            "kubectl logs -n transom-system deployment/transom-webhook --tail=200",
        ),
        (
            "Look up the reason of `PodsInjected` in [reasons](../reasons.md). For `NoNamespaceSelector`, set"
            " `spec.pods.namespaceSelector`. All other reasons require an admission server that answers.",
            "To apply the settings to pods that started in the meantime, run `kubectl rollout restart`.",
        ),
    ),
)


def build_rules(tolerance: Tolerance = PACE) -> dict[str, Any]:
    """All of them, as the file that Prometheus and `promtool` read, and as the spec of a PrometheusRule."""
    return {"groups": [{"name": "transom", "rules": [alert.build_rule(tolerance) for alert in ALERTS]}]}


BY_NAME: Final[Mapping[str, Alert]] = {alert.name: alert for alert in ALERTS}
