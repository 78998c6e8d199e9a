"""Variables of ours among those of others: in a service's own environment, and in the machine's.

Both ways are here, setting and exact undo, as pure functions from (what is there, what the ledger says, what is wanted) to
(what should be there, what the ledger should say, the changes with their reasons).
"""

from typing import Literal

import msgspec

from transom.windows.ledger import Held, Item, Ledger, MachineVariable, ServiceEnvironment, ServiceVariable
from transom.windows.registry import NamedValue, Value, ValueType, multi_sz, sz, type_name

Action = Literal["add", "replace", "remove", "restart"]

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

SETTINGS = "set by the egress settings"
CHANGED = "the egress settings changed"
DRIFT = "drift: somebody else changed what Transom had set"
REPLACED = "replaces a value that was there before; the ledger keeps it"
REMOVED = "no longer in the egress settings"
RESTORED = "no longer in the egress settings: the value from before is back"
LEFT = "changed by somebody else since Transom set it: left as it is"
MASKED = "hides a machine variable that has gone, until the next boot"
UNMASKED = "the host has booted without the machine variable"


class RegistryTypeError(Exception):
    """A registry value has a type that Windows does not read there; the message names value and types."""


class Change(msgspec.Struct, frozen=True):
    """What happens to one variable; `action` None: only the ledger changes."""

    name: str
    action: Action | None
    reason: str


class Wish(msgspec.Struct, frozen=True):
    """What a variable should be; `mask`: the boot up to which it only hides one of the machine's."""

    value: str
    mask: int | None = None

    def __repr__(self) -> str:
        return "Wish(***)"


class Merged(msgspec.Struct, frozen=True):
    """A service's environment after the merge: the value (None: none), the ledger's entry (None: none), the changes."""

    value: Value | None
    entry: ServiceEnvironment | None
    changes: tuple[Change, ...]


def merge_service(
    service: str, value: Value | None, entry: ServiceEnvironment | None, wishes: dict[str, Wish], ledger: Ledger
) -> Merged:
    """The items of `wishes` put into a service's `Environment`, and items of ours that are not wished for taken out.

    Other items stay, in their order. An item that already says what is wanted, and is not ours, stays somebody else's.
    Raises RegistryTypeError where the value is no REG_MULTI_SZ.
    """
    if value is not None and value.type != ValueType.MULTI_SZ:
        raise RegistryTypeError(
            f"{service}: its registry value Environment is {type_name(value.type)}; "
            "Windows reads REG_MULTI_SZ there: correct or delete the value"
        )
    items = list(value.texts()) if value else []
    before = entry.before if entry else (Held.of("Environment", value) if value else None)
    variables = dict(entry.variables) if entry else {}
    changes: list[Change] = []
    for name in NAMES:
        wish, ours = wishes.get(name), variables.get(name)
        found = [Item(index, item) for index, item in enumerate(items) if _name(item) == name]
        if wish is not None:
            text = f"{name}={wish.value}"
            if [item.text for item in found] == [text]:
                if ours is not None:
                    variables[name] = msgspec.structs.replace(ours, set=ledger.digest(name, text), mask=wish.mask)
                continue
            items = _put(items, found, text)
            was = ours.was if ours else tuple(found)
            variables[name] = ServiceVariable(ledger.digest(name, text), ours.set if ours else "", was, wish.mask)
            changes.append(_set(name, found, ours, ledger, masked=wish.mask is not None))
        elif ours is not None:
            del variables[name]
            if len(found) == 1 and ledger.digest(name, found[0].text) in (ours.set, ours.former):
                items = _restored(items, found[0].index, ours.was)
                reason = UNMASKED if ours.mask is not None else RESTORED if ours.was else REMOVED
                changes.append(Change(name, "replace" if ours.was else "remove", reason))
            else:
                changes.append(Change(name, None, LEFT))
    kept = ServiceEnvironment(before, variables) if variables else None
    return Merged(_value(items, value, before, kept), kept, tuple(changes))


def _name(item: str) -> str:
    # the first character belongs to the name even when it is `=`: Windows has items such as `=C:=C:\`
    return (item[:1] + item[1:].split("=", 1)[0]).upper() if "=" in item[1:] else ""


def _put(items: list[str], found: list[Item], text: str) -> list[str]:
    """`text` in the place of the first of `found`, the others gone; at the end where there is none."""
    if not found:
        return [*items, text]
    taken = {item.index for item in found}
    first = found[0].index
    return [text if index == first else item for index, item in enumerate(items) if index == first or index not in taken]


def _set(name: str, found: list[Item], ours: ServiceVariable | None, ledger: Ledger, *, masked: bool) -> Change:
    action: Action = "replace" if found else "add"
    if ours is None:
        return Change(name, action, REPLACED if found else MASKED if masked else SETTINGS)
    untouched = len(found) == 1 and ledger.digest(name, found[0].text) in (ours.set, ours.former)
    return Change(name, action, CHANGED if untouched else DRIFT)


def _restored(items: list[str], index: int, was: tuple[Item, ...]) -> list[str]:
    back = [item for at, item in enumerate(items) if at != index]
    for item in sorted(was, key=lambda item: item.index):
        back.insert(min(item.index, len(back)), item.text)
    return back


def _value(items: list[str], now: Value | None, before: Held | None, entry: ServiceEnvironment | None) -> Value | None:
    """The value that holds `items`; once nothing of ours is left, byte for byte the one from before where the items agree."""
    if now is not None and items == list(now.texts()):
        return now
    if entry is None and before is not None and sorted(items) == sorted(before.value().texts()):
        return before.value()
    if entry is None and before is None and not items:
        return None
    return multi_sz(items)


class MachineMerged(msgspec.Struct, frozen=True):
    """A machine variable after the merge: its value (None: none), the ledger's entry, the change; `name` as spelled there."""

    name: str
    value: Value | None
    entry: MachineVariable | None
    change: Change | None


def merge_machine(
    name: str, held: NamedValue | None, wanted: str | None, *, entry: MachineVariable | None, ledger: Ledger, boot: int | None
) -> MachineMerged:
    """One variable of the machine environment set to `wanted`, or (None) undone.

    What was there before comes back with its type (REG_EXPAND_SZ), its bytes and the spelling of its name.
    """
    spelled = held.name if held else name
    now = held.value if held else None
    untouched = (
        entry is not None
        and now is not None
        and now.type == ValueType.SZ
        and ledger.digest(name, now.text()) in (entry.set, entry.former)
    )
    if wanted is not None:
        value = sz(wanted)
        if now == value:
            return MachineMerged(spelled, now, entry, None)
        was = entry.was if entry else (Held.of(spelled, now) if now else None)
        known = CHANGED if untouched else DRIFT
        reason = known if entry else REPLACED if now else SETTINGS
        change = Change(name, "replace" if now else "add", reason)
        return MachineMerged(
            spelled, value, MachineVariable(ledger.digest(name, wanted), entry.set if entry else "", boot, was), change
        )
    if entry is None:
        return MachineMerged(spelled, now, None, None)
    if not untouched:
        return MachineMerged(spelled, now, None, Change(name, None, LEFT))
    back = entry.was.value() if entry.was else None
    reason = RESTORED if back else REMOVED
    return MachineMerged(
        entry.was.name if entry.was else spelled, back, None, Change(name, "replace" if back else "remove", reason)
    )
