"""Labels and selectors as an API server takes them, and as `kubectl -l` does: `env=prod,tier!=db,zone in (a, b),!old`.

k8s.io/apimachinery: pkg/util/validation (IsQualifiedName, IsValidLabelValue) and pkg/apis/meta/v1/validation
(ValidateLabelSelector); for texts pkg/labels/selector.go (`Parse`), without its `>` and `<`.
"""

import re
from collections.abc import Iterator
from typing import Final

from transom.common.escaping import NAME, escape_key
from transom.proxy.finding import Finding, Path, Place
from transom.proxy.objects import LabelSelector, Requirement

_LONGEST: Final = 63
_PART: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_IS_NO_KEY: Final = (
    f"is not a valid label key: at most {_LONGEST} letters, digits, `-`, `_` and `.`, the first and last a letter or a digit, "
    "after a DNS name and `/` where it has one"
)
_IS_NO_VALUE: Final = (
    f"is not a valid label value: at most {_LONGEST} letters, digits, `-`, `_` and `.`, the first and last a letter or digit"
)
_TERM: Final = re.compile(r"(?:[^,(]|\([^)]*\))+")
_NAMED: Final = r"(?P<key>[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?)"
_VALUE: Final = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|"
_EQUAL: Final = re.compile(rf"{_NAMED}\s*(?P<sign>==?|!=)\s*(?P<value>{_VALUE})")
_AMONG: Final = re.compile(rf"{_NAMED}\s+(?P<word>in|notin)\s*\((?P<values>[^)]*)\)")
_EXISTS: Final = re.compile(rf"(?P<no>!?)\s*{_NAMED}")


def is_label_key(text: str) -> bool:
    """Return True if the string is a valid label key: a name, optionally after a DNS name and `/`."""
    prefix, slash, name = text.rpartition("/")
    return _is_label_part(name) and (not slash or bool(NAME.match(prefix)))


def is_label_value(text: str) -> bool:
    """Return True if the string is a valid label value; it may be empty."""
    return not text or _is_label_part(text)


def _is_label_part(text: str) -> bool:
    return len(text) <= _LONGEST and _PART.fullmatch(text) is not None


def examine_selector(selector: LabelSelector, place: Place, path: Path) -> Iterator[Finding]:
    """Yield what an API server would reject in a selector at a path of its object."""
    for key, value in selector.match_labels.items():
        at: Path = (*path, "matchLabels", *([key] if escape_key(key) == key else []))
        if not is_label_key(key):
            yield place.build_error(at, _IS_NO_KEY)
        elif not is_label_value(value):
            yield place.build_error(at, _IS_NO_VALUE)
    for index, requirement in enumerate(selector.match_expressions):
        at = (*path, "matchExpressions", index)
        if not requirement.key:
            yield place.build_error((*at, "key"), "is missing")
        elif not is_label_key(requirement.key):
            yield place.build_error((*at, "key"), _IS_NO_KEY)
        needs = requirement.operator in ("In", "NotIn")
        if needs != bool(requirement.values):
            must = "not be empty" if needs else "be empty"
            yield place.build_error((*at, "values"), f"must {must} with {requirement.operator}")
        for number, value in enumerate(requirement.values):
            if not is_label_value(value):
                yield place.build_error((*at, "values", number), _IS_NO_VALUE)


class InvalidSelector(ValueError):
    """The string is not a valid selector."""


def parse_selector(text: str) -> LabelSelector:
    """Parse a selector; an empty one selects everything. Raises InvalidSelector."""
    return LabelSelector(match_expressions=tuple(_iter_requirements(text)))


def _iter_requirements(text: str) -> Iterator[Requirement]:
    for part in map(str.strip, _TERM.findall(text)):
        if term_match := _EQUAL.fullmatch(part):
            yield Requirement(term_match["key"], "NotIn" if term_match["sign"] == "!=" else "In", (term_match["value"],))
        elif term_match := _AMONG.fullmatch(part):
            values = tuple(value.strip() for value in term_match["values"].split(","))
            yield Requirement(term_match["key"], "In" if term_match["word"] == "in" else "NotIn", values)
        elif term_match := _EXISTS.fullmatch(part):
            yield Requirement(term_match["key"], "DoesNotExist" if term_match["no"] else "Exists")
        else:
            raise InvalidSelector(f"{part!r} is none; for example env=prod, env!=prod, 'env in (prod, test)', env or '!env'")
