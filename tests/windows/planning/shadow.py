"""A registry that Transom has left, beside its shadow: the one that administrators alone have changed."""

from tests.windows.planning.histories import OURS

from transom.windows.host.queries import LEDGER
from transom.windows.registry.registry import Key, NamedValue, Registry
from transom.windows.registry.values import ValueType

_Shown = NamedValue | tuple[str, ...]


def compare(left: Registry, shadow: Registry, handled: set[str]) -> None:
    """Raises AssertionError where they differ but for the ledger.

    Of the services at the paths of `handled`, administrators have taken items out, or have changed Transom's own: there an
    empty environment is none, and where an item stands among those of other names says nothing.
    """
    found, wanted = _keys(left), _keys(shadow)
    assert sorted(found) == sorted(wanted), f"keys: {sorted(set(found) ^ set(wanted))}"
    folded = {path.casefold() for path in handled}
    for path, key in wanted.items():
        here, there = (_values(item, strict=path not in folded) for item in (found[path], key))
        assert here == there, f"{key.path}: {_shown(here)}, and without Transom {_shown(there)}"


def _keys(registry: Registry) -> dict[str, Key]:
    folded = LEDGER.casefold() + "\\"
    return {key.path.casefold(): key for key in registry if not (key.path.casefold() + "\\").startswith(folded)}


def _values(key: Key, *, strict: bool) -> dict[str, _Shown]:
    found: dict[str, _Shown] = {}
    for folded, named in (key.values or {}).items():
        if folded != "environment" or named.value.type != ValueType.MULTI_SZ:
            found[folded] = named
        elif items := named.value.to_texts():
            found[folded] = items if strict else tuple(sorted(items, key=_name))
        elif strict:
            found[folded] = ()
    return found


def _name(item: str) -> str:
    """Of an item that may be ours; the others come first, in their order."""
    name = item.partition("=")[0].upper()
    return name if name in OURS else ""


def _shown(values: dict[str, _Shown]) -> dict[str, object]:
    return {
        name: value if isinstance(value, tuple) else (value.name, value.value.type, value.value.data)
        for name, value in values.items()
    }
