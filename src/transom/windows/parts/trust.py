"""The trust of a host: certificates added to its stores and removed later. A part of a host."""

from collections.abc import Iterator

import msgspec

from transom.proxy.settings import Egress
from transom.proxy.trust import parse_subject
from transom.windows.host import ledger_entries as ledger
from transom.windows.host.host_state import DesiredState, Step
from transom.windows.host.ledger_entries import FormerValue
from transom.windows.host.queries import LEDGER, SERVICES, STORES, Queries
from transom.windows.parts import certificates
from transom.windows.parts.adopted import TAKEN
from transom.windows.parts.part import About
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry.edits import DeleteKey, Edit, SetValue
from transom.windows.registry.names import is_listed
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import Value

LINES = LEDGER + r"\Certificates"
MANAGED = (certificates.ROOT, certificates.CA)
"""The stores that hold certificates from Transom."""
ADDED = "in the trust bundle"
REMOVED = "no longer in the trust bundle"
ABOUT = About("the stores `ROOT` and `CA`", "certificates", "every local user")


class TrustedCertificate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A certificate of the bundle: added by us, found there before (`added` false), or there by a policy store.

    `was` is a Blob under its name that did not hold it.
    """

    added: bool
    subject: str = ""
    policy: bool = False
    was: FormerValue | None = None


Stores = dict[str, dict[str, TrustedCertificate]]
"""The ledger's entry: certificates by their SHA-1, by the name of their store. A store without any has none."""


def iter_desired_edits(egress: Egress) -> Iterator[Edit]:
    """Yield the certificates: self-issued ones are roots, the others intermediates."""
    for item in egress.trust:
        store = certificates.ROOT if item.self_issued else certificates.CA
        yield SetValue(
            rf"{certificates.get_store_path(store)}\{item.sha1}", "Blob", certificates.build_blob(item.der, item.sha1)
        )


def build_initial_queries(desired: DesiredState, *, change_expected: bool) -> Queries:
    """Query the stores with desired certificates, and the store of disallowed ones."""
    stores = tuple(
        certificates.get_store_path(name)
        for name in MANAGED
        if desired.registry.list_keys_below(certificates.get_store_path(name))
    )
    return Queries(stores=(*stores, certificates.get_store_path(certificates.DISALLOWED)) if stores else ())


def build_follow_up_queries(entry: Stores, draft: PlanBuilder) -> Queries:
    """Query stores with our certificates, present certificates that are not ours, and certificates of policies."""
    stores, keys = [certificates.get_store_path(name) for name in entry], []
    for name in MANAGED:
        store = certificates.get_store_path(name)
        for key in draft.desired.registry.list_keys_below(store):
            known = entry.get(name, {}).get(_parse_key_name(key.path))
            present = draft.observed.registry.find_key(key.path)
            if present is not None and (known is None or known.policy):
                keys.append(key.path)
            elif present is None:
                stores += [certificates.get_policy_store_path(name)]
                if draft.observed.registry.find_key(store) is None:
                    stores.append(rf"{STORES}\{name}")
    return Queries(stores=tuple(stores), keys=tuple(keys))


def read(registry: Registry) -> Stores:
    """Read the ledger's entry."""
    stores = {
        key.path.rsplit("\\", 1)[1]: ledger.read_entries(registry, key.path, TrustedCertificate)
        for key in registry.list_keys_below(LINES)
    }
    return {store: kept for store, kept in stores.items() if kept}


def iter_ledger_values(entry: Stores) -> Iterator[SetValue]:
    """Yield a value for each certificate, below a key for each store."""
    for store, kept in entry.items():
        for sha1, trusted in kept.items():
            yield ledger.build_ledger_value(rf"{LINES}\{store}", sha1, trusted)


def plan(entry: Stores, draft: PlanBuilder) -> Stores:
    """Make the stores match the desired state; existing certificates, and those of a policy, stay."""
    after = {store: dict(kept) for store, kept in entry.items()}
    for name in MANAGED:
        path = certificates.get_store_path(name)
        wanted = {_parse_key_name(key.path): key.get("Blob") for key in draft.desired.registry.list_keys_below(path)}
        kept = after.setdefault(name, {})
        for sha1, blob in wanted.items():
            if blob is not None:
                _add_trust(draft, name, sha1, blob, kept)
        for sha1 in [sha1 for sha1 in kept if sha1 not in wanted]:
            _remove_trust(draft, name, sha1, kept)
    if any(item.added for kept in after.values() for item in kept.values()):
        draft.trusting = _list_trusting_services(draft)
    draft.used_keys += [certificates.get_store_path(name) for name, kept in after.items() if kept]
    return {store: kept for store, kept in after.items() if kept}


def _add_trust(draft: PlanBuilder, store: str, sha1: str, blob: Value, entries: dict[str, TrustedCertificate]) -> None:
    path = rf"{certificates.get_store_path(store)}\{sha1}"
    present, entry = draft.actual.registry.find_key(path), entries.get(sha1)
    der = certificates.parse_certificate(blob) or b""
    subject = entry.subject if entry else parse_subject(der)
    target = f"{store}: {sha1} {subject}"
    if draft.actual.registry.find_key(rf"{certificates.get_store_path(certificates.DISALLOWED)}\{sha1}"):
        draft.warnings.append(f"{target}: the host's Disallowed store has it: Windows does not trust it")
    is_present = present is not None and (present.values is None or certificates.parse_certificate(present.get("Blob")) == der)
    if is_present:
        if entry is None or entry.policy:
            imported = draft.taken is not None and sha1 in draft.taken.certificates
            entries[sha1] = TrustedCertificate(added=imported, subject=subject)
            reason = TAKEN if imported else "trusted before: not ours, and it stays on removal"
            draft.steps.append(Step("ledger", target, "add", reason))
        return
    if draft.actual.registry.find_key(rf"{certificates.get_policy_store_path(store)}\{sha1}"):
        draft.warnings.append(f"{target}: group policy already holds it; left to the policy")
        entries[sha1] = TrustedCertificate(added=False, subject=subject, policy=True)
        return
    damaged = present.get("Blob") if present else None
    was = entry.was if entry else (FormerValue.from_value("Blob", damaged) if damaged else None)
    ours = entry is not None and entry.added
    entries[sha1] = TrustedCertificate(added=True, subject=subject, was=was)
    _record_created_keys(draft, store)
    draft.edits.append(SetValue(path, "Blob", blob))
    reason = "drift: removed or changed after Transom added it" if ours else ADDED
    draft.steps.append(Step("certificate", target, "replace" if present else "add", reason))
    _restart_trusting_services(draft)


def _remove_trust(draft: PlanBuilder, store: str, sha1: str, entries: dict[str, TrustedCertificate]) -> None:
    entry = entries.pop(sha1)
    key = draft.actual.registry.find_key(rf"{certificates.get_store_path(store)}\{sha1}")
    target = f"{store}: {sha1} {entry.subject}".rstrip()
    if not entry.added or key is None:
        draft.steps.append(Step("ledger", target, "remove", f"{REMOVED}, and not ours to remove"))
        return
    back: Edit = SetValue(key.path, "Blob", entry.was.to_value()) if entry.was else DeleteKey(key.path)
    draft.edits.append(back)
    draft.steps.append(Step("certificate", target, "replace" if entry.was else "remove", REMOVED))
    _restart_trusting_services(draft)


def _record_created_keys(draft: PlanBuilder, store: str) -> None:
    path, registry = certificates.get_store_path(store), draft.actual.registry
    if registry.find_key(path) is None:
        made = (path.rsplit("\\", 1)[0], path)
        draft.made_keys += [key for key in made if registry.find_key(key) is None and not is_listed(key, draft.made_keys)]


def _restart_trusting_services(draft: PlanBuilder) -> None:
    for service in _list_trusting_services(draft):
        draft.restarts.setdefault(service, "the trusted certificates changed")


def _list_trusting_services(draft: PlanBuilder) -> tuple[str, ...]:
    trusting = draft.desired.trusting
    return draft.desired.registry.list_children(SERVICES) if trusting is None else trusting


def _parse_key_name(path: str) -> str:
    return path.rsplit("\\", 1)[1].upper()
