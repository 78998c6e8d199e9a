"""The trust of a host: certificates put into its stores and taken out again. A part of a host."""

from collections.abc import Iterator

import msgspec

from transom.proxy.settings import Egress
from transom.proxy.trust import subject_of
from transom.windows.host import DesiredState, Step
from transom.windows.host import entries as ledger
from transom.windows.host.entries import FormerValue
from transom.windows.host.queries import LEDGER, SERVICES, STORES, Queries
from transom.windows.parts import certificates
from transom.windows.parts.adopted import TAKEN
from transom.windows.parts.part import About
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry import Registry
from transom.windows.registry.edits import DeleteKey, Edit, SetValue
from transom.windows.registry.names import listed
from transom.windows.registry.values import Value

LINES = LEDGER + r"\Certificates"
MANAGED = (certificates.ROOT, certificates.CA)
"""The stores that hold something of ours."""
ABOUT = About("the stores `ROOT` and `CA`", "certificates", "every local user")


class Trusted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A certificate of the bundle: added by us, found there before (`added` false), or there by a policy store.

    `was` is a Blob under its name that did not hold it.
    """

    added: bool
    subject: str = ""
    policy: bool = False
    was: FormerValue | None = None


Stores = dict[str, dict[str, Trusted]]
"""The ledger's entry: certificates by their SHA-1, by the name of their store. A store without any has none."""


def wish(egress: Egress) -> Iterator[Edit]:
    """The certificates: those that are self-issued are roots, the others intermediates."""
    for one in egress.trust:
        store = certificates.ROOT if one.self_issued else certificates.CA
        yield SetValue(rf"{certificates.store(store)}\{one.sha1}", "Blob", certificates.blob(one.der, one.sha1))


def asks(desired: DesiredState, *, change_expected: bool) -> Queries:
    """What is in the stores that something is wished for in, and in the one that takes trust away."""
    stores = tuple(certificates.store(name) for name in MANAGED if desired.registry.below(certificates.store(name)))
    return Queries(stores=(*stores, certificates.store(certificates.DISALLOWED)) if stores else ())


def more(entry: Stores, draft: PlanBuilder) -> Queries:
    """What is in the stores that something of ours is in; what is there already and not ours; what policies hold."""
    stores, keys = [certificates.store(name) for name in entry], []
    for name in MANAGED:
        store = certificates.store(name)
        for key in draft.desired.registry.below(store):
            known = entry.get(name, {}).get(_leaf(key.path))
            present = draft.found.registry.key(key.path)
            if present is not None and (known is None or known.policy):
                keys.append(key.path)
            elif present is None:
                stores += [certificates.policy_store(name)]
                if draft.found.registry.key(store) is None:
                    stores.append(rf"{STORES}\{name}")
    return Queries(stores=tuple(stores), keys=tuple(keys))


def read(registry: Registry) -> Stores:
    """The ledger's entry."""
    found = {key.path.rsplit("\\", 1)[1]: ledger.entries(registry, key.path, Trusted) for key in registry.below(LINES)}
    return {store: kept for store, kept in found.items() if kept}


def lines(entry: Stores) -> Iterator[SetValue]:
    """A value for each certificate, below a key for each store."""
    for store, kept in entry.items():
        for sha1, trusted in kept.items():
            yield ledger.line(rf"{LINES}\{store}", sha1, trusted)


def plan(entry: Stores, draft: PlanBuilder) -> Stores:
    """Brings the stores to what is wanted; certificates that were there before, or that a policy holds, are left."""
    after = {store: dict(kept) for store, kept in entry.items()}
    for name in MANAGED:
        path = certificates.store(name)
        wanted = {_leaf(key.path): key.get("Blob") for key in draft.desired.registry.below(path)}
        kept = after.setdefault(name, {})
        for sha1, blob in wanted.items():
            if blob is not None:
                _trust(draft, name, sha1, blob, kept)
        for sha1 in [sha1 for sha1 in kept if sha1 not in wanted]:
            _distrust(draft, name, sha1, kept)
    if any(one.added for kept in after.values() for one in kept.values()):
        draft.trusting = _trusting(draft)
    draft.used_keys += [certificates.store(name) for name, kept in after.items() if kept]
    return {store: kept for store, kept in after.items() if kept}


def _trust(draft: PlanBuilder, store: str, sha1: str, blob: Value, entries: dict[str, Trusted]) -> None:
    path = rf"{certificates.store(store)}\{sha1}"
    present, entry = draft.actual.registry.key(path), entries.get(sha1)
    der = certificates.certificate(blob) or b""
    subject = entry.subject if entry else subject_of(der)
    target = f"{store}: {sha1} {subject}"
    if draft.actual.registry.key(rf"{certificates.store(certificates.DISALLOWED)}\{sha1}"):
        draft.warnings.append(f"{target}: the host's Disallowed store has it: Windows does not trust it")
    there = present is not None and (present.values is None or certificates.certificate(present.get("Blob")) == der)
    if there:
        if entry is None or entry.policy:
            imported = draft.taken is not None and sha1 in draft.taken.certificates
            entries[sha1] = Trusted(added=imported, subject=subject)
            reason = TAKEN if imported else "trusted before: not ours, and it stays on removal"
            draft.steps.append(Step("ledger", target, "add", reason))
        return
    if draft.actual.registry.key(rf"{certificates.policy_store(store)}\{sha1}"):
        draft.warnings.append(f"{target}: group policy already holds it; left to the policy")
        entries[sha1] = Trusted(added=False, subject=subject, policy=True)
        return
    damaged = present.get("Blob") if present else None
    was = entry.was if entry else (FormerValue.of("Blob", damaged) if damaged else None)
    ours = entry is not None and entry.added
    entries[sha1] = Trusted(added=True, subject=subject, was=was)
    _note_created(draft, store)
    draft.edits.append(SetValue(path, "Blob", blob))
    reason = "drift: somebody else removed or changed it" if ours else "in the trust bundle"
    draft.steps.append(Step("certificate", target, "replace" if present else "add", reason))
    _restart_trusting(draft)


def _distrust(draft: PlanBuilder, store: str, sha1: str, entries: dict[str, Trusted]) -> None:
    entry = entries.pop(sha1)
    key = draft.actual.registry.key(rf"{certificates.store(store)}\{sha1}")
    target = f"{store}: {sha1} {entry.subject}".rstrip()
    if not entry.added or key is None:
        draft.steps.append(Step("ledger", target, "remove", "no longer in the trust bundle, and not ours to remove"))
        return
    back: Edit = SetValue(key.path, "Blob", entry.was.value()) if entry.was else DeleteKey(key.path)
    draft.edits.append(back)
    draft.steps.append(Step("certificate", target, "replace" if entry.was else "remove", "no longer in the trust bundle"))
    _restart_trusting(draft)


def _note_created(draft: PlanBuilder, store: str) -> None:
    path, registry = certificates.store(store), draft.actual.registry
    if registry.key(path) is None:
        made = (path.rsplit("\\", 1)[0], path)
        draft.made_keys += [key for key in made if registry.key(key) is None and not listed(key, draft.made_keys)]


def _restart_trusting(draft: PlanBuilder) -> None:
    for service in _trusting(draft):
        draft.restarts.setdefault(service, "the trusted certificates changed")


def _trusting(draft: PlanBuilder) -> tuple[str, ...]:
    trusting = draft.desired.trusting
    return draft.desired.registry.children(SERVICES) if trusting is None else trusting


def _leaf(path: str) -> str:
    return path.rsplit("\\", 1)[1].upper()
