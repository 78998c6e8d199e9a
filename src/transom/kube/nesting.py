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
"""Levels that are counted by taking away the innermost, again and again: objects seldom have more."""
_ONE_KIND: Final = bytes.maketrans(b"[]", b"{}")
_STEPS: Final = bytes.maketrans(b"{}", b"\2\0")
"""A level more is 2 and a level less 0: bytes have no sign."""
_TOKEN: Final = re.compile(rb'"[^"]*"|[{}\[\]]')


def too_deep(data: bytes, levels: int = MAX_LEVELS) -> bool:
    """Whether a JSON text has more than `levels`. What is no JSON may be called either. Takes time linear in its length."""
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


def shortened(data: bytes, levels: int = MAX_LEVELS) -> bytes:
    """A JSON text with `null` for each object and list that lies deeper than `levels`. Takes time linear in its length.

    What is no JSON stays none, but for what stood in the parts that are left out.
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
    """The same text, and each character where it was, in which a quote begins or ends a string."""
    if b"\\" not in data:
        return data
    # left to right, as a parser takes them: a backslash before a quote may be the second half of another escape
    return data.replace(b"\\\\", b"..").replace(b'\\"', b"..")
