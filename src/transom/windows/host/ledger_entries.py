"""Entries of the ledger: JSON in a REG_SZ, as ASCII, so that a person can read it in regedit and every text survives."""

import hmac
import json
from collections.abc import Iterator
from typing import Final, NoReturn, TypeVar

import msgspec

from transom.windows.registry.edits import SetValue
from transom.windows.registry.registry import Key, Registry
from transom.windows.registry.values import Value, ValueType, build_sz

_DIGITS = 10
"""Of a number in JSON."""
_T = TypeVar("_T")


class LedgerError(Exception):
    """The ledger on a host cannot be read; the message names the value. Nothing may be changed there then."""


class FormerValue(msgspec.Struct, frozen=True):
    """A registry value before Transom changed it, with all that is needed to restore it exactly."""

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
    def from_value(cls, name: str, value: Value) -> "FormerValue":
        """Return the current value of `name` as a FormerValue."""
        return cls(name, value.type, value.data.hex())

    def to_value(self) -> Value:
        """Return the registry value to restore."""
        return Value(self.type, bytes.fromhex(self.data))


def compute_value_digest(salt: bytes, name: str, value: str) -> str:
    """HMAC-SHA-256 of a named value under the host's salt, 32 hex digits: tells whether it is still the one that was set."""
    message = f"{name}\0{value}".encode("utf-8", "surrogatepass")
    return hmac.digest(salt, message, "sha256").hex()[:32]


def build_ledger_value(path: str, name: str, entry: object) -> SetValue:
    """Build the edit that writes a struct as the value `name` of a ledger key."""
    # msgspec writes UTF-8 and refuses lone surrogates, which a registry value may hold
    return SetValue(path, name, build_sz(_WRITER.encode(msgspec.to_builtins(entry))))


def read_entry(key: Key, name: str, type_: type[_T]) -> _T:
    """Read the entry stored under a name of a key. Raises LedgerError if it is not a valid entry."""
    try:
        return _decode_entry(key.get(name), type_)
    except ValueError:
        # the entry may hold the former value of a variable: nothing of it is quoted
        raise LedgerError(rf"{key.path}\{name or '(default)'}: not as Transom writes it") from None


def read_entries(registry: Registry, path: str, type_: type[_T]) -> dict[str, _T]:
    """Read the entries of a key by name, except the default value. Raises LedgerError."""
    key = registry.find_key(path)
    return {name: read_entry(key, name, type_) for name in iter_value_names(key) if name} if key else {}


def iter_value_names(key: Key | None) -> Iterator[str]:
    """Yield the names of a key's values, in the host's spelling."""
    yield from (named.name for named in (key.values or {}).values()) if key else ()


def _decode_entry(value: Value | None, type_: type[_T]) -> _T:
    if value is None or value.type != ValueType.SZ:
        raise ValueError("not a REG_SZ")
    try:
        return msgspec.convert(_READER.decode(value.decode_text()), type_)
    except (RecursionError, msgspec.ValidationError) as error:
        raise ValueError("not an entry") from error


def _parse_integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError("a number that Transom does not write")
    return int(digits)


def _refuse_json_constant(_: str) -> NoReturn:
    raise ValueError("a number that Transom does not write")


# json.dumps and json.loads make one anew with each call
_WRITER: Final = json.JSONEncoder(separators=(",", ":"))
_READER: Final = json.JSONDecoder(
    parse_int=_parse_integer, parse_float=_refuse_json_constant, parse_constant=_refuse_json_constant
)
