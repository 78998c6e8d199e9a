"""Label selectors as `kubectl -l` takes them: `env=prod,tier!=db,zone in (a, b),!old`.

The grammar is that of apimachinery (k8s.io/apimachinery, pkg/labels/selector.go, `Parse`), without `>` and `<`.
"""

import re
from collections.abc import Iterator
from typing import Final

from transom.proxy.objects import LabelSelector, Requirement

_PART: Final = re.compile(r"(?:[^,(]|\([^)]*\))+")
_KEY: Final = r"(?P<key>[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?)"
_VALUE: Final = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|"
_EQUAL: Final = re.compile(rf"{_KEY}\s*(?P<sign>==?|!=)\s*(?P<value>{_VALUE})")
_AMONG: Final = re.compile(rf"{_KEY}\s+(?P<word>in|notin)\s*\((?P<values>[^)]*)\)")
_EXISTS: Final = re.compile(rf"(?P<no>!?)\s*{_KEY}")


class InvalidSelector(ValueError):
    """The text is no selector."""


def selector(text: str) -> LabelSelector:
    """The selector that a text says; an empty one selects everything. Raises InvalidSelector."""
    return LabelSelector(match_expressions=tuple(_requirements(text)))


def _requirements(text: str) -> Iterator[Requirement]:
    for part in map(str.strip, _PART.findall(text)):
        if found := _EQUAL.fullmatch(part):
            yield Requirement(found["key"], "NotIn" if found["sign"] == "!=" else "In", (found["value"],))
        elif found := _AMONG.fullmatch(part):
            values = tuple(value.strip() for value in found["values"].split(","))
            yield Requirement(found["key"], "In" if found["word"] == "in" else "NotIn", values)
        elif found := _EXISTS.fullmatch(part):
            yield Requirement(found["key"], "DoesNotExist" if found["no"] else "Exists")
        else:
            raise InvalidSelector(f"{part!r} is none; for example env=prod, env!=prod, 'env in (prod, test)', env or '!env'")
