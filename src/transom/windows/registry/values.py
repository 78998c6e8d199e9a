"""Values of the registry: their types, and their bytes as the registry holds them."""

import enum
from collections.abc import Iterable

import msgspec


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
