"""Plain values (from YAML or from an API server) to typed structs, with a finding for everything that does not fit."""

import functools
import types
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from transom.proxy.finding import Finding, Path, Place
from transom.proxy.secret import REDACTED, Secret
from transom.shown import shown_key

INVALID: Final = object()
"""What `Decoder.read` gives for a value that does not fit; a finding says why."""


class Decoder:
    """Reads values of one object. `strict` makes an unknown field an error; of foreign objects only a part is read."""

    def __init__(self, place: Place, findings: list[Finding], *, strict: bool) -> None:
        self._place = place
        self._findings = findings
        self._strict = strict

    def read(self, value: Any, type_: Any, path: Path) -> Any:
        """`value` as `type_`: a Struct, str, Secret, int, bool, Literal, tuple[T, ...], dict[str, str], or one or None."""
        type_, origin = _shape(type_)
        if origin is Literal:
            choices = get_args(type_)
            return value if value in choices else self._invalid(path, f"must be {either(choices)}")
        if origin is tuple:
            return self._items(value, get_args(type_)[0], path)
        if origin is dict:
            return self._texts(value, path)
        if type_ is str or type_ is Secret:
            text = self._text(value, path)
            return Secret(text) if type_ is Secret and text is not INVALID else text
        if type_ is int:
            fits = isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31
            return value if fits else self._invalid(path, "must be a whole number")
        if type_ is bool:
            return value if isinstance(value, bool) else self._invalid(path, "must be true or false")
        return self.struct(value, type_, path)

    def struct(self, value: Any, type_: Any, path: Path) -> Any:
        """A mapping as a struct; a field that does not fit is left at its default."""
        if not isinstance(value, dict):
            return self._invalid(path, "must be a mapping of fields")
        known = _fields(type_)
        read: dict[str, Any] = {}
        for key, given in value.items():
            field = known.get(key)
            if field is None:
                if self._strict:
                    self._unknown((*path, shown_key(key)), key, known)
            elif given is not None:
                result = self.read(given, field[1], (*path, key))
                if result is not INVALID:
                    read[field[0]] = result
        return type_(**read)

    def _text(self, value: Any, path: Path) -> Any:
        if not isinstance(value, str):
            if isinstance(value, dict | list):
                return self._invalid(path, "must be a text")
            return self._invalid(path, "must be a text: put it in quotes")
        if "\0" in value:
            return self._invalid(path, "must not have a NUL character")
        return value

    def _items(self, value: Any, type_: Any, path: Path) -> Any:
        if not isinstance(value, list):
            return self._invalid(path, "must be a list")
        read = (self.read(item, type_, (*path, index)) for index, item in enumerate(value))
        return tuple(item for item in read if item is not INVALID)

    def _texts(self, value: Any, path: Path) -> Any:
        if not isinstance(value, dict):
            return self._invalid(path, "must be a mapping of names to texts")
        read = {key: self._text(given, (*path, shown_key(key))) for key, given in value.items() if given is not None}
        return {key: given for key, given in read.items() if given is not INVALID}

    def _unknown(self, path: Path, key: str, known: dict[str, Any]) -> None:
        from difflib import get_close_matches

        close = get_close_matches(key[:64], known, 1)
        instead = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(known)}"
        self._findings.append(self._place.error(path, f"there is no such field; {instead}", REDACTED))

    def _invalid(self, path: Path, message: str) -> object:
        self._findings.append(self._place.error(path, message, REDACTED))
        return INVALID


@functools.cache
def _shape(type_: Any) -> tuple[Any, Any]:
    """A type without its None and its description, and what it is a form of: thousands of values have the same few types."""
    origin = get_origin(type_)
    if origin is Annotated:
        return _shape(get_args(type_)[0])
    if origin not in (types.UnionType, Union):
        return type_, origin
    (member,) = (member for member in get_args(type_) if member is not types.NoneType)
    return member, get_origin(member)


@functools.cache
def _fields(type_: Any) -> dict[str, tuple[str, Any]]:
    return {field.encode_name: (field.name, field.type) for field in msgspec.structs.fields(type_)}


def either(choices: tuple[str, ...]) -> str:
    """`a, b or c`."""
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"
