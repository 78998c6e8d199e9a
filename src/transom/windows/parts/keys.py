"""The registry keys that Transom made: they go once nothing is in them."""

from collections.abc import Iterator

from transom.windows.host.entries import names
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry import Registry
from transom.windows.registry.edits import DeleteKey, SetValue
from transom.windows.registry.names import each_once, within
from transom.windows.registry.values import sz

KEYS = LEDGER + r"\Keys"


def read(registry: Registry) -> tuple[str, ...]:
    """Their full paths."""
    return tuple(names(registry.key(KEYS)))


def lines(entry: tuple[str, ...]) -> Iterator[SetValue]:
    """A value for each, named by its path."""
    yield from (SetValue(KEYS, path, sz("")) for path in entry)


def more(entry: tuple[str, ...], draft: PlanBuilder) -> Queries:
    """All that is in those that nothing is wished for in: somebody else may have put a value there."""
    return Queries(keys=tuple(path for path in entry if not draft.desired.registry.below(path)))


def plan(entry: tuple[str, ...], draft: PlanBuilder) -> tuple[str, ...]:
    """Takes away those that are empty, those below first."""
    left = list(each_once((*entry, *draft.made_keys)))
    if not left:
        return ()
    after = draft.actual.registry.apply(draft.edits)
    for path in sorted(left, key=len, reverse=True):
        if any(within(used, path) for used in draft.used_keys):
            continue
        left.remove(path)
        key = after.key(path)
        # of one that was only listed nobody knows what is in it
        if key is not None and key.values is not None and not key.values and not after.below(path):
            draft.edits.append(DeleteKey(path))
            after = after.apply([DeleteKey(path)])
    return tuple(left)
