"""JSON that is nested deeper than anything that Transom reads.

Kubernetes takes 10,000 levels (apimachinery `pkg/util/json/json.go`, `maxDepth`). A decoder in C raises RecursionError where
its stack ends, and so does every function that walks a value: at another depth in each version of Python. So how deep an object
is read is decided here, without recursion and the same everywhere: what lies deeper is left out.
"""

import re
from itertools import accumulate, count
from operator import sub
from typing import Final

MAX_LEVELS: Final = 200
"""Objects and lists within each other. The deepest that people write, schemas of definitions, have about 60."""
_BRACKETS: Final = b"{}[]"
_OPENING: Final = frozenset(b"{[")
_CLOSING: Final = frozenset(b"}]")
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_NO_MARKS: Final = _NO_BRACKETS.replace(b'"', b"")
_FEW: Final = 30
"""Levels that are counted by repeatedly removing the innermost: objects seldom have more."""
_ONE_KIND: Final = bytes.maketrans(b"[]", b"{}")
_STEPS: Final = bytes.maketrans(b"{}", b"\2\0")
"""A level more is 2 and a level less 0: bytes have no sign."""
_PART: Final = 1 << 16
_NO_VALUE_MARKS: Final = bytes(byte for byte in range(256) if byte not in b'{[,"')
_TOKEN: Final = re.compile(rb'"[^"]*"|[{}\[\]]')


def is_too_deep(data: bytes, levels: int = MAX_LEVELS) -> bool:
    """Return True if JSON data has more than `levels`; invalid JSON may give either. Time is linear in its length."""
    # most objects do not have so many opening brackets at all
    if data.count(b"{") + data.count(b"[") <= levels:
        return False
    plain = _without_escapes(data)
    # where no string has brackets, only pairs of quotes are between the brackets: the usual case, in a few steps of C
    brackets = plain.translate(_ONE_KIND, _NO_MARKS).replace(b'""', b"")
    if b'"' in brackets:
        brackets = b"".join(plain.split(b'"')[::2]).translate(_ONE_KIND, _NO_BRACKETS)
    left = brackets
    for _ in range(min(levels, _FEW)):
        left = left.replace(b"{}", b"")
        if not left:
            return False
    return max(map(sub, accumulate(brackets.translate(_STEPS)), count(1)), default=0) > levels


def has_more_values(data: bytes, limit: int) -> bool:
    """Return True if JSON data has more than `limit` objects, lists and commas outside strings.

    Parsing makes at most two values and keys more than that, however few bytes each has. Takes time and memory linear in
    the length, and copies nothing if the data has few.
    """
    # each of them is a byte, so short data needs no count
    if len(data) <= limit or data.count(b"{") + data.count(b"[") + data.count(b",") <= limit:
        return False
    marks = _without_escapes(data).translate(None, _NO_VALUE_MARKS)
    values, outside = 0, 0
    # in parts: all pieces at once would be objects of more bytes than the text has
    for start in range(0, len(marks), _PART):
        pieces = marks[start : start + _PART].split(b'"')
        values += sum(map(len, pieces[outside::2]))
        if values > limit:
            return True
        outside = (outside + len(pieces) - 1) % 2
    return False


def truncate_nesting(data: bytes, levels: int = MAX_LEVELS) -> bytes:
    """Replace each object and list deeper than `levels` in JSON data by `null`. Time is linear in its length.

    Invalid JSON stays invalid, except for what was in the removed parts.
    """
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(_without_escapes(data)):
        kind = data[token.start()]
        if kind in _OPENING:
            depth += 1
            if depth == levels + 1:
                kept.append(data[start : token.start()])
        elif kind in _CLOSING:
            if depth == levels + 1:
                start = token.end()
            depth -= 1
    if depth > levels:
        return b"null".join((*kept, b""))
    return b"null".join((*kept, data[start:]))


def _without_escapes(data: bytes) -> bytes:
    """Return data of the same length, in which each quote begins or ends a string."""
    if b"\\" not in data:
        return data
    # left to right, as a parser takes them: a backslash before a quote may be the second half of another escape
    return data.replace(b"\\\\", b"..").replace(b'\\"', b"..")
