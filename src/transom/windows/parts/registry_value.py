"""One registry value as a part of a host: set where the settings ask for it, and put back as it was. What such parts share.

A part of this kind says what the value is (`wish`) and how people read it; the rest is here.
"""

from collections.abc import Callable, Iterator

import msgspec

from transom.windows.host import Action, DesiredState, Step, entries
from transom.windows.host.entries import FormerValue
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry import NamedValue, Registry
from transom.windows.registry.edits import DeleteValue, Edit, SetValue
from transom.windows.registry.values import Value, ValueType


class OwnValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ledger's entry: the data that was set, in hex (there is no credential in it), and the value before.

    `former` is the data of ours that was there when it was set: an import that is cut short leaves it.
    """

    set: str
    former: str = ""
    was: FormerValue | None = None


class RegistryValue(msgspec.Struct, frozen=True):
    """A value in a key that each Windows has. Nobody is restarted for it: its readers ask for it again by themselves."""

    key: str
    name: str
    type: ValueType
    line: str
    """The value of the ledger's own key that is its entry."""
    target: str
    """What steps call it."""
    field: str
    """The field of the API that asks for it."""
    shown: Callable[[Value], str | None]
    """A value for people, without credentials; None where it has another shape."""

    def asks(self, desired: DesiredState, *, change_expected: bool) -> Queries:
        """The key, where the value is wished for."""
        return Queries(keys=(self.key,) if desired.registry.key(self.key) is not None else ())

    def more(self, entry: OwnValue | None, draft: PlanBuilder) -> Queries:
        """The key, where something of ours is in it."""
        return Queries(keys=(self.key,) if entry is not None else ())

    def read(self, registry: Registry) -> OwnValue | None:
        """The ledger's entry. Raises LedgerError."""
        key = registry.key(LEDGER)
        return entries.entry(key, self.line, OwnValue) if key is not None and key.get(self.line) is not None else None

    def lines(self, entry: OwnValue | None) -> Iterator[SetValue]:
        """The entry as a value."""
        if entry is not None:
            yield entries.line(LEDGER, self.line, entry)

    def plan(self, entry: OwnValue | None, draft: PlanBuilder) -> OwnValue | None:
        """Sets the value, or puts back what was there before."""
        wanted, key = draft.desired.registry.value(self.key, self.name), draft.actual.registry.key(self.key)
        entry, edits, step = merge(self, wanted, key.named(self.name) if key else None, entry)
        draft.edits += edits
        draft.steps += [step] if step else []
        return entry


def merge(
    of: RegistryValue, wanted: Value | None, present: NamedValue | None, entry: OwnValue | None
) -> tuple[OwnValue | None, tuple[Edit, ...], Step | None]:
    """The ledger's line, the edits and the step from what is on the host to what is wanted (None: nothing of ours).

    What a person changed since stays on removal.
    """
    ours = entry is not None and present is not None and _is_ours(of, present.value, entry)
    before = of.shown(present.value) if present else None
    if wanted is not None:
        now = wanted.data.hex()
        if entry is not None and present is not None and present.value == wanted:
            return msgspec.structs.replace(entry, set=now) if ours else entry, (), None
        was = entry.was if entry else FormerValue.of(present.name, present.value) if present else None
        if present is not None and present.value == wanted:
            return OwnValue(now, was=was), (), None
        former = present.value.data.hex() if present and ours else entry.set if entry else ""
        reason = of.field if entry is None or ours else "drift: somebody else changed it"
        action: Action = "replace" if present else "add"
        step = Step("windows", of.target, action, reason, before, of.shown(wanted))
        return OwnValue(now, former, was), (SetValue(of.key, of.name, wanted),), step
    if entry is None:
        return None, (), None
    if present is None or not ours:
        return None, (), Step("ledger", of.target, "remove", "somebody else changed it since: left as it is")
    reason = f"{of.field} is not set"
    if entry.was is None:
        return None, (DeleteValue(of.key, present.name),), Step("windows", of.target, "remove", reason, before)
    back = entry.was.value()
    step = Step("windows", of.target, "replace", reason, before, of.shown(back))
    return None, (SetValue(of.key, entry.was.name, back),), step


def _is_ours(of: RegistryValue, value: Value, entry: OwnValue) -> bool:
    return value.type == of.type and value.data.hex() in (entry.set, entry.former)
