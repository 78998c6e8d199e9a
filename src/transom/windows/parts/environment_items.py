"""Transom's variables among those of others: in a service's own environment, and in the machine's.

Both ways are here, setting and exact undo, as pure functions. They take the actual, recorded and desired values,
and return the new values, the new ledger, and the changes with their reasons.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from transom.proxy.secret import redact_variable
from transom.proxy.settings import VARIABLES
from transom.windows.host.host_state import Action
from transom.windows.host.ledger_entries import FormerValue
from transom.windows.registry.registry import NamedValue
from transom.windows.registry.values import Value, ValueType, build_multi_sz, build_sz, format_type_name

Digest = Callable[[str, str], str]
"""The salted hash of a named value (`PlanBuilder.digest`)."""

SETTINGS = "set by the egress settings"
CHANGED = "the egress settings changed"
DRIFT = "drift: changed after Transom set it"
REPLACED = "replaces an existing value, which the ledger keeps"
REMOVED = "no longer in the egress settings"
RESTORED = f"{REMOVED}: the value from before is back"
BESIDE = f"{REMOVED}: items added by others stay"
LEFT = "changed after Transom set it: left unchanged"
MASKED = "hides a deleted machine variable until the next reboot"
UNMASKED = "the host has booted without the machine variable"


class MachineVariable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A variable in the machine environment: the hash of the value, the boot when it was set, the former value.

    `former` is the hash of our value at the time of the change: an interrupted import leaves it. `peer`: the previous
    operator of the host set it; it stays as long as its value equals that of the services. `booted`: the host has rebooted
    with an earlier value of Transom's, which services have until the next reboot. `gone`: it was removed in this boot, and
    services that have no item of their own still have it.
    """

    set: str
    former: str = ""
    boot: int | None = None
    was: FormerValue | None = None
    peer: bool = False
    booted: bool = False
    gone: int | None = None

    def is_inherited(self, boot: int | None) -> bool:
        """Return True if services may have inherited a value of Transom's from this boot."""
        return self.gone == boot if self.gone is not None else self.booted or self.boot != boot


class LedgerItem(msgspec.Struct, frozen=True, array_like=True):
    """A foreign item that Transom replaced, and its place in the list."""

    index: int
    text: str

    def __post_init__(self) -> None:
        if self.index < 0 or not self.text or "\0" in self.text:
            raise ValueError("no item of a REG_MULTI_SZ")

    def __repr__(self) -> str:
        return f"Item({self.index})"


class ServiceVariable(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item set in a service's own environment; `former` is the hash of Transom's item at that time.

    `mask` is the boot up to which the item only hides a variable of the machine environment that has been booted with.
    """

    set: str
    former: str = ""
    was: tuple[LedgerItem, ...] = ()
    mask: int | None = None


class ServiceEnvironment(msgspec.Struct, frozen=True):
    """A service's `Environment`: the whole value before Transom's first change (None: it did not exist), and the items."""

    before: FormerValue | None
    variables: dict[str, ServiceVariable]


class ItemChange(msgspec.Struct, frozen=True):
    """What happens to one variable; `action` None: only the ledger changes. `before` and `after` have no userinfo."""

    name: str
    action: Action | None
    reason: str
    before: str | None = None
    after: str | None = None

    def with_values(self, before: str | None, after: str | None) -> "ItemChange":
        """Return a copy with the values before and after, credentials redacted."""
        shown = [None if item is None else redact_variable(self.name, item) for item in (before, after)]
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


def find_type_fault(service: str, value: Value | None) -> str | None:
    """Return the error in an `Environment` value that is not REG_MULTI_SZ, which Windows ignores; None if valid."""
    if value is None or value.type == ValueType.MULTI_SZ:
        return None
    return (
        f"{service}: its registry value Environment is {format_type_name(value.type)}; "
        "Windows reads REG_MULTI_SZ there: correct or delete the value"
    )


def merge_service_environment(
    value: Value | None, entry: ServiceEnvironment | None, wishes: dict[str, DesiredItems], digest: Digest
) -> MergedItems:
    """Merge the items of `wishes` into a service's `Environment`, and remove owned items that are not in them.

    `value` is a REG_MULTI_SZ (`find_type_fault`). Other items stay, in their order. A foreign item that already has the
    desired value stays foreign. For a service that was created again, nothing of the former one is restored.
    """
    items = list(value.to_texts()) if value else []
    if entry is None or _is_recreated_service(value, entry, digest):
        entry = ServiceEnvironment(FormerValue.from_value("Environment", value) if value else None, {})
    variables = dict(entry.variables)
    changes: list[ItemChange] = []
    for name in VARIABLES:
        wish, ours = wishes.get(name), variables.get(name)
        present_items = _find_items_by_name(items, name)
        mine = [item for item in present_items if ours is not None and _is_ours(item, name, ours, digest)]
        theirs = (
            ours.was
            if ours is not None and len(mine) == len(present_items)
            else [item for item in present_items if item not in mine]
        )
        # the service's own item hides the machine's variable
        if wish is not None and (wish.mask is None or not theirs):
            text = f"{name}={wish.value}"
            if [item.text for item in present_items] == [text]:
                if ours is not None:
                    known = digest(name, text) if mine else ours.set
                    variables[name] = msgspec.structs.replace(ours, set=known, mask=wish.mask)
                continue
            was = ours.was if ours else present_items
            items = _replace_items(items, present_items, was, text)
            # an import that is cut short leaves what is there now
            former = digest(name, mine[0].text) if mine else ours.set if ours else ""
            variables[name] = ServiceVariable(digest(name, text), former, was, wish.mask)
            change = _build_set_change(name, present_items, mine, ours, masked=wish.mask is not None)
            changes.append(change.with_values(_format_values(present_items), wish.value))
        elif ours is not None:
            del variables[name]
            # an import may have been cut short before ours was put in, of two items that were there and one that says the same
            if not mine or [item.text for item in present_items] == [item.text for item in ours.was]:
                changes.append(ItemChange(name, None, UNMASKED if ours.mask is not None else LEFT))
            elif len(mine) < len(present_items):
                items = _without_items(items, mine)
                change = ItemChange(name, "remove", UNMASKED if ours.mask is not None else BESIDE)
                changes.append(
                    change.with_values(_format_values(present_items), _format_values(_find_items_by_name(items, name)))
                )
            else:
                items = _restore_items(items, mine, ours.was)
                reason = UNMASKED if ours.mask is not None else RESTORED if ours.was else REMOVED
                change = ItemChange(name, "replace" if ours.was else "remove", reason)
                changes.append(change.with_values(_format_values(present_items), _format_values(ours.was)))
    kept = ServiceEnvironment(entry.before, variables) if variables else None
    return MergedItems(_build_value(items, value, entry.before, kept), kept, tuple(changes))


def _is_recreated_service(value: Value | None, entry: ServiceEnvironment, digest: Digest) -> bool:
    """Return True if an entry is of a deleted service: its name was reused, or its value was written again.

    The ledger identifies services by name. A service is still the same if items of Transom's remain; or if there was only one,
    which was changed, and all former items of others are present.
    """
    if value is None:
        return True
    items = list(value.to_texts())
    ours = entry.variables.items()
    if any(_is_ours(item, name, variable, digest) for name, variable in ours for item in _find_items_by_name(items, name)):
        return False
    return len(ours) > 1 or _list_foreign_items(items) != _list_foreign_items(
        entry.before.to_value().to_texts() if entry.before else ()
    )


def _is_ours(item: LedgerItem, name: str, ours: ServiceVariable, digest: Digest) -> bool:
    return digest(name, item.text) in (ours.set, ours.former)


def _find_items_by_name(items: list[str], name: str) -> tuple[LedgerItem, ...]:
    return tuple(LedgerItem(index, item) for index, item in enumerate(items) if _parse_name(item) == name)


def _format_values(items: Sequence[LedgerItem]) -> str | None:
    """Format the values of items that have one name, or None."""
    return "; ".join(item.text.partition("=")[2] for item in items) if items else None


def _list_foreign_items(items: Iterable[str]) -> list[str]:
    return [item for item in items if _parse_name(item) not in VARIABLES]


def _parse_name(item: str) -> str:
    # the first character belongs to the name even when it is `=`: Windows has items such as `=C:=C:\`
    return (item[:1] + item[1:].split("=", 1)[0]).upper() if "=" in item[1:] else ""


def _replace_items(items: list[str], present_items: Sequence[LedgerItem], was: Sequence[LedgerItem], text: str) -> list[str]:
    """Return the items with `text` at the first of `present_items`, without the others; else where the former was."""
    place = present_items[0].index if present_items else was[0].index if was else len(items)
    kept = _without_items(items, present_items)
    return [*kept[:place], text, *kept[place:]]


def _without_items(items: list[str], removed_items: Sequence[LedgerItem]) -> list[str]:
    taken = {item.index for item in removed_items}
    return [item for index, item in enumerate(items) if index not in taken]


def _build_set_change(
    name: str, present_items: Sequence[LedgerItem], mine: Sequence[LedgerItem], ours: ServiceVariable | None, *, masked: bool
) -> ItemChange:
    action: Action = "replace" if present_items else "add"
    if ours is None:
        return ItemChange(name, action, REPLACED if present_items else MASKED if masked else SETTINGS)
    if len(mine) != 1 or len(present_items) != 1:
        return ItemChange(name, action, DRIFT)
    return ItemChange(name, action, MASKED if masked and ours.mask is None else CHANGED)


def _restore_items(items: list[str], mine: Sequence[LedgerItem], was: Sequence[LedgerItem]) -> list[str]:
    """Restore what our items replaced, at the same distances: others may have inserted items before it since."""
    back = _without_items(items, mine)
    for item in sorted(was, key=lambda item: item.index):
        back.insert(min(mine[0].index + item.index - was[0].index, len(back)), item.text)
    return back


def _build_value(
    items: list[str], now: Value | None, before: FormerValue | None, entry: ServiceEnvironment | None
) -> Value | None:
    """Build the value with `items`; if none is owned and they match the former value, return its exact bytes.

    An empty value and a missing value are the same to Windows: if there was none before, none is left.
    """
    if items == list(now.to_texts() if now else ()) and (now is None or items or entry is not None or before is not None):
        return now
    if entry is None and before is not None:
        was = before.to_value().to_texts()
        if sorted(items) == sorted(was) and _list_foreign_items(items) == _list_foreign_items(was):
            return before.to_value()
    if entry is None and before is None and not items:
        return None
    return build_multi_sz(items)


def is_ours(name: str, present: NamedValue | None, entry: MachineVariable, digest: Digest) -> bool:
    """Return True if a machine variable has the value that Transom set, before or after an interrupted change."""
    value = present.value if present else None
    return value is not None and value.type == ValueType.SZ and digest(name, value.decode_text()) in (entry.set, entry.former)


class MergedVariable(msgspec.Struct, frozen=True):
    """A machine variable after the merge: its value (None: none), the ledger's entry, the change; `name` as spelled there."""

    name: str
    value: Value | None
    entry: MachineVariable | None
    change: ItemChange | None


def merge_machine_variable(
    name: str,
    present: NamedValue | None,
    wanted: str | None,
    *,
    entry: MachineVariable | None,
    digest: Digest,
    boot: int | None,
) -> MergedVariable:
    """One variable of the machine environment set to `wanted`, or (None) undone.

    The former value is restored with its type (REG_EXPAND_SZ), its bytes and the spelling of its name.
    """
    spelled = present.name if present else name
    now = present.value if present else None
    untouched = entry is not None and is_ours(name, present, entry, digest)
    if wanted is not None:
        value = build_sz(wanted)
        if now == value:
            return MergedVariable(spelled, now, entry, None)
        was = entry.was if entry else (FormerValue.from_value(spelled, now) if now else None)
        known = CHANGED if untouched else DRIFT
        reason = known if entry else REPLACED if now else SETTINGS
        change = ItemChange(name, "replace" if now else "add", reason).with_values(_read_string(now), wanted)
        former = digest(name, now.decode_text()) if now and untouched else entry.set if entry else ""
        booted = entry is not None and entry.is_inherited(boot)
        made = MachineVariable(digest(name, wanted), former, boot, was, booted=booted)
        return MergedVariable(spelled, value, made, change)
    if entry is None:
        return MergedVariable(spelled, now, None, None)
    if not untouched:
        return MergedVariable(spelled, now, None, ItemChange(name, None, LEFT))
    back = entry.was.to_value() if entry.was else None
    reason = RESTORED if back else REMOVED
    change = ItemChange(name, "replace" if back else "remove", reason).with_values(_read_string(now), _read_string(back))
    return MergedVariable(entry.was.name if entry.was else spelled, back, None, change)


def _read_string(value: Value | None) -> str | None:
    return value.decode_text() if value is not None and value.type in (ValueType.SZ, ValueType.EXPAND_SZ) else None
