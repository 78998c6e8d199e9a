"""Entries of the ledger: JSON in a REG_SZ, as ASCII, so that a person can read it in regedit and every text survives."""

import hmac
import json
from collections.abc import Iterator
from typing import Final, NoReturn, TypeVar

import msgspec

from transom.windows.registry import Key, Registry
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import Value, ValueType, sz

_DIGITS = 10
"""Of a number in JSON."""
_T = TypeVar("_T")


class LedgerError(Exception):
    """The ledger on a host cannot be read; the message names the value. Nothing may be changed there then."""


class FormerValue(msgspec.Struct, frozen=True):
    """A registry value as it was: enough to put it back exactly."""

    name: str
    type: int
    data: str

    def __post_init__(self) -> None:
        if not 0 <= self.type < 2**32:
            raise ValueError("no type of a registry value")
        bytes.fromhex(self.data)

    def __repr__(self) -> str:
        return f"Held({self.name!r}, type {self.type})"

    @classmethod
    def of(cls, name: str, value: Value) -> "FormerValue":
        """The value `name` as it is now."""
        return cls(name, value.type, value.data.hex())

    def value(self) -> Value:
        """The value to put back."""
        return Value(self.type, bytes.fromhex(self.data))


def digest(salt: bytes, name: str, value: str) -> str:
    """HMAC-SHA-256 of a named value under the host's salt, 32 hex digits: tells whether it is still the one that was set."""
    message = f"{name}\0{value}".encode("utf-8", "surrogatepass")
    return hmac.digest(salt, message, "sha256").hex()[:32]


def line(path: str, name: str, entry: object) -> SetValue:
    """The entry, which is a struct, as the value `name` of a key of the ledger."""
    # msgspec writes UTF-8 and refuses lone surrogates, which a registry value may hold
    return SetValue(path, name, sz(_WRITER.encode(msgspec.to_builtins(entry))))


def entry(key: Key, name: str, type_: type[_T]) -> _T:
    """The entry that a key has under a name. Raises LedgerError where it is none."""
    try:
        return _decoded(key.get(name), type_)
    except ValueError:
        # the entry may hold what somebody's variable was: nothing of it is quoted
        raise LedgerError(rf"{key.path}\{name or '(default)'}: not as Transom writes it") from None


def entries(registry: Registry, path: str, type_: type[_T]) -> dict[str, _T]:
    """The entries of a key by their names, without that of its default value. Raises LedgerError."""
    key = registry.key(path)
    return {name: entry(key, name, type_) for name in names(key) if name} if key else {}


def names(key: Key | None) -> Iterator[str]:
    """The names of a key's values, as they are spelled."""
    yield from (named.name for named in (key.values or {}).values()) if key else ()


def _decoded(value: Value | None, type_: type[_T]) -> _T:
    if value is None or value.type != ValueType.SZ:
        raise ValueError("not a REG_SZ")
    try:
        return msgspec.convert(_READER.decode(value.text()), type_)
    except (RecursionError, msgspec.ValidationError) as error:
        raise ValueError("not an entry") from error


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError("a number that Transom does not write")
    return int(digits)


def _refused(_: str) -> NoReturn:
    raise ValueError("a number that Transom does not write")


# json.dumps and json.loads make one anew with each call
_WRITER: Final = json.JSONEncoder(separators=(",", ":"))
_READER: Final = json.JSONDecoder(parse_int=_integer, parse_float=_refused, parse_constant=_refused)
