"""What a person is to be woken for: rules of Prometheus, each with what its runbook says."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from transom.monitoring import (
    API_REQUESTS,
    CHECK_INTERVAL,
    EGRESS_PROXIES,
    HOSTS,
    LAST_PASS,
    LEADER,
    QUEUE_DEPTH,
    SERVING_EXPIRY,
    TRUST_EXPIRY,
    UNCONFIGURED,
)
from transom.reasons import REASONS

PAGES: Final = "docs/runbooks"
_EACH: Final = "without (instance, pod)"
"""Replicas say the same of the cluster; labels that somebody's Prometheus adds, such as a cluster's name, stay."""


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

    `summary` is one line, with `{{ $labels.x }}` where it names one. The others are the runbook: what is not so any more
    (`impact`), commands that show more (`look`), and what mends it (`mend`), each a line of Markdown.
    """

    name: str
    severity: Literal["critical", "warning"]
    minutes: int
    expression: str
    summary: str
    impact: str
    look: tuple[str, ...]
    mend: tuple[str, ...]

    @property
    def page(self) -> str:
        """The file of its runbook."""
        return f"{self.name}.md"

    def rule(self, pace: Tolerance = PACE) -> dict[str, Any]:
        """As Prometheus reads it."""
        expression = self.expression.replace("{span}", pace.span).replace("{keys}", str(pace.keys))
        return {
            "alert": self.name,
            "expr": expression,
            "for": f"{self.minutes * 60 * pace.patience:.0f}s" if pace.patience != 1 else f"{self.minutes}m",
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": self.impact, "runbook": f"{PAGES}/{self.page}"},
        }


def _instances(more: str = "") -> str:
    return f"kubectl get windowsinstances -n transom-system{more}"


_DESCRIBE: Final = "kubectl describe egressproxy cluster"
_LOG: Final = "kubectl logs -n transom-system deployment/transom --tail=200"

ALERTS: Final[tuple[Alert, ...]] = (
    Alert(
        "TransomNoLeader",
        "critical",
        5,
        f"max {_EACH} ({LEADER.name}) == 0 or absent({LEADER.name})",
        "No operator of Transom works.",
        "Hosts keep what they have. Changed settings go nowhere, new Windows nodes do not join, and drift stays.",
        (
            "kubectl get pods -n transom-system",
            "kubectl get lease transom -n transom-system -o yaml",
            _LOG,
        ),
        (
            "A pod that does not run: `kubectl describe pod` says why (image, memory, a node that is away).",
            "Pods that run, and none leads: the log says `lease not renewed` or `lease cannot be read`, and why: the API server"
            " is slow or away, or the ServiceAccount has lost its rights (apply the manifests again).",
            "Nothing is scraped: the ServiceMonitor, and the NetworkPolicy, which lets in namespaces labelled"
            ' `transom.dev/metrics: "true"`.',
        ),
    ),
    Alert(
        "TransomSettingsInvalid",
        "warning",
        15,
        f'max {_EACH} ({EGRESS_PROXIES.name}{{condition=~"Valid|TrustBundleValid",status="False"}}) > 0',
        "Egress settings are not valid ({{ $labels.condition }}).",
        "What was valid before holds: the edit has no effect on any host, pod or workload cluster.",
        (
            "kubectl get egressproxies",
            _DESCRIBE,
            "kubectl get egressproxies,secrets,configmaps -A -o yaml | transom validate -f -",
        ),
        (
            "The condition's message begins with the field: correct it.",
            "`TrustBundleValid`: the ConfigMap of `spec.trustedCA` is not there, or has something that is no certificate.",
        ),
    ),
    Alert(
        "TransomHostsNotConfigured",
        "warning",
        60,
        f'max {_EACH} ({UNCONFIGURED.name}{{reason!~"RolloutHalted|UpgradePending"}}) > 0',
        "{{ $value }} hosts have not been configured for an hour: {{ $labels.reason }}.",
        "These hosts do not have the settings that hold, or are no nodes yet. Others are not concerned.",
        (_instances(), _instances(" -o wide"), "kubectl describe windowsinstance -n transom-system"),
        (
            "Look the reason up in [reasons](../reasons.md): it says what to do, and whether it ends by itself.",
            "A host that is to stay away: `spec.paused: true`.",
        ),
    ),
    Alert(
        "TransomRolloutHalted",
        "warning",
        5,
        f'max {_EACH} ({EGRESS_PROXIES.name}{{condition="RolloutHalted",status="True"}}) > 0',
        "A rollout is stopped.",
        "Hosts that it left out keep what they have: the fleet has two sets of settings, keys or versions until it goes on.",
        (_DESCRIBE, _instances()),
        (
            f"{REASONS['RolloutHalted'].remedy}. Any edit of what was rolled out begins again, too.",
            f"`EgressFails`: {REASONS['EgressFails'].meaning} {REASONS['EgressFails'].remedy}.",
        ),
    ),
    Alert(
        "TransomCertificateExpires",
        "warning",
        60,
        f"min {_EACH} ({TRUST_EXPIRY.name}) - time() < 30 * 86400",
        "A CA of the trust bundle expires in less than 30 days.",
        "After that day nothing that trusts this CA alone reaches anything through the proxy.",
        (
            "kubectl get egressproxy cluster -o jsonpath='{.status.trustBundle}'",
            "kubectl get configmap -n transom-system corp-ca -o jsonpath='{.data.ca-bundle\\.crt}' | transom trust inspect -",
        ),
        (
            "Put the new CA beside the old one into the ConfigMap of `spec.trustedCA`, wait until every host has both, change"
            " the proxy, then take the old one out: [rotate a CA](../questions.md#rotate-a-ca).",
        ),
    ),
    Alert(
        "TransomWebhookCertificateExpires",
        "critical",
        60,
        f"min {_EACH} ({SERVING_EXPIRY.name} > 0) - time() < 14 * 86400",
        "The certificate of the admission server expires in less than 14 days.",
        "Once it has expired the API server does not call it any more: new pods start without the settings, or do not start"
        " (`failurePolicy: Fail`).",
        (
            "kubectl logs -n transom-system deployment/transom-webhook --tail=200",
            "kubectl get secret transom-webhook -n transom-system",
            "kubectl get certificate -n transom-system",
        ),
        (
            "Its own certificate is made anew when a quarter of its life is left: the log says `not kept`, and why.",
            "Of cert-manager: look at the Certificate and its issuer.",
            "At once: delete Secret `transom-webhook`; a new one is made, and the registration trusts it.",
        ),
    ),
    Alert(
        "TransomPassesStale",
        "warning",
        15,
        f"time() - max {_EACH} ({LAST_PASS.name}) > 3 * max {_EACH} ({CHECK_INTERVAL.name})"
        f' and max without (instance, pod, condition, status) ({HOSTS.name}{{condition="Configured",status="True"}}) > 0',
        "No pass on a host has ended for three check intervals.",
        "What is on hosts is not looked at: drift stays, and the status of hosts is old.",
        (_LOG, _instances()),
        (
            "With `TransomNoLeader`: mend that first.",
            "A leader that makes no pass: workers hang or the queue does not move ([TransomQueueStuck](TransomQueueStuck.md)).",
            "At once: `kubectl rollout restart deployment/transom -n transom-system`. Please report it with the log.",
        ),
    ),
    Alert(
        "TransomQueueStuck",
        "warning",
        5,
        f"min_over_time(({QUEUE_DEPTH.name} * ignoring (controller) group_left () {LEADER.name})[{{span}}:]) > {{keys}}",
        "The queue of {{ $labels.controller }} has not been short for a while.",
        "Changes reach hosts, pods or clusters late.",
        (_LOG, "kubectl top pods -n transom-system", _instances()),
        (
            "`hosts` and `nodes`: hosts that answer nothing hold a worker for `--connect-timeout`; pause them (`spec.paused`),"
            " or give more `--workers`.",
            "All of them: the API server is slow ([TransomApiErrors](TransomApiErrors.md)), or the pod is at its limit of CPU.",
        ),
    ),
    Alert(
        "TransomApiErrors",
        "warning",
        10,
        f'sum without (code, instance, pod) (rate({API_REQUESTS.exposed}{{code=~"none|403|429|5.."}}[{{span}}]))'
        f" / sum without (code, instance, pod) (rate({API_REQUESTS.exposed}[{{span}}])) > 0.1",
        "More than a tenth of the requests to the API server fail.",
        "What Transom reads is old, and what it writes comes late; with 403 a part of it does not work at all.",
        (_LOG, "kubectl auth can-i --list --as=system:serviceaccount:transom-system:transom -n transom-system"),
        (
            "`403`: the roles are older than the operator, or others: apply the manifests again.",
            "`429` and `5..`: the API server is under load, or somebody's webhook refuses writes; its own metrics say more.",
            "`none`: the way to it: DNS, network, a NetworkPolicy of somebody's, its certificate.",
        ),
    ),
    Alert(
        "TransomPodsNotInjected",
        "warning",
        10,
        f'max {_EACH} ({EGRESS_PROXIES.name}{{condition="PodsInjected",status="False"}}) > 0',
        "New pods do not get the proxy settings.",
        "Pods that start now have no proxy variables and no CAs: what they need from outside fails.",
        (
            _DESCRIBE,
            "kubectl get mutatingwebhookconfiguration transom -o yaml",
            "kubectl logs -n transom-system deployment/transom-webhook --tail=200",
        ),
        (
            "The reason of `PodsInjected` in [reasons](../reasons.md): `NoNamespaceSelector` wants"
            " `spec.pods.namespaceSelector`, the others an admission server that answers.",
            "Pods that began meanwhile get the settings when they are made anew: `kubectl rollout restart`.",
        ),
    ),
)


def rules(pace: Tolerance = PACE) -> dict[str, Any]:
    """All of them, as the file that Prometheus and `promtool` read, and as the spec of a PrometheusRule."""
    return {"groups": [{"name": "transom", "rules": [one.rule(pace) for one in ALERTS]}]}


BY_NAME: Final[Mapping[str, Alert]] = {one.name: one for one in ALERTS}
