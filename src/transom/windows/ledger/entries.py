"""An entry of the ledger as a registry value: JSON in a REG_SZ, as ASCII."""

import json
from typing import Any, NoReturn, TypeVar

import msgspec

from transom.windows.registry.registry import Value, ValueType, sz

_DIGITS = 10
"""Of a number in JSON."""


def encoded(entry: object) -> Value:
    """The value of an entry, which is a struct."""
    # msgspec writes UTF-8 and refuses lone surrogates, which a registry value may hold
    return sz(json.dumps(msgspec.to_builtins(entry), separators=(",", ":")))


_T = TypeVar("_T")


def decoded(value: Value | None, type_: type[_T]) -> _T:
    """The entry in a value. Raises ValueError, which may quote it, where it is none."""
    if value is None or value.type != ValueType.SZ:
        raise ValueError("not a REG_SZ")
    try:
        return msgspec.convert(json.loads(value.text(), **_NUMBERS), type_)
    except (RecursionError, msgspec.ValidationError) as error:
        raise ValueError("not an entry") from error


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError("a number that Transom does not write")
    return int(digits)


def _refused(_: str) -> NoReturn:
    raise ValueError("a number that Transom does not write")


_NUMBERS: Any = {"parse_int": _integer, "parse_float": _refused, "parse_constant": _refused}
