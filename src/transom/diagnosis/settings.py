"""What is wrong with the settings themselves, beyond what makes them invalid; and what conditions ask somebody to do."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from transom.diagnosis import Observed, Seen, Value
from transom.diagnosis.fields import at, condition, conditions, items, label_of, mapping, moment, name_of
from transom.diagnosis.overview import SOON
from transom.proxy.clients.lint import lint
from transom.proxy.finding import Finding
from transom.proxy.layers import BASE
from transom.proxy.trust import Certificate
from transom.reasons import REASONS, next_step, page_of

_ABSENT: Final = ("there is no Secret ", "there is no ConfigMap ")
_PASSPHRASE: Final = "passphrase"  # noqa: S105  # a word of a message
_MOST: Final = 5
_OWN_MANAGERS: Final = ("transom",)


def invalid(seen: Observed) -> Iterator[Seen]:
    """What `transom validate` calls an error."""
    found: dict[str, list[str]] = {}
    for one in seen.findings:
        if one.severity == "error" and not _has_check(one):
            found.setdefault(one.object or one.file, []).append(f"{one.field}: {one.message}" if one.field else one.message)
    for name, told in found.items():
        rest = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
        where = "" if seen.live else f" -f {seen.source}"
        yield Seen(name, told[0] + rest, f"transom validate{where}")


def _has_check(one: Finding) -> bool:
    """Whether a check of newcomers' finds it: a base with another name, what is named and not there, a sealed key."""
    return one.field == "metadata.name" or one.message.startswith(_ABSENT) or _PASSPHRASE in one.message


def https_without_proxy(seen: Observed) -> Iterator[Seen]:
    """A base with a proxy for http alone."""
    own = seen.settings.own if seen.settings is not None else None
    if own is not None and own.http_proxy and not own.https_proxy:
        of = "Proxy" if any(name_of(one) == BASE for one in seen.of("Proxy")) else "EgressProxy"
        patch = '{"spec":{"httpsProxy":"http://HOST:PORT"}}'
        command = f"kubectl patch {of.lower()} {BASE} --type=merge -p '{patch}': it may be the same URL"
        yield Seen(f"{of}/{BASE}", "httpProxy is set, and httpsProxy is not", command)


def no_proxy_ignored(seen: Observed) -> Iterator[Seen]:
    """Items of NO_PROXY that a client in use reads otherwise than meant: those of hosts, and of what Transom fetches there."""
    for one in seen.of("EgressProxy"):
        text = at(one, "spec", "noProxy")
        if not isinstance(text, str) or text.strip() == "*":
            continue
        clients = ["go"]
        clients += ["curl"] if at(one, "spec", "readinessEndpoints") else []
        clients += ["winhttp"] if at(one, "spec", "windows", "winHTTP") is True else []
        for item in lint(text, clients)[:_MOST]:
            who = ", ".join(item.clients)
            instead = f": write {item.instead}" if item.instead else ": leave it out" if item.instead == "" else ""
            evidence = f"spec.noProxy has `{item.item}`: {item.problem} ({who})"
            command = f"kubectl edit egressproxy {name_of(one)}{instead}; transom no-proxy lint says more"
            yield Seen(label_of("EgressProxy", one), evidence, command)


def intermediate_without_issuer(seen: Observed) -> Iterator[Seen]:
    """A certificate of the bundle that another signed, which is not in it."""
    bundles = {BASE: seen.settings.own.trust} if seen.settings is not None and seen.settings.own is not None else {}
    for name, bundle in bundles.items():
        subjects = {one.subject for one in bundle}
        for one in bundle:
            if one.issuer != one.subject and one.issuer not in subjects:
                yield Seen(
                    f"EgressProxy/{name}", _told(one), "add the certificate of its issuer to the ConfigMap of spec.trustedCA"
                )


def _told(one: Certificate) -> str:
    return f"the bundle has {one.subject}, signed by {one.issuer}, which it has not"


def certificate_ends(seen: Observed) -> Iterator[Seen]:
    """A bundle of which a certificate ends soon, or has ended."""
    for one in seen.of("EgressProxy"):
        end = moment(at(one, "status", "trustBundle", "earliestExpiry"))
        if end is not None and end - seen.now < SOON:
            days = (end - seen.now).days
            ends = f"ends in {days} days" if days >= 0 else "has ended"
            evidence = f"the first certificate of its bundle {ends} ({end:%Y-%m-%d})"
            yield Seen(label_of("EgressProxy", one), evidence, _ADD)


_ADD: Final = "put the new CA beside the old one into the ConfigMap of spec.trustedCA; take the old one out when all trust it"


def two_owners(seen: Observed) -> Iterator[Seen]:
    """Fields of the settings that two write, and hosts that another operator has."""
    for one in seen.of("EgressProxy"):
        owners: dict[str, set[str]] = {}
        for entry in items(one, "metadata", "managedFields"):
            if entry.get("subresource") or entry.get("manager") in _OWN_MANAGERS:
                continue
            for path in _leaves(mapping(entry, "fieldsV1", "f:spec"), "spec"):
                owners.setdefault(path, set()).add(str(entry.get("manager")))
        shared = {path: who for path, who in owners.items() if len(who) > 1}
        if shared:
            path, who = next(iter(shared.items()))
            evidence = f"{path} is set by {' and '.join(sorted(who))}" + (
                f" (and {len(shared) - 1} more)" if len(shared) > 1 else ""
            )
            command = f"kubectl get egressproxy {name_of(one)} -o yaml --show-managed-fields, and let one of them go"
            yield Seen(label_of("EgressProxy", one), evidence, command)
    for host in seen.own("WindowsInstance"):
        said = next((each for each in conditions(host) if each.get("reason") == "ManagedByOther"), None)
        if said is not None:
            command = REASONS["ManagedByOther"].command(name_of(host), seen.namespace)
            yield Seen(label_of("WindowsInstance", host), str(said.get("message")), command)


def _leaves(fields: Mapping[str, Any], path: str) -> Iterator[str]:
    """The fields that an entry of managedFields owns (structured-merge-diff, `f:` names)."""
    for key, below in fields.items():
        if not key.startswith("f:"):
            continue
        if isinstance(below, Mapping) and any(name.startswith("f:") for name in below):
            yield from _leaves(below, f"{path}.{key[2:]}")
        else:
            yield f"{path}.{key[2:]}"


def machines_outdated(seen: Observed) -> Iterator[Seen]:
    """Machines of workload clusters that are older than their settings."""
    for one in seen.of("EgressProxy"):
        said = condition(one, "MachinesOutdated")
        if said.get("status") == "True" and said.get("reason") != "RollingOut":
            reason = str(said.get("reason"))
            command = REASONS[reason].command(name_of(one), "") if reason == "Outdated" else next_step(reason, name_of(one))
            yield Seen(label_of("EgressProxy", one), str(said.get("message")), command)


_ELSEWHERE: Final = frozenset(
    (
        *("HostKeyChanged", "PendingRestart", "PendingBoot", "ManagedByOther", "Outdated", "CommitNeeded"),
        *("Invalid", "InvalidSpec", "SettingsInvalid", "SettingsMissing", "KeyMissing", "OutsideNamespace"),
        *("NoNamespaceSelector", "HostsFailed", "RolloutHalted"),
    )
)
"""Reasons that have a check of their own, or that stand for others: hosts that failed, and why a rollout was halted."""


def waits_for_you(seen: Observed) -> Iterator[Seen]:
    """A condition whose reason ends once somebody did something: a host that takes no key, an endpoint that does not answer."""
    found: dict[tuple[str, str], list[tuple[Value, str]]] = {}
    for kind, objects in (("EgressProxy", seen.of("EgressProxy")), ("WindowsInstance", seen.own("WindowsInstance"))):
        for one in objects:
            if at(one, "spec", "paused") is not True:
                for reason, message in _asking(one).items():
                    found.setdefault((kind, reason), []).append((one, message))
    for (kind, reason), told in found.items():
        first, message = told[0]
        more = f" and {len(told) - 1:,} more" if len(told) > 1 else ""
        name, address = ("", "") if more else (name_of(first), str(at(first, "spec", "address") or ""))
        step = next_step(reason, name, seen.namespace, address)
        yield Seen(label_of(kind, first) + more, f"{reason}: {message}", step, page_of(reason))


def _asking(one: Value) -> dict[str, str]:
    """The reasons that ask for something, each with its first message: Ready has those of others."""
    found: dict[str, str] = {}
    for said in conditions(one):
        reason = str(said.get("reason"))
        if reason in REASONS and REASONS[reason].heals == "after" and reason not in _ELSEWHERE:
            found.setdefault(reason, str(said.get("message") or REASONS[reason].meaning))
    return found
