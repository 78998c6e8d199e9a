"""The Windows registry: a part of it, what is in it (`values`, `names`), what changes it (`edits`), and `.reg` text (`reg`).

A `Registry` is immutable. Paths are spelled in full (`HKEY_LOCAL_MACHINE\\SOFTWARE\\Transom`), compared without case, and kept
in the spelling that the host had. A key is either read (its values are known) or only listed (`values is None`: it exists,
its content was not read).
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.values import Value

HKLM = "HKEY_LOCAL_MACHINE"


class NamedValue(msgspec.Struct, frozen=True):
    """A value with its name in the spelling of the host; the default value's name is the empty string."""

    name: str
    value: Value


class Key(msgspec.Struct, frozen=True):
    """A key: its full path in the host's spelling, and its values by name without case; None if they were not read."""

    path: str
    values: Mapping[str, NamedValue] | None

    def get(self, name: str) -> Value | None:
        """Return the value with that name, compared without case, or None."""
        named = (self.values or {}).get(name.casefold())
        return named.value if named else None

    def get_named_value(self, name: str) -> NamedValue | None:
        """Return a value with its name as the host spells it; None if the key has none of that name."""
        return (self.values or {}).get(name.casefold())


class Registry:
    """Keys by path, compared without case, in the order in which they were met."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys: Mapping[str, Key] = MappingProxyType({key.path.casefold(): key for key in keys})

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Registry) and dict(self._keys) == dict(other._keys)

    def __hash__(self) -> int:
        return hash(frozenset(self._keys))

    def __repr__(self) -> str:
        return f"Registry({len(self)} keys)"

    def find_key(self, path: str) -> Key | None:
        """Return the key at `path`, or None."""
        return self._keys.get(path.casefold())

    def find_value(self, path: str, name: str) -> Value | None:
        """Return the value `name` of the key at `path`, or None."""
        key = self.find_key(path)
        return key.get(name) if key else None

    def list_keys_below(self, path: str) -> tuple[Key, ...]:
        """Every key below `path`, at any depth, without `path` itself."""
        prefix = path.casefold() + "\\"
        return tuple(key for folded, key in self._keys.items() if folded.startswith(prefix))

    def list_children(self, path: str) -> tuple[str, ...]:
        """List the names of the keys directly below `path`, in the host's spelling."""
        start = len(path) + 1
        names = {
            key.path[start:].split("\\", 1)[0].casefold(): key.path[start:].split("\\", 1)[0]
            for key in self.list_keys_below(path)
        }
        return tuple(names.values())

    def merge_with(self, other: "Registry") -> "Registry":
        """Merge the keys of both. For a key in both, the one with read values is used; of two read ones, `other`'s."""
        return Registry.merge((self, other))

    @classmethod
    def merge(cls, parts: Iterable["Registry"]) -> "Registry":
        """Merge registries in their order."""
        keys: dict[str, Key] = {}
        for part in parts:
            for folded, key in part._keys.items():
                if folded not in keys or key.values is not None:
                    keys[folded] = key
        return cls(keys.values())

    def apply_edits(self, edits: Iterable[Edit]) -> "Registry":
        """Return the registry after `reg import` of these edits, in their order.

        An existing value keeps the spelling of its name (as observed in Wine and on Windows). A created key also creates
        its parents. A key that was only listed, and gets a value, stays unread except for what was set.
        """
        keys = dict(self._keys)
        for edit in edits:
            folded = edit.path.casefold()
            match edit:
                case DeleteKey():
                    for item in [k for k in keys if k == folded or k.startswith(folded + "\\")]:
                        del keys[item]
                case CreateKey():
                    _add_key_with_parents(keys, edit.path)
                case SetValue():
                    _add_key_with_parents(keys, edit.path)
                    values = dict(keys[folded].values or {})
                    present = values.get(edit.name.casefold())
                    values[edit.name.casefold()] = NamedValue(present.name if present else edit.name, edit.value)
                    keys[folded] = Key(keys[folded].path, MappingProxyType(values))
                case DeleteValue():
                    # regedit makes the key of a section even when the section only deletes
                    _add_key_with_parents(keys, edit.path)
                    values = dict(keys[folded].values or {})
                    values.pop(edit.name.casefold(), None)
                    keys[folded] = Key(keys[folded].path, MappingProxyType(values))
        return Registry(keys.values())


def _add_key_with_parents(keys: dict[str, Key], path: str) -> None:
    parts = path.split("\\")
    for depth in range(1, len(parts) + 1):
        prefix = "\\".join(parts[:depth])
        if prefix.casefold() not in keys:
            keys[prefix.casefold()] = Key(prefix, MappingProxyType({}))
