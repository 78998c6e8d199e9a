"""The Windows registry as values: a part of it, the names in it (`names`), and `.reg` text (`reg`).

A `Registry` is immutable. Paths are spelled in full (`HKEY_LOCAL_MACHINE\\SOFTWARE\\Transom`), compared without case, and kept
in the spelling that the host had. A key is either read (its values are known) or only listed (`values is None`: it exists,
nobody looked inside).
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import msgspec

HKLM = "HKEY_LOCAL_MACHINE"


class ValueType(enum.IntEnum):
    """Registry value types, as in winnt.h (Microsoft: "Registry value types")."""

    NONE = 0
    SZ = 1
    EXPAND_SZ = 2
    BINARY = 3
    DWORD = 4
    DWORD_BIG_ENDIAN = 5
    LINK = 6
    MULTI_SZ = 7
    RESOURCE_LIST = 8
    FULL_RESOURCE_DESCRIPTOR = 9
    RESOURCE_REQUIREMENTS_LIST = 10
    QWORD = 11


def type_name(type_: int) -> str:
    """`REG_SZ` and so on; `type 0x99` for a number that Windows gives no name."""
    try:
        return f"REG_{ValueType(type_).name}"
    except ValueError:
        return f"type {type_:#x}"


class Value(msgspec.Struct, frozen=True, eq=True, repr_omit_defaults=True):
    """One registry value: its type and its bytes as the registry holds them (strings in UTF-16LE with their terminator).

    The data may be a credential, so `repr` gives type and size alone.
    """

    type: int
    data: bytes

    def __repr__(self) -> str:
        return f"Value({type_name(self.type)}, {len(self.data)} bytes)"

    def text(self) -> str:
        """A REG_SZ or REG_EXPAND_SZ as text, up to its terminator; lone surrogates are kept (`surrogatepass`)."""
        return _decode(self.data).split("\0", 1)[0]

    def texts(self) -> tuple[str, ...]:
        """A REG_MULTI_SZ as its items; the empty string that ends the list, and what follows it, are left out."""
        items: list[str] = []
        for item in _decode(self.data).split("\0"):
            if not item:
                break
            items.append(item)
        return tuple(items)

    def number(self) -> int:
        """A REG_DWORD or REG_QWORD as a number."""
        return int.from_bytes(self.data, "big" if self.type == ValueType.DWORD_BIG_ENDIAN else "little")


def _decode(data: bytes) -> str:
    return data[: len(data) & ~1].decode("utf-16-le", "surrogatepass")


def _encode(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def sz(text: str) -> Value:
    """A REG_SZ. A NUL has no place in it and is a ValueError."""
    return Value(ValueType.SZ, _encode(_without_nul(text) + "\0"))


def expand_sz(text: str) -> Value:
    """A REG_EXPAND_SZ."""
    return Value(ValueType.EXPAND_SZ, _encode(_without_nul(text) + "\0"))


def multi_sz(items: Iterable[str]) -> Value:
    """A REG_MULTI_SZ; an empty item has no place in it (it would end the list) and is a ValueError."""
    kept = [_without_nul(item) for item in items]
    if not all(kept):
        raise ValueError("an empty item would end a REG_MULTI_SZ")
    return Value(ValueType.MULTI_SZ, _encode("".join(item + "\0" for item in kept) + "\0"))


def dword(number: int) -> Value:
    """A REG_DWORD, 0 to 2**32 - 1."""
    return Value(ValueType.DWORD, number.to_bytes(4, "little"))


def binary(data: bytes) -> Value:
    """A REG_BINARY."""
    return Value(ValueType.BINARY, data)


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a NUL cannot be held in a registry string")
    return text


class NamedValue(msgspec.Struct, frozen=True):
    """A value with its name in the spelling of the host; the default value's name is the empty string."""

    name: str
    value: Value


class Key(msgspec.Struct, frozen=True):
    """A key: its full path as the host spells it, and its values by name without case; None where nobody read them."""

    path: str
    values: Mapping[str, NamedValue] | None

    def get(self, name: str) -> Value | None:
        """The value of that name, compared without case."""
        named = (self.values or {}).get(name.casefold())
        return named.value if named else None

    def named(self, name: str) -> NamedValue | None:
        """The same with its name as the host spells it."""
        return (self.values or {}).get(name.casefold())


class SetValue(msgspec.Struct, frozen=True):
    """`"name"=…` under `[path]`: the key is made if it is not there."""

    path: str
    name: str
    value: Value


class DeleteValue(msgspec.Struct, frozen=True):
    """`"name"=-` under `[path]`."""

    path: str
    name: str


class CreateKey(msgspec.Struct, frozen=True):
    """`[path]` alone."""

    path: str


class DeleteKey(msgspec.Struct, frozen=True):
    """`[-path]`: the key with everything below it."""

    path: str


Edit = SetValue | DeleteValue | CreateKey | DeleteKey


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

    def key(self, path: str) -> Key | None:
        """The key at `path`, or None."""
        return self._keys.get(path.casefold())

    def value(self, path: str, name: str) -> Value | None:
        """The value `name` of the key at `path`, or None."""
        key = self.key(path)
        return key.get(name) if key else None

    def below(self, path: str) -> tuple[Key, ...]:
        """Every key below `path`, at any depth, without `path` itself."""
        prefix = path.casefold() + "\\"
        return tuple(key for folded, key in self._keys.items() if folded.startswith(prefix))

    def children(self, path: str) -> tuple[str, ...]:
        """The names of the keys right below `path`, in the host's spelling."""
        start = len(path) + 1
        names = {key.path[start:].split("\\", 1)[0].casefold(): key.path[start:].split("\\", 1)[0] for key in self.below(path)}
        return tuple(names.values())

    def merged(self, other: "Registry") -> "Registry":
        """The keys of both. Of a key that both know, the one whose values were read is taken; of two read ones, `other`'s."""
        return Registry.of((self, other))

    @classmethod
    def of(cls, parts: Iterable["Registry"]) -> "Registry":
        """All of them, merged in their order."""
        keys: dict[str, Key] = {}
        for part in parts:
            for folded, key in part._keys.items():
                if folded not in keys or key.values is not None:
                    keys[folded] = key
        return cls(keys.values())

    def apply(self, edits: Iterable[Edit]) -> "Registry":
        """What the registry is after `reg import` of these edits, in their order.

        An existing value keeps the spelling of its name (as seen in Wine and on Windows). A key that is made brings its parents
        with it. A key that was only listed, and gets a value, stays unread but for what was set.
        """
        keys = dict(self._keys)
        for edit in edits:
            folded = edit.path.casefold()
            match edit:
                case DeleteKey():
                    for gone in [k for k in keys if k == folded or k.startswith(folded + "\\")]:
                        del keys[gone]
                case CreateKey():
                    _create(keys, edit.path)
                case SetValue():
                    _create(keys, edit.path)
                    values = dict(keys[folded].values or {})
                    present = values.get(edit.name.casefold())
                    values[edit.name.casefold()] = NamedValue(present.name if present else edit.name, edit.value)
                    keys[folded] = Key(keys[folded].path, MappingProxyType(values))
                case DeleteValue():
                    # regedit makes the key of a section even when the section only deletes
                    _create(keys, edit.path)
                    values = dict(keys[folded].values or {})
                    values.pop(edit.name.casefold(), None)
                    keys[folded] = Key(keys[folded].path, MappingProxyType(values))
        return Registry(keys.values())


def _create(keys: dict[str, Key], path: str) -> None:
    parts = path.split("\\")
    for depth in range(1, len(parts) + 1):
        prefix = "\\".join(parts[:depth])
        if prefix.casefold() not in keys:
            keys[prefix.casefold()] = Key(prefix, MappingProxyType({}))
