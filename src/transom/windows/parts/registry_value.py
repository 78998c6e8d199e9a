"""One registry value as a part of a host: set if the settings require it, and restored later. The base of such parts.

A part of this kind says what the value is (`wish`) and how people read it; the rest is here.
"""

from collections.abc import Callable, Iterator

import msgspec

from transom.windows.host import ledger_entries
from transom.windows.host.host_state import Action, DesiredState, Step
from transom.windows.host.ledger_entries import FormerValue
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry.edits import DeleteValue, Edit, SetValue
from transom.windows.registry.registry import NamedValue, Registry
from transom.windows.registry.values import Value, ValueType


class OwnValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ledger's entry: the data that was set, in hex (without credentials), and the value before.

    `former` is our data at the time of the change: an interrupted import leaves it.
    """

    set: str
    former: str = ""
    was: FormerValue | None = None


class RegistryValue(msgspec.Struct, frozen=True):
    """A value in a key that every Windows has. It needs no restarts: its readers reread it automatically."""

    key: str
    name: str
    type: ValueType
    line: str
    """The value of the ledger's own key that is its entry."""
    target: str
    """What steps call it."""
    field: str
    """The API field that requires it."""
    shown: Callable[[Value], str | None]
    """A value for people, without credentials; None where it has another shape."""

    def build_initial_queries(self, desired: DesiredState, *, change_expected: bool) -> Queries:
        """Query the key if the value is desired."""
        return Queries(keys=(self.key,) if desired.registry.find_key(self.key) is not None else ())

    def build_follow_up_queries(self, entry: OwnValue | None, draft: PlanBuilder) -> Queries:
        """Query the key if it has a value that Transom set."""
        return Queries(keys=(self.key,) if entry is not None else ())

    def read(self, registry: Registry) -> OwnValue | None:
        """Read the ledger's entry. Raises LedgerError."""
        key = registry.find_key(LEDGER)
        return (
            ledger_entries.read_entry(key, self.line, OwnValue) if key is not None and key.get(self.line) is not None else None
        )

    def iter_ledger_values(self, entry: OwnValue | None) -> Iterator[SetValue]:
        """Yield the entry as a value."""
        if entry is not None:
            yield ledger_entries.build_ledger_value(LEDGER, self.line, entry)

    def plan(self, entry: OwnValue | None, draft: PlanBuilder) -> OwnValue | None:
        """Set the value, or restore the former one."""
        wanted, key = draft.desired.registry.find_value(self.key, self.name), draft.actual.registry.find_key(self.key)
        entry, edits, step = merge_value(self, wanted, key.get_named_value(self.name) if key else None, entry)
        draft.edits += edits
        draft.steps += [step] if step else []
        return entry


def merge_value(
    setting: RegistryValue, wanted: Value | None, present: NamedValue | None, entry: OwnValue | None
) -> tuple[OwnValue | None, tuple[Edit, ...], Step | None]:
    """Merge the wanted value (None: no value from Transom) into the present one; return the ledger's line, edits and step.

    A value that a person changed since is left on removal.
    """
    ours = entry is not None and present is not None and _is_ours(setting, present.value, entry)
    before = setting.shown(present.value) if present else None
    if wanted is not None:
        now = wanted.data.hex()
        if entry is not None and present is not None and present.value == wanted:
            return msgspec.structs.replace(entry, set=now) if ours else entry, (), None
        was = entry.was if entry else FormerValue.from_value(present.name, present.value) if present else None
        if present is not None and present.value == wanted:
            return OwnValue(now, was=was), (), None
        former = present.value.data.hex() if present and ours else entry.set if entry else ""
        reason = setting.field if entry is None or ours else "drift: changed after Transom set it"
        action: Action = "replace" if present else "add"
        step = Step("windows", setting.target, action, reason, before, setting.shown(wanted))
        return OwnValue(now, former, was), (SetValue(setting.key, setting.name, wanted),), step
    if entry is None:
        return None, (), None
    if present is None or not ours:
        return None, (), Step("ledger", setting.target, "remove", "changed after Transom set it: left unchanged")
    reason = f"{setting.field} is not set"
    if entry.was is None:
        return None, (DeleteValue(setting.key, present.name),), Step("windows", setting.target, "remove", reason, before)
    back = entry.was.to_value()
    step = Step("windows", setting.target, "replace", reason, before, setting.shown(back))
    return None, (SetValue(setting.key, entry.was.name, back),), step


def _is_ours(setting: RegistryValue, value: Value, entry: OwnValue) -> bool:
    return value.type == setting.type and value.data.hex() in (entry.set, entry.former)
