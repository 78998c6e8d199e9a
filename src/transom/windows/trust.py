"""The trust of a plan: certificates put into a host's stores and taken out again, and the keys that were made for them."""

from transom.windows import certificates
from transom.windows.draft import Draft
from transom.windows.gathering import SERVICES
from transom.windows.ledger import Held, Trusted
from transom.windows.names import listed
from transom.windows.registry import DeleteKey, Edit, SetValue, Value
from transom.windows.steps import Step
from transom.windows.taken import TAKEN


def plan_trust(draft: Draft) -> None:
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


def plan_created_keys(draft: Draft) -> None:
    """Keys that Transom made go once nothing is in them, those below first."""
    if not draft.keys:
        return
    after = draft.actual.registry.apply(draft.edits)
    used = [certificates.store(name).casefold() + "\\" for name, held in draft.ledger.certificates.items() if held]
    for path in sorted(draft.keys, key=len, reverse=True):
        if any(store.startswith(path.casefold() + "\\") for store in used):
            continue
        draft.keys.remove(path)
        key = after.key(path)
        if key is not None and not key.values and not after.below(path):
            draft.edits.append(DeleteKey(path))
            after = after.apply([DeleteKey(path)])


def _trust(draft: Draft, store: str, sha1: str, blob: Value, entries: dict[str, Trusted]) -> None:
    path = rf"{certificates.store(store)}\{sha1}"
    held, entry = draft.actual.registry.key(path), entries.get(sha1)
    der = certificates.certificate(blob) or b""
    # not for those who only know the names of this module: it takes 10 MB
    from cryptography import x509

    subject = entry.subject if entry else x509.load_der_x509_certificate(der).subject.rfc4514_string()
    target = f"{store}: {sha1} {subject}"
    if draft.actual.registry.key(rf"{certificates.store(certificates.DISALLOWED)}\{sha1}"):
        draft.warnings.append(f"{target}: the host's Disallowed store has it: Windows does not trust it")
    there = held is not None and (held.values is None or certificates.certificate(held.get("Blob")) == der)
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
    damaged = held.get("Blob") if held else None
    was = entry.was if entry else (Held.of("Blob", damaged) if damaged else None)
    ours = entry is not None and entry.added
    entries[sha1] = Trusted(added=True, subject=subject, was=was)
    _note_created(draft, store)
    draft.edits.append(SetValue(path, "Blob", blob))
    reason = "drift: somebody else removed or changed it" if ours else "in the trust bundle"
    draft.steps.append(Step("certificate", target, "replace" if held else "add", reason))
    _restart_trusting(draft)


def _distrust(draft: Draft, store: str, sha1: str, entries: dict[str, Trusted]) -> None:
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


def _note_created(draft: Draft, store: str) -> None:
    path, registry = certificates.store(store), draft.actual.registry
    if registry.key(path) is None:
        made = (path.rsplit("\\", 1)[0], path)
        draft.keys += [key for key in made if registry.key(key) is None and not listed(key, draft.keys)]


def _restart_trusting(draft: Draft) -> None:
    trusting = draft.desired.trusting
    for service in draft.desired.registry.children(SERVICES) if trusting is None else trusting:
        draft.restarts.setdefault(service, "the trusted certificates changed")


def _leaf(path: str) -> str:
    return path.rsplit("\\", 1)[1].upper()
