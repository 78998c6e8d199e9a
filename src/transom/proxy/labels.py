"""Labels and selectors as an API server takes them, and as `kubectl -l` does: `env=prod,tier!=db,zone in (a, b),!old`.

k8s.io/apimachinery: pkg/util/validation (IsQualifiedName, IsValidLabelValue) and pkg/apis/meta/v1/validation
(ValidateLabelSelector); for texts pkg/labels/selector.go (`Parse`), without its `>` and `<`.
"""

import re
from collections.abc import Iterator
from typing import Final

from transom.proxy.finding import Finding, Path, Place
from transom.proxy.objects import LabelSelector, Requirement
from transom.shown import NAME, shown_key

_LONGEST: Final = 63
_PART: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_IS_NO_KEY: Final = (
    f"is no label's key: at most {_LONGEST} letters, digits, `-`, `_` and `.`, the first and last a letter or a digit, "
    "after a DNS name and `/` where it has one"
)
_IS_NO_VALUE: Final = (
    f"is no label's value: at most {_LONGEST} letters, digits, `-`, `_` and `.`, the first and last a letter or a digit"
)
_TERM: Final = re.compile(r"(?:[^,(]|\([^)]*\))+")
_NAMED: Final = r"(?P<key>[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?)"
_VALUE: Final = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|"
_EQUAL: Final = re.compile(rf"{_NAMED}\s*(?P<sign>==?|!=)\s*(?P<value>{_VALUE})")
_AMONG: Final = re.compile(rf"{_NAMED}\s+(?P<word>in|notin)\s*\((?P<values>[^)]*)\)")
_EXISTS: Final = re.compile(rf"(?P<no>!?)\s*{_NAMED}")


def is_key(text: str) -> bool:
    """Whether a label may have this key: a name, with a DNS name and `/` before it or without."""
    prefix, slash, name = text.rpartition("/")
    return _is_part(name) and (not slash or bool(NAME.match(prefix)))


def is_value(text: str) -> bool:
    """Whether a label may have this value; it may be empty."""
    return not text or _is_part(text)


def _is_part(text: str) -> bool:
    return len(text) <= _LONGEST and _PART.fullmatch(text) is not None


def examine(selector: LabelSelector, place: Place, path: Path) -> Iterator[Finding]:
    """What an API server would not take of a selector at a path of its object."""
    for key, value in selector.match_labels.items():
        at: Path = (*path, "matchLabels", *([key] if shown_key(key) == key else []))
        if not is_key(key):
            yield place.error(at, _IS_NO_KEY)
        elif not is_value(value):
            yield place.error(at, _IS_NO_VALUE)
    for index, requirement in enumerate(selector.match_expressions):
        at = (*path, "matchExpressions", index)
        if not requirement.key:
            yield place.error((*at, "key"), "is missing")
        elif not is_key(requirement.key):
            yield place.error((*at, "key"), _IS_NO_KEY)
        needs = requirement.operator in ("In", "NotIn")
        if needs != bool(requirement.values):
            must = "not be empty" if needs else "be empty"
            yield place.error((*at, "values"), f"must {must} with {requirement.operator}")
        for number, value in enumerate(requirement.values):
            if not is_value(value):
                yield place.error((*at, "values", number), _IS_NO_VALUE)


class InvalidSelector(ValueError):
    """The text is no selector."""


def selector(text: str) -> LabelSelector:
    """The selector that a text says; an empty one selects everything. Raises InvalidSelector."""
    return LabelSelector(match_expressions=tuple(_requirements(text)))


def _requirements(text: str) -> Iterator[Requirement]:
    for part in map(str.strip, _TERM.findall(text)):
        if found := _EQUAL.fullmatch(part):
            yield Requirement(found["key"], "NotIn" if found["sign"] == "!=" else "In", (found["value"],))
        elif found := _AMONG.fullmatch(part):
            values = tuple(value.strip() for value in found["values"].split(","))
            yield Requirement(found["key"], "In" if found["word"] == "in" else "NotIn", values)
        elif found := _EXISTS.fullmatch(part):
            yield Requirement(found["key"], "DoesNotExist" if found["no"] else "Exists")
        else:
            raise InvalidSelector(f"{part!r} is none; for example env=prod, env!=prod, 'env in (prod, test)', env or '!env'")
