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


def format_type_name(type_: int) -> str:
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
        return f"Value({format_type_name(self.type)}, {len(self.data)} bytes)"

    def decode_text(self) -> str:
        """Return a REG_SZ or REG_EXPAND_SZ as a string, up to its terminator.

        Lone surrogates are kept (`surrogatepass`).
        """
        return _decode(self.data).split("\0", 1)[0]

    def to_texts(self) -> tuple[str, ...]:
        """Return a REG_MULTI_SZ as its items, without the empty string that ends the list and all after it."""
        items: list[str] = []
        for item in _decode(self.data).split("\0"):
            if not item:
                break
            items.append(item)
        return tuple(items)

    def to_number(self) -> int:
        """Return a REG_DWORD or REG_QWORD as a number."""
        return int.from_bytes(self.data, "big" if self.type == ValueType.DWORD_BIG_ENDIAN else "little")


def _decode(data: bytes) -> str:
    return data[: len(data) & ~1].decode("utf-16-le", "surrogatepass")


def _encode(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def build_sz(text: str) -> Value:
    """Build a REG_SZ. Raises ValueError for a NUL."""
    return Value(ValueType.SZ, _encode(_without_nul(text) + "\0"))


def build_expand_sz(text: str) -> Value:
    """Build a REG_EXPAND_SZ."""
    return Value(ValueType.EXPAND_SZ, _encode(_without_nul(text) + "\0"))


def build_multi_sz(items: Iterable[str]) -> Value:
    """Build a REG_MULTI_SZ. Raises ValueError for an empty item, which would end the list."""
    kept = [_without_nul(item) for item in items]
    if not all(kept):
        raise ValueError("an empty item would end a REG_MULTI_SZ")
    return Value(ValueType.MULTI_SZ, _encode("".join(item + "\0" for item in kept) + "\0"))


def build_dword(number: int) -> Value:
    """Build a REG_DWORD, 0 to 2**32 - 1."""
    return Value(ValueType.DWORD, number.to_bytes(4, "little"))


def build_binary(data: bytes) -> Value:
    """Build a REG_BINARY."""
    return Value(ValueType.BINARY, data)


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a NUL cannot be held in a registry string")
    return text
