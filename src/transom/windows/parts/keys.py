"""The registry keys that Transom made: they go once nothing is in them."""

from collections.abc import Iterator

from transom.windows.host.ledger_entries import iter_value_names
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry.edits import DeleteKey, SetValue
from transom.windows.registry.names import is_within, remove_duplicates
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_sz

KEYS = LEDGER + r"\Keys"


def read(registry: Registry) -> tuple[str, ...]:
    """Their full paths."""
    return tuple(iter_value_names(registry.find_key(KEYS)))


def iter_ledger_values(entry: tuple[str, ...]) -> Iterator[SetValue]:
    """Yield a value for each key, named by its path."""
    yield from (SetValue(KEYS, path, build_sz("")) for path in entry)


def build_follow_up_queries(entry: tuple[str, ...], draft: PlanBuilder) -> Queries:
    """Query the content of keys without desired values: another program may have added a value."""
    return Queries(keys=tuple(path for path in entry if not draft.desired.registry.list_keys_below(path)))


def plan(entry: tuple[str, ...], draft: PlanBuilder) -> tuple[str, ...]:
    """Remove the empty keys, deepest first."""
    left = list(remove_duplicates((*entry, *draft.made_keys)))
    if not left:
        return ()
    after = draft.actual.registry.apply_edits(draft.edits)
    for path in sorted(left, key=len, reverse=True):
        if any(is_within(used, path) for used in draft.used_keys):
            continue
        left.remove(path)
        key = after.find_key(path)
        # the content of a key that was only listed is unknown
        if key is not None and key.values is not None and not key.values and not after.list_keys_below(path):
            draft.edits.append(DeleteKey(path))
            after = after.apply_edits([DeleteKey(path)])
    return tuple(left)
