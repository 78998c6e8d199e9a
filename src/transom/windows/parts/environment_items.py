"""Variables of ours among those of others: in a service's own environment, and in the machine's.

Both ways are here, setting and exact undo, as pure functions. They take what is there, what the ledger says and what is wanted,
and give what should be there, what the ledger should say, and the changes with their reasons.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from transom.proxy.secret import redact_variable
from transom.proxy.settings import VARIABLES
from transom.windows.host import Action
from transom.windows.host.entries import FormerValue
from transom.windows.registry import NamedValue
from transom.windows.registry.values import Value, ValueType, multi_sz, sz, type_name

Digest = Callable[[str, str], str]
"""The salted hash of a named value (`PlanBuilder.digest`)."""

SETTINGS = "set by the egress settings"
CHANGED = "the egress settings changed"
DRIFT = "drift: somebody else changed what Transom had set"
REPLACED = "replaces a value that was there before; the ledger keeps it"
REMOVED = "no longer in the egress settings"
RESTORED = "no longer in the egress settings: the value from before is back"
BESIDE = "no longer in the egress settings: one that somebody else added is left"
LEFT = "changed by somebody else since Transom set it: left as it is"
MASKED = "hides a machine variable that has gone, until the next boot"
UNMASKED = "the host has booted without the machine variable"


class MachineVariable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A variable set in the machine environment: the hash of what was set, the boot at which, what was there before.

    `former` is the hash of what was there of ours when it was: an import that is cut short leaves it. `peer`: the operator that
    had the host before has set it; it stays as long as it says what services have. `booted`: the host has booted with an
    earlier value of ours, which services have until the next boot. `gone`: it was taken out again in this boot, and services
    that have no item of their own still have it.
    """

    set: str
    former: str = ""
    boot: int | None = None
    was: FormerValue | None = None
    peer: bool = False
    booted: bool = False
    gone: int | None = None

    def is_had(self, boot: int | None) -> bool:
        """Whether services may have a value of ours from the boot that is named."""
        return self.gone == boot if self.gone is not None else self.booted or self.boot != boot


class LedgerItem(msgspec.Struct, frozen=True, array_like=True):
    """An item of somebody else's that ours replaced, and its place in the list."""

    index: int
    text: str

    def __post_init__(self) -> None:
        if self.index < 0 or not self.text or "\0" in self.text:
            raise ValueError("no item of a REG_MULTI_SZ")

    def __repr__(self) -> str:
        return f"Item({self.index})"


class ServiceVariable(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item set in a service's own environment; `former` is the hash of the item of ours that was there when it was.

    `mask` is the boot up to which the item only hides a variable of the machine environment that has been booted with.
    """

    set: str
    former: str = ""
    was: tuple[LedgerItem, ...] = ()
    mask: int | None = None


class ServiceEnvironment(msgspec.Struct, frozen=True):
    """A service's `Environment`: the whole value before Transom's first change (None: it was not there), and our items."""

    before: FormerValue | None
    variables: dict[str, ServiceVariable]


class ItemChange(msgspec.Struct, frozen=True):
    """What happens to one variable; `action` None: only the ledger changes. `before` and `after` have no userinfo."""

    name: str
    action: Action | None
    reason: str
    before: str | None = None
    after: str | None = None

    def showing(self, before: str | None, after: str | None) -> "ItemChange":
        """The same with the values, as far as they may be shown."""
        shown = [None if one is None else redact_variable(self.name, one) for one in (before, after)]
        return msgspec.structs.replace(self, before=shown[0], after=shown[1])


class DesiredItems(msgspec.Struct, frozen=True):
    """What a variable should be; `mask`: the boot up to which it only hides one of the machine's."""

    value: str
    mask: int | None = None

    def __repr__(self) -> str:
        return "Wish(***)"


class MergedItems(msgspec.Struct, frozen=True):
    """A service's environment after the merge: the value (None: none), the ledger's entry (None: none), the changes."""

    value: Value | None
    entry: ServiceEnvironment | None
    changes: tuple[ItemChange, ...]


def type_fault(service: str, value: Value | None) -> str | None:
    """What is wrong with a value `Environment` that is no REG_MULTI_SZ: Windows does not read it as one; None where it is."""
    if value is None or value.type == ValueType.MULTI_SZ:
        return None
    return (
        f"{service}: its registry value Environment is {type_name(value.type)}; "
        "Windows reads REG_MULTI_SZ there: correct or delete the value"
    )


def merge_service(
    value: Value | None, entry: ServiceEnvironment | None, wishes: dict[str, DesiredItems], digest: Digest
) -> MergedItems:
    """The items of `wishes` put into a service's `Environment`, and items of ours that are not wished for taken out.

    `value` is a REG_MULTI_SZ (`type_fault`). Other items stay, in their order. An item that already says what is wanted, and
    is not ours, stays somebody else's. Of a service that was made again nothing is put back that the former one had.
    """
    items = list(value.texts()) if value else []
    if entry is None or _made_anew(value, entry, digest):
        entry = ServiceEnvironment(FormerValue.of("Environment", value) if value else None, {})
    variables = dict(entry.variables)
    changes: list[ItemChange] = []
    for name in VARIABLES:
        wish, ours = wishes.get(name), variables.get(name)
        found = _found(items, name)
        mine = [item for item in found if ours is not None and _is_ours(item, name, ours, digest)]
        theirs = ours.was if ours is not None and len(mine) == len(found) else [item for item in found if item not in mine]
        # an item of the service's own hides the machine's variable by itself
        if wish is not None and (wish.mask is None or not theirs):
            text = f"{name}={wish.value}"
            if [item.text for item in found] == [text]:
                if ours is not None:
                    known = digest(name, text) if mine else ours.set
                    variables[name] = msgspec.structs.replace(ours, set=known, mask=wish.mask)
                continue
            was = ours.was if ours else found
            items = _put(items, found, was, text)
            # an import that is cut short leaves what is there now
            former = digest(name, mine[0].text) if mine else ours.set if ours else ""
            variables[name] = ServiceVariable(digest(name, text), former, was, wish.mask)
            change = _set(name, found, mine, ours, masked=wish.mask is not None)
            changes.append(change.showing(_texts(found), wish.value))
        elif ours is not None:
            del variables[name]
            # an import may have been cut short before ours was put in, of two items that were there and one that says the same
            if not mine or [item.text for item in found] == [item.text for item in ours.was]:
                changes.append(ItemChange(name, None, UNMASKED if ours.mask is not None else LEFT))
            elif len(mine) < len(found):
                items = _without(items, mine)
                change = ItemChange(name, "remove", UNMASKED if ours.mask is not None else BESIDE)
                changes.append(change.showing(_texts(found), _texts(_found(items, name))))
            else:
                items = _restored(items, mine, ours.was)
                reason = UNMASKED if ours.mask is not None else RESTORED if ours.was else REMOVED
                change = ItemChange(name, "replace" if ours.was else "remove", reason)
                changes.append(change.showing(_texts(found), _texts(ours.was)))
    kept = ServiceEnvironment(entry.before, variables) if variables else None
    return MergedItems(_value(items, value, entry.before, kept), kept, tuple(changes))


def _made_anew(value: Value | None, entry: ServiceEnvironment, digest: Digest) -> bool:
    """Whether an entry speaks of a service that was deleted: one of its name was made again, or somebody wrote the value anew.

    The ledger knows services by their names. Of a service that is still the same, items of ours are left; or there was but
    one, which somebody changed, and all that others had there before is there.
    """
    if value is None:
        return True
    items = list(value.texts())
    ours = entry.variables.items()
    if any(_is_ours(item, name, variable, digest) for name, variable in ours for item in _found(items, name)):
        return False
    return len(ours) > 1 or _others(items) != _others(entry.before.value().texts() if entry.before else ())


def _is_ours(item: LedgerItem, name: str, ours: ServiceVariable, digest: Digest) -> bool:
    return digest(name, item.text) in (ours.set, ours.former)


def _found(items: list[str], name: str) -> tuple[LedgerItem, ...]:
    return tuple(LedgerItem(index, item) for index, item in enumerate(items) if _name(item) == name)


def _texts(found: Sequence[LedgerItem]) -> str | None:
    """The values that items of one name have."""
    return "; ".join(item.text.partition("=")[2] for item in found) if found else None


def _others(items: Iterable[str]) -> list[str]:
    return [item for item in items if _name(item) not in VARIABLES]


def _name(item: str) -> str:
    # the first character belongs to the name even when it is `=`: Windows has items such as `=C:=C:\`
    return (item[:1] + item[1:].split("=", 1)[0]).upper() if "=" in item[1:] else ""


def _put(items: list[str], found: Sequence[LedgerItem], was: Sequence[LedgerItem], text: str) -> list[str]:
    """`text` in the place of the first of `found`, the others gone; where there is none, in that of what it replaced once."""
    place = found[0].index if found else was[0].index if was else len(items)
    kept = _without(items, found)
    return [*kept[:place], text, *kept[place:]]


def _without(items: list[str], gone: Sequence[LedgerItem]) -> list[str]:
    taken = {item.index for item in gone}
    return [item for index, item in enumerate(items) if index not in taken]


def _set(
    name: str, found: Sequence[LedgerItem], mine: Sequence[LedgerItem], ours: ServiceVariable | None, *, masked: bool
) -> ItemChange:
    action: Action = "replace" if found else "add"
    if ours is None:
        return ItemChange(name, action, REPLACED if found else MASKED if masked else SETTINGS)
    return ItemChange(name, action, CHANGED if len(mine) == len(found) == 1 else DRIFT)


def _restored(items: list[str], mine: Sequence[LedgerItem], was: Sequence[LedgerItem]) -> list[str]:
    """What ours replaced in its place again, as far apart as it was: others may have put items before it since."""
    back = _without(items, mine)
    for item in sorted(was, key=lambda item: item.index):
        back.insert(min(mine[0].index + item.index - was[0].index, len(back)), item.text)
    return back


def _value(items: list[str], now: Value | None, before: FormerValue | None, entry: ServiceEnvironment | None) -> Value | None:
    """The value that holds `items`; once nothing of ours is left, byte for byte the one from before where the items agree.

    An empty value and none are the same to Windows: where there was none before, none is left.
    """
    if items == list(now.texts() if now else ()) and (now is None or items or entry is not None or before is not None):
        return now
    if entry is None and before is not None:
        was = before.value().texts()
        if sorted(items) == sorted(was) and _others(items) == _others(was):
            return before.value()
    if entry is None and before is None and not items:
        return None
    return multi_sz(items)


def is_ours(name: str, present: NamedValue | None, entry: MachineVariable, digest: Digest) -> bool:
    """Whether a variable of the machine is as it was set, or as it was before a change that was cut short."""
    value = present.value if present else None
    return value is not None and value.type == ValueType.SZ and digest(name, value.text()) in (entry.set, entry.former)


class MachineMerged(msgspec.Struct, frozen=True):
    """A machine variable after the merge: its value (None: none), the ledger's entry, the change; `name` as spelled there."""

    name: str
    value: Value | None
    entry: MachineVariable | None
    change: ItemChange | None


def merge_machine(
    name: str,
    present: NamedValue | None,
    wanted: str | None,
    *,
    entry: MachineVariable | None,
    digest: Digest,
    boot: int | None,
) -> MachineMerged:
    """One variable of the machine environment set to `wanted`, or (None) undone.

    What was there before comes back with its type (REG_EXPAND_SZ), its bytes and the spelling of its name.
    """
    spelled = present.name if present else name
    now = present.value if present else None
    untouched = entry is not None and is_ours(name, present, entry, digest)
    if wanted is not None:
        value = sz(wanted)
        if now == value:
            return MachineMerged(spelled, now, entry, None)
        was = entry.was if entry else (FormerValue.of(spelled, now) if now else None)
        known = CHANGED if untouched else DRIFT
        reason = known if entry else REPLACED if now else SETTINGS
        change = ItemChange(name, "replace" if now else "add", reason).showing(_shown(now), wanted)
        former = digest(name, now.text()) if now and untouched else entry.set if entry else ""
        booted = entry is not None and entry.is_had(boot)
        made = MachineVariable(digest(name, wanted), former, boot, was, booted=booted)
        return MachineMerged(spelled, value, made, change)
    if entry is None:
        return MachineMerged(spelled, now, None, None)
    if not untouched:
        return MachineMerged(spelled, now, None, ItemChange(name, None, LEFT))
    back = entry.was.value() if entry.was else None
    reason = RESTORED if back else REMOVED
    change = ItemChange(name, "replace" if back else "remove", reason).showing(_shown(now), _shown(back))
    return MachineMerged(entry.was.name if entry.was else spelled, back, None, change)


def _shown(value: Value | None) -> str | None:
    return value.text() if value is not None and value.type in (ValueType.SZ, ValueType.EXPAND_SZ) else None
