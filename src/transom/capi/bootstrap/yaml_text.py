"""Render nested mappings of strings, and lists of mappings, as YAML in block style.

A string is plain where YAML 1.1 and 1.2 read it unchanged, else quoted.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

Tree = Mapping[str, "str | Tree | Sequence[Mapping[str, str]]"]

_STARTS_PLAIN: Final = re.compile(r"[A-Za-z0-9./(_~^$+;=<:\\-]")
_PRINTABLE: Final = re.compile(r"[\x21-\x7e]*\Z")
_OTHER_TYPE: Final = re.compile(
    r"""(?: ~ | null | true | false | yes | no | on | off | y | n | = | << | -+ | \.+
        | [-+]?[0-9._:,]+ (?: e[-+]?[0-9]+ )? | [-+]?0[xbo][0-9a-f_]+ | [-+]?\.(?:inf|nan)
        | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.* )\Z""",
    re.VERBOSE | re.IGNORECASE,
)
"""What a reader of YAML may take for a number, a date, a boolean, null or a marker (yaml.org/type, and YAML 1.2's core schema).

It is wider than necessary, except for an IPv4 address, which no reader takes for a number.
"""
_IPV4: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+\Z")


def render_yaml(tree: Tree) -> str:
    """Render YAML, ending with a line break; `{}` for an empty mapping. Branches without leaves are omitted."""
    return "".join(_iter_lines(tree, "")) or "{}\n"


def _iter_lines(tree: Tree, indent: str) -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, str):
            yield f"{indent}{key}: {format_scalar(value)}\n"
        elif isinstance(value, Mapping):
            if below := "".join(_iter_lines(value, indent + "  ")):
                yield f"{indent}{key}:\n{below}"
        elif value:
            yield f"{indent}{key}:\n"
            for item in value:
                first, *others = _iter_lines(item, indent + "  ")
                yield f"{indent}- {first.lstrip()}"
                yield from others


def format_scalar(text: str) -> str:
    """One text: plain, or in double quotes, with an escape for each character that is not printable ASCII."""
    plain = (
        _STARTS_PLAIN.match(text)
        and _PRINTABLE.match(text)
        and not text.endswith(":")
        and text[:2] not in ("- ", "? ", ": ")
        and (_IPV4.match(text) or not _OTHER_TYPE.match(text))
    )
    return text if plain else f'"{"".join(_escape(character) for character in text)}"'


def _escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    number = ord(character)
    if 0x20 <= number < 0x7F:
        return character
    return f"\\U{number:08x}"
