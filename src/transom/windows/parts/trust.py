"""The trust of a plan: certificates put into a host's stores and taken out again, and the keys that were made for them."""

import msgspec

from transom.proxy.trust import subject_of
from transom.windows.host.queries import SERVICES
from transom.windows.host.steps import Step
from transom.windows.ledger.ledger import FormerValue, Trusted
from transom.windows.parts import certificates
from transom.windows.parts.adopted import TAKEN
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry.names import listed, without
from transom.windows.registry.registry import DeleteKey, Edit, SetValue, Value


def plan_trust(draft: PlanBuilder) -> None:
    """Brings the stores to what is wanted; certificates that were there before, or that a policy holds, are left."""
    for name in (certificates.ROOT, certificates.CA):
        path = certificates.store(name)
        wanted = {_leaf(key.path): key.get("Blob") for key in draft.desired.registry.below(path)}
        entries = draft.ledger.certificates.setdefault(name, {})
        for sha1, blob in wanted.items():
            if blob is not None:
                _trust(draft, name, sha1, blob, entries)
        for sha1 in [sha1 for sha1 in entries if sha1 not in wanted]:
            _distrust(draft, name, sha1, entries)
    _restart_newly_managed(draft)


def plan_created_keys(draft: PlanBuilder) -> None:
    """Keys that Transom made go once nothing is in them, those below first."""
    if not draft.keys:
        return
    after = draft.actual.registry.apply(draft.edits)
    used = [certificates.store(name).casefold() + "\\" for name, present in draft.ledger.certificates.items() if present]
    for path in sorted(draft.keys, key=len, reverse=True):
        if any(store.startswith(path.casefold() + "\\") for store in used):
            continue
        draft.keys.remove(path)
        key = after.key(path)
        if key is not None and not key.values and not after.below(path):
            draft.edits.append(DeleteKey(path))
            after = after.apply([DeleteKey(path)])


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
        draft.keys += [key for key in made if registry.key(key) is None and not listed(key, draft.keys)]


def _restart_trusting(draft: PlanBuilder) -> None:
    for service in _trusting(draft):
        draft.restarts.setdefault(service, "the trusted certificates changed")


def _restart_newly_managed(draft: PlanBuilder) -> None:
    """A service that was not managed when certificates of ours came may run since before; the ledger knows those that were."""
    added = any(entry.added for entries in draft.ledger.certificates.values() for entry in entries.values())
    trusting = _trusting(draft) if added else ()
    # what the first boot put there, it did before any service of ours ran
    known = draft.old.trusting if draft.old.state_hash else trusting
    for service in without(trusting, known):
        draft.restarts.setdefault(service, "it may run since before the trusted certificates came")
    draft.ledger = msgspec.structs.replace(draft.ledger, trusting=trusting)


def _trusting(draft: PlanBuilder) -> tuple[str, ...]:
    trusting = draft.desired.trusting
    return draft.desired.registry.children(SERVICES) if trusting is None else trusting


def _leaf(path: str) -> str:
    return path.rsplit("\\", 1)[1].upper()
