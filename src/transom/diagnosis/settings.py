"""Problems of valid settings; and the actions that conditions request from users."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from transom.common.mappings import get_nested_value
from transom.common.timestamps import parse_timestamp
from transom.diagnosis.fields import format_label, get_condition, get_conditions, get_items, get_mapping, get_name
from transom.diagnosis.overview import SOON
from transom.diagnosis.snapshot import ClusterSnapshot, Evidence, Value
from transom.proxy.clients.lint import lint
from transom.proxy.finding import Finding
from transom.proxy.layers import BASE
from transom.proxy.proxy_url import has_userinfo
from transom.proxy.trust import Certificate
from transom.reasons.reason_table import REASONS, find_reason_page, find_remedy

_ABSENT: Final = ("no Secret ", "no ConfigMap ")
_PASSPHRASE: Final = "passphrase"  # noqa: S105  # a word of a message
_MOST: Final = 5
_OWN_MANAGERS: Final = ("transom",)


def find_invalid_settings(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find settings that `transom validate` reports as errors."""
    messages_by_object: dict[str, list[str]] = {}
    for finding in snapshot.findings:
        if finding.severity == "error" and not _has_own_check(finding):
            messages_by_object.setdefault(finding.object or finding.file, []).append(
                f"{finding.field}: {finding.message}" if finding.field else finding.message
            )
    for name, item in messages_by_object.items():
        rest = f" (and {len(item) - 1} more)" if len(item) > 1 else ""
        where = "" if snapshot.live else f" -f {snapshot.source}"
        yield Evidence(name, item[0] + rest, f"transom validate{where}")


def _has_own_check(finding: Finding) -> bool:
    """Return True if another check reports it: a base with another name, a missing reference, an encrypted key."""
    return finding.field == "metadata.name" or finding.message.startswith(_ABSENT) or _PASSPHRASE in finding.message


def find_machines_without_settings(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find machines of workload clusters that do not get the settings, or not in time."""
    where = "" if snapshot.live else f" -f {snapshot.source}"
    for machine_finding in snapshot.machine_findings:
        evidence = f"{machine_finding.field}: {machine_finding.message}"
        yield Evidence(machine_finding.object, evidence, f"transom validate{where}; docs/machine-templates.md says what to do")


def find_http_only_proxy(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find default settings with a proxy only for HTTP."""
    own = snapshot.settings.own if snapshot.settings is not None else None
    if own is not None and own.http_proxy and not own.https_proxy:
        of = "Proxy" if any(get_name(obj) == BASE for obj in snapshot.list_objects("Proxy")) else "EgressProxy"
        patch = '{"spec":{"httpsProxy":"http://HOST:PORT"}}'
        command = f"kubectl patch {of.lower()} {BASE} --type=merge -p '{patch}': it may be the same URL"
        edit = f"set spec.httpsProxy of {of}/{BASE}: it may be the same URL"
        yield Evidence(f"{of}/{BASE}", "httpProxy is set, and httpsProxy is not", command, edit=edit)


def find_unknown_api_host(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find settings whose NO_PROXY lacks the API server's host, because no object names it."""
    own = snapshot.settings.own if snapshot.settings is not None else None
    if own is None or own.api_server_known or not (own.http_proxy or own.https_proxy):
        return
    patch = '{"spec":{"networks":{"internalAPIHost":"HOST"}}}'
    command = f"kubectl patch egressproxy {BASE} --type=merge -p '{patch}': the host by which nodes reach it"
    edit = "set spec.networks.internalAPIHost to the host by which nodes reach it"
    yield Evidence(f"EgressProxy/{BASE}", "the API server's host is not known, and NO_PROXY lacks it", command, edit=edit)


def find_ignored_no_proxy(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find NO_PROXY items that a client on hosts does not read as intended."""
    for obj in snapshot.list_objects("EgressProxy"):
        text = get_nested_value(obj, "spec", "noProxy")
        if not isinstance(text, str) or text.strip() == "*":
            continue
        clients = ["go"]
        clients += ["curl"] if get_nested_value(obj, "spec", "readinessEndpoints") else []
        clients += ["winhttp"] if get_nested_value(obj, "spec", "windows", "winHTTP") is True else []
        lint_findings = (
            item for item in lint(text, clients) if item.level != "note" and not set(clients).isdisjoint(item.clients)
        )
        for item in list(lint_findings)[:_MOST]:
            who = ", ".join(item.clients)
            instead = f": write {item.instead}" if item.instead else ": leave it out" if item.instead == "" else ""
            evidence = f"spec.noProxy has `{item.item}`: {item.problem} ({who})"
            command = f"kubectl edit egressproxy {get_name(obj)}{instead}; transom no-proxy lint says more"
            edit = f"correct spec.noProxy{instead}; transom no-proxy lint says more"
            yield Evidence(format_label("EgressProxy", obj), evidence, command, edit=edit)


def find_inline_credentials(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find credentials in the proxy URLs of an EgressProxy or of OpenShift's Proxy."""
    for kind in ("EgressProxy", "Proxy"):
        for obj in snapshot.list_objects(kind):
            fields = [name for name in ("httpProxy", "httpsProxy") if _has_userinfo(get_nested_value(obj, "spec", name))]
            if not fields:
                continue
            evidence = f"{' and '.join(f'spec.{name}' for name in fields)}: has a user name or password in it"
            command = (
                "oc adm policy who-can get proxies.config.openshift.io: OpenShift keeps them nowhere else, so few may read it"
            )
            edit = "OpenShift keeps them nowhere else: keep the file where few may read it"
            if kind == "EgressProxy":
                files = "--from-file=username --from-file=password"
                made = f"kubectl create secret generic egress-credentials -n {snapshot.namespace} {files}"
                command = f"{made}; then take them out of the URLs, and set spec.credentialsSecret.name to egress-credentials"
                edit = (
                    "put username and password into a Secret, take them out of the URLs, and name it in spec.credentialsSecret"
                )
            yield Evidence(format_label(kind, obj), evidence, command, edit=edit)


def _has_userinfo(url: object) -> bool:
    return isinstance(url, str) and has_userinfo(url)


def find_missing_issuers(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find certificates of the bundle whose issuer is not in it."""
    for name, bundle in (snapshot.bundles or {}).items():
        subjects = {item.subject for item in bundle}
        for entry in bundle:
            if entry.issuer != entry.subject and entry.issuer not in subjects:
                yield Evidence(
                    name, _format_certificate(entry), "add the certificate of its issuer to the ConfigMap of spec.trustedCA"
                )


def _format_certificate(certificate: Certificate) -> str:
    return f"the bundle has {certificate.subject}, signed by {certificate.issuer}, which it has not"


def find_leaf_certificates(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find certificates of the bundle that cannot sign others, such as the proxy's own certificate."""
    for name, bundle in (snapshot.bundles or {}).items():
        for item in bundle:
            if not item.is_authority:
                evidence = f"the bundle has {item.subject}, which is not a CA (basic constraints)"
                yield Evidence(name, evidence, f"replace it in the bundle with the CA that signed it ({item.issuer})")


def find_expiring_certificates(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find bundles with a certificate that expires soon or has expired."""
    bundles = snapshot.bundles or {}
    for name, bundle in bundles.items():
        for item in sorted(bundle, key=lambda each: each.not_after)[:1]:
            yield from _find_expiry(name, f"{item.subject} of its bundle", item.not_after, snapshot)
    for value in snapshot.list_objects("EgressProxy"):
        end, name = (
            parse_timestamp(get_nested_value(value, "status", "trustBundle", "earliestExpiry")),
            format_label("EgressProxy", value),
        )
        if end is not None and not bundles.get(name):
            yield from _find_expiry(name, "the first certificate of its bundle", end, snapshot)


def _find_expiry(name: str, what: str, end: datetime, snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    if end - snapshot.now < SOON:
        days = (end - snapshot.now).days
        ends = f"ends in {days} days" if days >= 0 else "has ended"
        yield Evidence(name, f"{what} {ends} ({end:%Y-%m-%d})", _ADD)


_ADD: Final = "add the new CA to the ConfigMap of spec.trustedCA, and remove the old one when all hosts trust the new one"


def find_conflicting_owners(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find fields of the settings with two writers, and hosts that another operator manages."""
    for obj in snapshot.list_objects("EgressProxy"):
        owners: dict[str, set[str]] = {}
        for entry in get_items(obj, "metadata", "managedFields"):
            if entry.get("subresource") or entry.get("manager") in _OWN_MANAGERS:
                continue
            for path in _iter_leaves(get_mapping(entry, "fieldsV1", "f:spec"), "spec"):
                owners.setdefault(path, set()).add(str(entry.get("manager")))
        shared = {path: who for path, who in owners.items() if len(who) > 1}
        if shared:
            path, who = next(iter(shared.items()))
            evidence = f"{path} is set by {' and '.join(sorted(who))}" + (
                f" (and {len(shared) - 1} more)" if len(shared) > 1 else ""
            )
            command = f"kubectl get egressproxy {get_name(obj)} -o yaml --show-managed-fields, and let one of them go"
            yield Evidence(format_label("EgressProxy", obj), evidence, command)
    for host in snapshot.iter_own_objects("WindowsInstance"):
        managed_condition = next((each for each in get_conditions(host) if each.get("reason") == "ManagedByOther"), None)
        if managed_condition is not None:
            command = REASONS["ManagedByOther"].get_remedy_command(get_name(host), snapshot.namespace)
            yield Evidence(format_label("WindowsInstance", host), str(managed_condition.get("message")), command)


def _iter_leaves(fields: Mapping[str, Any], path: str) -> Iterator[str]:
    """Iterate over the fields that an entry of managedFields owns (structured-merge-diff, `f:` names)."""
    for key, below in fields.items():
        if not key.startswith("f:"):
            continue
        if isinstance(below, Mapping) and any(name.startswith("f:") for name in below):
            yield from _iter_leaves(below, f"{path}.{key[2:]}")
        else:
            yield f"{path}.{key[2:]}"


def find_outdated_machines(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find machines of workload clusters that are older than their settings."""
    for obj in snapshot.list_objects("EgressProxy"):
        machines_condition = get_condition(obj, "MachinesOutdated")
        if machines_condition.get("status") == "True" and machines_condition.get("reason") != "RollingOut":
            reason = str(machines_condition.get("reason"))
            command = (
                REASONS[reason].get_remedy_command(get_name(obj), "")
                if reason == "Outdated"
                else find_remedy(reason, get_name(obj))
            )
            yield Evidence(format_label("EgressProxy", obj), str(machines_condition.get("message")), command)


_ELSEWHERE: Final = frozenset(
    (
        *("HostKeyChanged", "PendingRestart", "PendingBoot", "ManagedByOther", "Outdated", "CommitNeeded"),
        *("Invalid", "InvalidSpec", "SettingsInvalid", "SettingsMissing", "KeyMissing", "OutsideNamespace"),
        *("NoNamespaceSelector", "HostsFailed", "RolloutHalted", "PodsRefused"),
    )
)
"""Reasons that have a separate check, or that summarize others: failed hosts, and the reason of a halted rollout."""


def find_required_actions(snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Find conditions that require action, such as a host that refuses the key or an endpoint that does not answer."""
    objects_by_reason: dict[tuple[str, str], list[tuple[Value, str]]] = {}
    for kind, objects in (
        ("EgressProxy", snapshot.list_objects("EgressProxy")),
        ("WindowsInstance", snapshot.iter_own_objects("WindowsInstance")),
    ):
        for obj in objects:
            if get_nested_value(obj, "spec", "paused") is not True:
                for reason, message in _list_action_reasons(obj).items():
                    objects_by_reason.setdefault((kind, reason), []).append((obj, message))
    for (kind, reason), item in objects_by_reason.items():
        first, message = item[0]
        more = f" and {len(item) - 1:,} more" if len(item) > 1 else ""
        name, address = ("", "") if more else (get_name(first), str(get_nested_value(first, "spec", "address") or ""))
        step = find_remedy(reason, name, snapshot.namespace, address)
        yield Evidence(format_label(kind, first) + more, f"{reason}: {message}", step, find_reason_page(reason))


def _list_action_reasons(obj: Value) -> dict[str, str]:
    """Return the reasons that require an action, with their first messages; those of Ready repeat others."""
    messages: dict[str, str] = {}
    for item in get_conditions(obj):
        reason = str(item.get("reason"))
        if reason in REASONS and REASONS[reason].heals == "after" and reason not in _ELSEWHERE:
            messages.setdefault(reason, str(item.get("message") or REASONS[reason].meaning))
    return messages
