"""Plain values (from YAML or from an API server) to typed structs, with a finding for every error."""

import functools
import types
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from transom.common.escaping import escape_key
from transom.proxy.finding import Finding, Path, Place
from transom.proxy.secret import REDACTED, Secret

_JOINED: Final = frozenset(("noProxy",))
"""Fields whose items share one string."""
INVALID: Final = object()
"""The result of `Decoder.read` for an invalid value; a finding has the reason."""


INVISIBLE: Final = "\u00a0\u2007\u202f\u3000\u200b\ufeff"
NO_BREAK_SPACE: Final = "the line has a no-break space, or another character that is not seen: indent with ordinary spaces"


class Decoder:
    """Reads values of one object. `strict` makes an unknown field an error; of foreign objects only a part is read."""

    def __init__(self, place: Place, findings: list[Finding], *, strict: bool) -> None:
        self._place = place
        self._findings = findings
        self._strict = strict

    def read(self, value: Any, type_: Any, path: Path) -> Any:
        """`value` as `type_`: a Struct, str, Secret, int, bool, Literal, tuple[T, ...], dict[str, str], or one or None."""
        type_, origin = _get_shape(type_)
        if origin is Literal:
            choices = get_args(type_)
            return value if value in choices else self._report_invalid(path, f"must be {format_choices(choices)}")
        if origin is tuple:
            return self._decode_items(value, get_args(type_)[0], path)
        if origin is dict:
            return self._decode_strings(value, path)
        if type_ is str or type_ is Secret:
            text = self._decode_string(value, path)
            return Secret(text) if type_ is Secret and text is not INVALID else text
        if type_ is int:
            fits = isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31
            hint = ", without quotes" if isinstance(value, str) and value.strip().isdecimal() else ""
            return value if fits else self._report_invalid(path, f"must be a whole number{hint}")
        if type_ is bool:
            return value if isinstance(value, bool) else self._report_invalid(path, "must be true or false")
        return self.decode_struct(value, type_, path)

    def decode_struct(self, value: Any, type_: Any, path: Path) -> Any:
        """Decode a mapping as a struct; an invalid field keeps its default."""
        known = _get_fields(type_)
        if not isinstance(value, dict):
            alone = next(iter(known)) if len(known) == 1 else ""
            hint = f": write `{path[-1]}: {{{alone}: …}}`" if alone and path and isinstance(value, str) else ""
            return self._report_invalid(path, f"must be a mapping of fields{hint}")
        read: dict[str, Any] = {}
        for key, item in value.items():
            field = known.get(key)
            if field is None:
                if self._strict:
                    self._report_unknown(path, key, known)
            elif item is not None:
                result = self.read(item, field[1], (*path, key))
                if result is not INVALID:
                    read[field[0]] = result
        return type_(**read)

    def _decode_string(self, value: Any, path: Path) -> Any:
        if not isinstance(value, str):
            if isinstance(value, list) and path[-1] in _JOINED:
                return self._report_invalid(path, "must be a comma-separated string, not a list: `.corp.example,10.0.0.0/8`")
            if isinstance(value, dict | list):
                return self._report_invalid(path, f"must be a string, not a {'list' if isinstance(value, list) else 'mapping'}")
            return self._report_invalid(path, "must be a string: put it in quotes")
        if "\0" in value:
            return self._report_invalid(path, "must not have a NUL character")
        return value

    def _decode_items(self, value: Any, type_: Any, path: Path) -> Any:
        if not isinstance(value, list):
            hint = ": write each item on a line of its own, behind `- `" if isinstance(value, str) else ""
            return self._report_invalid(path, f"must be a list{hint}")
        read = (self.read(item, type_, (*path, index)) for index, item in enumerate(value))
        return tuple(item for item in read if item is not INVALID)

    def _decode_strings(self, value: Any, path: Path) -> Any:
        if not isinstance(value, dict):
            return self._report_invalid(path, "must be a mapping of names to strings")
        read = {key: self._decode_string(item, (*path, escape_key(key))) for key, item in value.items() if item is not None}
        return {key: item for key, item in read.items() if item is not INVALID}

    def _report_unknown(self, path: Path, key: str, known: dict[str, Any]) -> None:
        from difflib import get_close_matches

        if any(item in key for item in INVISIBLE):
            self._findings.append(self._place.build_error((*path, escape_key(key)), NO_BREAK_SPACE, REDACTED, at=(*path, key)))
            return
        spelled = {name.casefold().replace("_", ""): name for name in known}
        close = get_close_matches(key[:64], known, 1) or get_close_matches(key[:64].casefold().replace("_", ""), spelled, 1)
        close = [spelled.get(name, name) for name in close]
        instead = f"did you mean `{close[0]}`?" if close else f"the fields are {', '.join(known)}"
        message = f"unknown field; {instead}"
        self._findings.append(self._place.build_error((*path, escape_key(key)), message, REDACTED, at=(*path, key)))

    def _report_invalid(self, path: Path, message: str) -> object:
        self._findings.append(self._place.build_error(path, message, REDACTED))
        return INVALID


@functools.cache
def _get_shape(type_: Any) -> tuple[Any, Any]:
    """Return a type without its None and its description, and its origin. Cached: thousands of values have few types."""
    origin = get_origin(type_)
    if origin is Annotated:
        return _get_shape(get_args(type_)[0])
    if origin not in (types.UnionType, Union):
        return type_, origin
    (member,) = (member for member in get_args(type_) if member is not types.NoneType)
    return member, get_origin(member)


@functools.cache
def _get_fields(type_: Any) -> dict[str, tuple[str, Any]]:
    return {field.encode_name: (field.name, field.type) for field in msgspec.structs.fields(type_)}


def format_choices(choices: tuple[str, ...]) -> str:
    """Format choices as `a, b or c`."""
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"
