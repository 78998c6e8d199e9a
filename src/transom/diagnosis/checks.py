"""All that `transom doctor` looks for, what newcomers fall into first; and the looking."""

from collections.abc import Iterable
from typing import Final

from transom.diagnosis import operating, settings, setup_mistakes, workloads
from transom.diagnosis.snapshot import Check, ClusterSnapshot, Diagnosis, Evidence, SkippedCheck

PAGE: Final = "docs/doctor.md"
CHECKS: Final = (
    Check(
        "etcd-full",
        ("Lease",),
        operating.find_full_etcd,
        "critical: the API server refuses every write in the whole cluster, not only Transom's; running pods and hosts keep"
        " what they have",
        needs="cluster",
    ),
    Check(
        "pods-refused",
        ("MutatingWebhookConfiguration", "EgressProxy", "Deployment"),
        operating.find_refused_pods,
        "no new pod starts in the namespaces that the webhook configuration selects",
        needs="cluster",
    ),
    Check(
        "base-missing",
        ("EgressProxy", "WindowsInstance"),
        setup_mistakes.find_missing_base_settings,
        "hosts keep their settings, and new hosts get none",
    ),
    Check(
        "instance-elsewhere",
        ("WindowsInstance",),
        setup_mistakes.find_instances_elsewhere,
        "Transom manages hosts only from its own namespace",
    ),
    Check(
        "reference-elsewhere",
        ("Secret", "ConfigMap", "EgressProxy", "WindowsInstance"),
        setup_mistakes.find_references_elsewhere,
        "Transom reads Secrets and ConfigMaps only from its own namespace, so settings that name this one are invalid",
    ),
    Check(
        "definitions-missing",
        (),
        setup_mistakes.find_missing_definitions,
        "the cluster cannot store settings and hosts",
        needs="cluster",
    ),
    Check(
        "leader-missing",
        ("Lease",),
        setup_mistakes.find_missing_leader,
        "no edit reaches a host, and deletions wait",
        needs="cluster",
    ),
    Check(
        "two-operators",
        ("Lease",),
        operating.find_two_operators,
        "both write the status of EgressProxies, again and again, and each counts only the hosts of its namespace",
        needs="cluster",
    ),
    Check(
        "controllers-missing",
        ("Deployment", "WindowsInstance"),
        operating.find_missing_controllers,
        "no operator works on hosts: they keep their settings, and what is deleted waits",
        needs="cluster",
    ),
    Check(
        "bindings-elsewhere",
        ("ClusterRoleBinding", "Deployment"),
        operating.find_bindings_elsewhere,
        "this Transom has lost its rights, changes nothing, and does not update statuses",
        needs="cluster",
    ),
    Check(
        "rights-missing",
        ("SubjectAccessReview",),
        operating.find_missing_rights,
        "work that requires the right is not done, and statuses are not updated",
        needs="cluster",
    ),
    Check(
        "writes-refused",
        ("Lease",),
        operating.find_refused_writes,
        "work that requires the writes is not done, and the objects keep their state",
        needs="cluster",
    ),
    Check(
        "reads-failed",
        ("Lease",),
        operating.find_failed_reads,
        "the operator works with the objects of before: edits of this kind have no effect, and statuses do not report them",
        needs="cluster",
    ),
    Check(
        "deletion-waits",
        ("EgressProxy", "WindowsInstance", "Namespace", "Lease"),
        operating.find_waiting_deletions,
        "the deletion does not finish, and hosts keep their settings",
        needs="cluster",
    ),
    Check(
        "edit-not-observed",
        ("EgressProxy", "WindowsInstance"),
        operating.find_unobserved_edits,
        "the status belongs to another edit, and hosts may not have the current settings",
        needs="status",
    ),
    Check("image-not-pulled", ("Pod",), setup_mistakes.find_image_errors, "the pod does not start", needs="cluster"),
    Check(
        "key-with-passphrase",
        ("Secret", "WindowsInstance"),
        setup_mistakes.find_encrypted_keys,
        "Transom cannot decrypt the key, and does not connect to hosts that need it",
    ),
    Check(
        "credential-with-line-break",
        ("Secret", "EgressProxy"),
        setup_mistakes.find_line_breaks_in_credentials,
        "the line break becomes part of the credentials, which the proxy rejects (407)",
    ),
    Check(
        "webhook-selects-nothing",
        ("MutatingWebhookConfiguration", "Namespace"),
        setup_mistakes.find_idle_webhook,
        "new pods start without the settings",
        needs="cluster",
    ),
    Check(
        "host-key-changed",
        ("WindowsInstance",),
        setup_mistakes.find_changed_host_keys,
        "Transom does not connect to the host, which may be another machine or an attacker",
        needs="status",
    ),
    Check(
        "machines-without-settings",
        ("Cluster",),
        settings.find_machines_without_settings,
        "machines start without the proxy and the CAs, or cannot fetch their bootstrap data",
    ),
    Check(
        "settings-invalid",
        (),
        settings.find_invalid_settings,
        "edits of these settings have no effect, and the last valid settings apply",
    ),
    Check(
        "https-without-proxy",
        (),
        settings.find_http_only_proxy,
        "HTTPS traffic bypasses the proxy, or fails without a direct route",
        needs="settings",
    ),
    Check(
        "api-host-unknown",
        ("EgressProxy",),
        settings.find_unknown_api_host,
        "Transom does not configure hosts that run a kubelet, which would reach the API server through the proxy",
        needs="settings",
    ),
    Check(
        "waits-for-you",
        ("EgressProxy", "WindowsInstance"),
        settings.find_required_actions,
        "the condition remains until you act; Transom then continues automatically",
        needs="status",
    ),
    Check(
        "linux-pods-on-windows",
        ("Pod", "Node"),
        workloads.find_linux_pods_on_windows,
        "the pod never starts on a Windows node, and is not rescheduled",
        needs="workloads",
    ),
    Check(
        "daemonset-without-system",
        ("DaemonSet", "Node"),
        workloads.find_daemon_sets_without_os,
        "its pods on Windows nodes never start; drains and `rollout status` wait for them",
        needs="workloads",
    ),
    Check(
        "no-proxy-ignored",
        ("EgressProxy",),
        settings.find_ignored_no_proxy,
        "some requests use the proxy although they should bypass it, or the reverse",
    ),
    Check(
        "credentials-in-config-map",
        ("ConfigMap",),
        workloads.find_credentials_in_config_maps,
        "every user who can read ConfigMaps there can read the password",
    ),
    Check(
        "credentials-in-settings",
        ("EgressProxy",),
        settings.find_inline_credentials,
        "every user who can read these objects, or their repository, can read the password",
    ),
    Check(
        "intermediate-without-issuer",
        (),
        settings.find_missing_issuers,
        "programs that require a chain up to a root reject certificates that it signs",
        needs="bundles",
    ),
    Check(
        "certificate-is-no-ca",
        (),
        settings.find_leaf_certificates,
        "such a certificate does not make clients trust those that a proxy signs",
        needs="bundles",
    ),
    Check(
        "certificate-ends",
        ("EgressProxy",),
        settings.find_expiring_certificates,
        "programs that trust only this certificate have no egress after that day",
    ),
    Check(
        "two-owners",
        ("EgressProxy", "WindowsInstance"),
        settings.find_conflicting_owners,
        "they overwrite each other, or one of them is ignored",
        needs="status",
    ),
    Check(
        "service-older",
        ("WindowsInstance",),
        workloads.find_outdated_services,
        "the services do not use the current settings",
        needs="status",
    ),
    Check(
        "boot-pending",
        ("WindowsInstance",),
        workloads.find_pending_reboots,
        "services see the machine environment of the last start",
        needs="status",
    ),
    Check(
        "env-from-proxy",
        ("Pod", "ConfigMap", "Namespace"),
        workloads.find_proxies_in_env_from,
        "Transom's settings take precedence, but pods that Transom excludes use this proxy",
        needs="workloads",
    ),
    Check(
        "windows-pod-without-ca",
        ("Pod", "Namespace"),
        workloads.find_windows_pods_without_ca,
        "programs that read the store of Windows (.NET, SChannel, curl.exe) do not trust the CAs",
        needs="workloads",
    ),
    Check(
        "windows-pod-unschedulable",
        ("Node", "Pod"),
        workloads.find_unschedulable_windows_pods,
        "the pod stays Pending",
        needs="workloads",
    ),
    Check(
        "calico-without-windows",
        ("Installation", "Node"),
        workloads.find_calico_without_windows,
        "Windows pods have no network, or cannot reach pods on other nodes",
    ),
    Check(
        "service-by-short-name",
        ("Pod", "Service", "Namespace"),
        workloads.find_services_by_short_name,
        "the proxy cannot resolve the name, and the request fails",
        needs="workloads",
    ),
    Check(
        "network-plugin-waits",
        ("DaemonSet", "MutatingWebhookConfiguration", "Namespace"),
        workloads.find_waiting_network_plugins,
        "a new node has no network until Transom answers, and Transom on new nodes cannot answer without a network",
        needs="workloads",
    ),
    Check(
        "version-skew",
        ("Node", "Deployment"),
        workloads.find_version_skew,
        "these versions may not work together",
        needs="cluster",
    ),
    Check(
        "machines-outdated",
        ("EgressProxy",),
        settings.find_outdated_machines,
        "these machines keep their previous settings",
        needs="status",
    ),
)


def diagnose(observed: ClusterSnapshot) -> tuple[Diagnosis, ...]:
    """Return what looks wrong, in the order of the checks. What could not be read is looked at by no check that needs it."""
    return tuple(
        Diagnosis(
            check.id,
            item.object,
            item.evidence,
            check.consequence,
            format_fix(item, observed),
            item.page or f"{PAGE}#{check.id}",
        )
        for check in CHECKS
        if (observed.live or check.needs != "cluster") and _has_required_kinds(check, observed)
        for item in check.look(observed)
    )


def format_fix(finding: Evidence, observed: ClusterSnapshot) -> str:
    """Return what to do: a command for a cluster, of files what to write into them."""
    if observed.live:
        return finding.command
    if finding.edit or "kubectl" not in finding.command:
        return finding.edit or finding.command
    return f"fix it in the files; transom validate -f {observed.source} checks them"


def list_skipped(observed: ClusterSnapshot, findings: Iterable[Diagnosis]) -> tuple[SkippedCheck, ...]:
    """Return the checks that could not be made, so that nothing is known of what they look for."""
    finding = {item.id for item in findings}
    reasons = ((check.id, _find_skip_reason(check, observed)) for check in CHECKS if check.id not in finding)
    return tuple(SkippedCheck(id_, why) for id_, why in reasons if why)


NEEDS_CLUSTER: Final = "needs a cluster"


def _find_skip_reason(check: Check, observed: ClusterSnapshot) -> str:
    if not observed.live and check.needs in ("status", "workloads", "cluster"):
        return NEEDS_CLUSTER
    if not _has_required_kinds(check, observed):
        unread = [kind for kind in check.kinds if kind not in observed.objects and kind not in observed.undefined]
        return f"needs what could not be read: {', '.join(unread)}"
    if check.needs == "settings" and (observed.settings is None or observed.settings.own is None):
        return "needs valid settings"
    if check.needs == "bundles" and observed.bundles is None:
        return "needs the CAs, which could not be read"
    return ""


def _has_required_kinds(check: Check, observed: ClusterSnapshot) -> bool:
    return all(kind in observed.objects or kind in observed.undefined for kind in check.kinds)


_HEAD: Final = "<!-- made by scripts/reference: checks -->\n"
_END: Final = "<!-- end -->\n"


def update_doctor_page(page: str) -> str:
    """Return the page with a current section for each check. Raises ValueError if it has no marks for them."""
    before, head, after = page.partition(_HEAD)
    _, end, rest = after.partition(_END)
    if not head or not end:
        raise ValueError("the page has no place for the checks")
    return f"{before}{head}{''.join(map(_format_section, CHECKS))}\n{end}{rest}"


def _format_section(check: Check) -> str:
    finds = (check.look.__doc__ or "").partition("\n")[0].removeprefix("Find ")
    consequence = check.consequence[:1].upper() + check.consequence[1:]
    return f"\n### {check.id}\n\nFinds {finds} {consequence}.{_NEEDED[check.needs]}\n"


_NEEDED: Final = {
    "manifests": "",
    "settings": " (settings)",
    "bundles": "",
    "status": " (cluster)",
    "workloads": " (cluster)",
    "cluster": " (cluster)",
}
