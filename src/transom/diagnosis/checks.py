"""All that `transom doctor` looks for, what newcomers fall into first; and the looking."""

from typing import Final

from transom.diagnosis import Check, Diagnosis, Observed, newcomers, settings, workloads

PAGE: Final = "docs/doctor.md"
CHECKS: Final = (
    Check(
        "base-missing",
        ("EgressProxy", "WindowsInstance"),
        newcomers.base_missing,
        "no host of this cluster gets settings; hosts keep what they have",
    ),
    Check(
        "instance-elsewhere",
        ("WindowsInstance",),
        newcomers.instance_elsewhere,
        "nobody works on this host, neither the operator nor a command",
    ),
    Check(
        "reference-elsewhere",
        ("Secret", "ConfigMap", "EgressProxy", "WindowsInstance"),
        newcomers.reference_elsewhere,
        "it is looked for in Transom's namespace alone: settings that name it are invalid, and no host is reached by it",
    ),
    Check(
        "definitions-missing",
        (),
        newcomers.definitions_missing,
        "there can be no settings and no hosts in this cluster",
        live=True,
    ),
    Check(
        "leader-missing",
        ("Lease",),
        newcomers.leader_missing,
        "nothing is done: no edit reaches a host, and what is deleted waits",
        live=True,
    ),
    Check("image-not-pulled", ("Pod",), newcomers.image_not_pulled, "the pod does not start", live=True),
    Check(
        "key-with-passphrase",
        ("Secret", "WindowsInstance"),
        newcomers.key_with_passphrase,
        "nobody is there to type it: no host with this key is connected to",
    ),
    Check(
        "credential-with-line-break",
        ("Secret", "EgressProxy"),
        newcomers.credential_with_line_break,
        "the line break is a part of what the proxy is told, which it refuses (407)",
    ),
    Check(
        "webhook-selects-nothing",
        ("MutatingWebhookConfiguration", "Namespace"),
        newcomers.webhook_selects_nothing,
        "new pods start without the settings",
        live=True,
    ),
    Check(
        "host-key-changed",
        ("WindowsInstance",),
        newcomers.host_key_changed,
        "the host is not connected to: it is another machine, or somebody stands between",
    ),
    Check("settings-invalid", (), settings.invalid, "no edit of these settings is carried out; what was valid before holds"),
    Check(
        "https-without-proxy",
        (),
        settings.https_without_proxy,
        "https, and so nearly everything, goes around the proxy, or nowhere where there is no other way",
    ),
    Check(
        "waits-for-you",
        ("EgressProxy", "WindowsInstance"),
        settings.waits_for_you,
        "it stays so until that is done; then Transom goes on by itself",
    ),
    Check(
        "linux-pods-on-windows",
        ("Pod", "Node"),
        workloads.tolerates_windows,
        "on a Windows node such a pod never starts, and it is not put anywhere else",
    ),
    Check(
        "daemonset-without-system",
        ("DaemonSet", "Node"),
        workloads.daemon_set_without_system,
        "a pod of it is made for each Windows node and never starts; a drain and `rollout status` wait for it",
    ),
    Check(
        "no-proxy-ignored",
        ("EgressProxy",),
        settings.no_proxy_ignored,
        "requests go through the proxy that were meant to go around it, or the other way",
    ),
    Check(
        "credentials-in-config-map",
        ("ConfigMap",),
        workloads.credentials_in_config_map,
        "whoever may read ConfigMaps there reads the password",
    ),
    Check(
        "intermediate-without-issuer",
        (),
        settings.intermediate_without_issuer,
        "programs that want a chain up to a root refuse what it signs",
    ),
    Check("certificate-ends", ("EgressProxy",), settings.certificate_ends, "what trusts it alone has no egress after that day"),
    Check(
        "two-owners",
        ("EgressProxy", "WindowsInstance"),
        settings.two_owners,
        "each puts back what the other writes, or one of them is not heeded",
    ),
    Check(
        "service-older",
        ("WindowsInstance",),
        workloads.service_older,
        "the services run with the environment that they were started with",
    ),
    Check(
        "boot-pending",
        ("WindowsInstance",),
        workloads.boot_pending,
        "services see the environment that the machine had when it booted",
    ),
    Check(
        "env-from-proxy",
        ("Pod", "ConfigMap", "Namespace"),
        workloads.environment_from_proxy,
        "the settings take precedence over it; a pod that is left out has this proxy instead",
    ),
    Check(
        "windows-pod-without-ca",
        ("Pod", "Namespace"),
        workloads.windows_pod_without_ca,
        "programs that read the store of Windows (.NET, SChannel, curl.exe) do not trust the CA",
    ),
    Check(
        "version-skew",
        ("Node", "Deployment"),
        workloads.version_skew,
        "what fits the one version may not fit the other",
        live=True,
    ),
    Check(
        "machines-outdated",
        ("EgressProxy",),
        settings.machines_outdated,
        "these machines have the settings that they were made with",
    ),
)


def diagnose(observed: Observed) -> tuple[Diagnosis, ...]:
    """What looks wrong, in the order of the checks. What could not be read is looked at by no check that needs it."""
    return tuple(
        Diagnosis(check.id, one.object, one.evidence, check.consequence, one.command, one.page or f"{PAGE}#{check.id}")
        for check in CHECKS
        if (observed.live or not check.live) and _can_look(check, observed)
        for one in check.look(observed)
    )


def _can_look(check: Check, observed: Observed) -> bool:
    return all(kind in observed.objects or kind in observed.undefined for kind in check.kinds)


_HEAD: Final = "<!-- made by scripts/reference: checks -->\n"
_END: Final = "<!-- end -->\n"


def page_with_checks(page: str) -> str:
    """The page with a section for each check as it is now; raises ValueError where it has no place for them."""
    before, head, after = page.partition(_HEAD)
    _, end, rest = after.partition(_END)
    if not head or not end:
        raise ValueError("the page has no place for the checks")
    return f"{before}{head}{''.join(map(_section, CHECKS))}\n{end}{rest}"


def _section(check: Check) -> str:
    seen = (check.look.__doc__ or "").partition("\n")[0]
    live = " Only a cluster can tell." if check.live else ""
    return f"\n### {check.id}\n\n{seen} *So*: {check.consequence}.{live}\n"
