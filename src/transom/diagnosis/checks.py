"""All that `transom doctor` looks for, what newcomers fall into first; and the looking."""

from collections.abc import Iterable
from typing import Final

from transom.diagnosis import newcomers, operating, settings, workloads
from transom.diagnosis.snapshot import Check, Diagnosis, NotMade, Observed, Seen

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
        newcomers.find_missing_base,
        "no host of this cluster gets settings; hosts keep what they have",
    ),
    Check(
        "instance-elsewhere",
        ("WindowsInstance",),
        newcomers.find_instances_elsewhere,
        "neither the operator nor a command works on this host",
    ),
    Check(
        "reference-elsewhere",
        ("Secret", "ConfigMap", "EgressProxy", "WindowsInstance"),
        newcomers.find_references_elsewhere,
        "Transom reads it only from its own namespace: settings that name it are invalid, and no host is reached with it",
    ),
    Check(
        "definitions-missing",
        (),
        newcomers.find_missing_definitions,
        "there can be no settings and no hosts in this cluster",
        needs="cluster",
    ),
    Check(
        "leader-missing",
        ("Lease",),
        newcomers.find_missing_leader,
        "nothing is done: no edit reaches a host, and what is deleted waits",
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
        "this Transom has lost its rights: objects keep the status that they had, and nothing is done",
        needs="cluster",
    ),
    Check(
        "rights-missing",
        ("SubjectAccessReview",),
        operating.find_missing_rights,
        "work that needs this right is not done, and statuses are not updated",
        needs="cluster",
    ),
    Check(
        "writes-refused",
        ("Lease",),
        operating.find_refused_writes,
        "work that needs these writes is not done, and what is not written keeps the state that it had",
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
        "the deletion does not end, and hosts keep their settings",
        needs="cluster",
    ),
    Check(
        "edit-not-observed",
        ("EgressProxy", "WindowsInstance"),
        operating.find_unobserved_edits,
        "the status is of another edit: hosts may have other settings than the object asks for",
        needs="status",
    ),
    Check("image-not-pulled", ("Pod",), newcomers.find_image_errors, "the pod does not start", needs="cluster"),
    Check(
        "key-with-passphrase",
        ("Secret", "WindowsInstance"),
        newcomers.find_encrypted_keys,
        "Transom cannot enter it: no host with this key is connected to",
    ),
    Check(
        "credential-with-line-break",
        ("Secret", "EgressProxy"),
        newcomers.find_line_breaks_in_credentials,
        "the line break becomes part of the credentials, which the proxy rejects (407)",
    ),
    Check(
        "webhook-selects-nothing",
        ("MutatingWebhookConfiguration", "Namespace"),
        newcomers.find_idle_webhook,
        "new pods start without the settings",
        needs="cluster",
    ),
    Check(
        "host-key-changed",
        ("WindowsInstance",),
        newcomers.find_changed_host_keys,
        "Transom does not connect to the host: it is another machine, or an attacker intercepts the connection",
        needs="status",
    ),
    Check(
        "machines-without-settings",
        ("Cluster",),
        settings.find_machines_without_settings,
        "machines start without the proxy and the CAs, or cannot fetch their bootstrap data",
    ),
    Check(
        "settings-invalid", (), settings.find_invalid, "no edit of these settings is carried out; what was valid before holds"
    ),
    Check(
        "https-without-proxy",
        (),
        settings.find_http_only_proxy,
        "HTTPS, and so nearly all traffic, bypasses the proxy, or fails without a direct route",
        needs="settings",
    ),
    Check(
        "api-host-unknown",
        ("EgressProxy",),
        settings.find_unknown_api_host,
        "a host that runs a kubelet is refused: its kubelet would reach the API server through the proxy",
        needs="settings",
    ),
    Check(
        "waits-for-you",
        ("EgressProxy", "WindowsInstance"),
        settings.find_waiting_for_user,
        "this remains until it is done; then Transom continues automatically",
        needs="status",
    ),
    Check(
        "linux-pods-on-windows",
        ("Pod", "Node"),
        workloads.find_linux_pods_on_windows,
        "on a Windows node such a pod never starts, and it is not put anywhere else",
        needs="workloads",
    ),
    Check(
        "daemonset-without-system",
        ("DaemonSet", "Node"),
        workloads.find_daemon_sets_without_os,
        "a pod of it is made for each Windows node and never starts; a drain and `rollout status` wait for it",
        needs="workloads",
    ),
    Check(
        "no-proxy-ignored",
        ("EgressProxy",),
        settings.find_ignored_no_proxy,
        "requests go through the proxy that were meant to go around it, or the other way",
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
        "programs that want a chain up to a root refuse what it signs",
        needs="bundles",
    ),
    Check(
        "certificate-is-no-ca",
        (),
        settings.find_leaf_certificates,
        "nothing that a proxy decrypts is trusted by it",
        needs="bundles",
    ),
    Check(
        "certificate-ends",
        ("EgressProxy",),
        settings.find_expiring_certificates,
        "what trusts it alone has no egress after that day",
    ),
    Check(
        "two-owners",
        ("EgressProxy", "WindowsInstance"),
        settings.find_two_owners,
        "each overwrites what the other writes, or one of them is ignored",
        needs="status",
    ),
    Check(
        "service-older",
        ("WindowsInstance",),
        workloads.find_outdated_services,
        "the services run with the environment that they were started with",
        needs="status",
    ),
    Check(
        "boot-pending",
        ("WindowsInstance",),
        workloads.find_pending_reboots,
        "services see the environment that the machine had when it booted",
        needs="status",
    ),
    Check(
        "env-from-proxy",
        ("Pod", "ConfigMap", "Namespace"),
        workloads.find_proxies_in_env_from,
        "the settings take precedence over it; a pod that is left out has this proxy instead",
        needs="workloads",
    ),
    Check(
        "windows-pod-without-ca",
        ("Pod", "Namespace"),
        workloads.find_windows_pods_without_ca,
        "programs that read the store of Windows (.NET, SChannel, curl.exe) do not trust the CA",
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
        "pods of Windows have no network, or reach no pod of another node",
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
        "a new node has no network until Transom answers, and Transom on new nodes does not answer without a network",
        needs="workloads",
    ),
    Check(
        "version-skew",
        ("Node", "Deployment"),
        workloads.find_version_skew,
        "what fits the one version may not fit the other",
        needs="cluster",
    ),
    Check(
        "machines-outdated",
        ("EgressProxy",),
        settings.find_outdated_machines,
        "these machines have the settings that they were made with",
        needs="status",
    ),
)


def diagnose(observed: Observed) -> tuple[Diagnosis, ...]:
    """Return what looks wrong, in the order of the checks. What could not be read is looked at by no check that needs it."""
    return tuple(
        Diagnosis(
            check.id,
            item.object,
            item.evidence,
            check.consequence,
            format_step(item, observed),
            item.page or f"{PAGE}#{check.id}",
        )
        for check in CHECKS
        if (observed.live or check.needs != "cluster") and _can_look(check, observed)
        for item in check.look(observed)
    )


def format_step(finding: Seen, observed: Observed) -> str:
    """Return what to do: a command for a cluster, of files what to write into them."""
    if observed.live:
        return finding.command
    if finding.edit or "kubectl" not in finding.command:
        return finding.edit or finding.command
    return f"fix it in the files; transom validate -f {observed.source} checks them"


def list_skipped(observed: Observed, findings: Iterable[Diagnosis]) -> tuple[NotMade, ...]:
    """Return the checks that could not be made, so that nothing is known of what they look for."""
    finding = {item.id for item in findings}
    reasons = ((check.id, _find_obstacle(check, observed)) for check in CHECKS if check.id not in finding)
    return tuple(NotMade(id_, why) for id_, why in reasons if why)


NEEDS_CLUSTER: Final = "needs a cluster"


def _find_obstacle(check: Check, observed: Observed) -> str:
    if not observed.live and check.needs in ("status", "workloads", "cluster"):
        return NEEDS_CLUSTER
    if not _can_look(check, observed):
        unread = [kind for kind in check.kinds if kind not in observed.objects and kind not in observed.undefined]
        return f"needs what could not be read: {', '.join(unread)}"
    if check.needs == "settings" and (observed.settings is None or observed.settings.own is None):
        return "needs valid settings"
    if check.needs == "bundles" and observed.bundles is None:
        return "needs the CAs, which could not be read"
    return ""


def _can_look(check: Check, observed: Observed) -> bool:
    return all(kind in observed.objects or kind in observed.undefined for kind in check.kinds)


_HEAD: Final = "<!-- made by scripts/reference: checks -->\n"
_END: Final = "<!-- end -->\n"


def update_page(page: str) -> str:
    """Return the page with a current section for each check. Raises ValueError if it has no marks for them."""
    before, head, after = page.partition(_HEAD)
    _, end, rest = after.partition(_END)
    if not head or not end:
        raise ValueError("the page has no place for the checks")
    return f"{before}{head}{''.join(map(_format_section, CHECKS))}\n{end}{rest}"


def _format_section(check: Check) -> str:
    seen = (check.look.__doc__ or "").partition("\n")[0]
    return f"\n### {check.id}\n\n{seen} *So*: {check.consequence}.{_NEEDED[check.needs]}\n"


_NEEDED: Final = {
    "manifests": "",
    "settings": " Needs valid settings.",
    "bundles": "",
    "status": " Needs a cluster: the operator notes it there.",
    "workloads": " Needs a cluster: it is about what runs there.",
    "cluster": " Needs a cluster.",
}
