"""What is wrong with an object: findings, each with the file, the object, the field and the place of the value."""

import re
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

Severity = Literal["error", "warning"]
Path = tuple[str | int, ...]
"""The way to a field: names of keys and indices of lists (from 0)."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")


def format_field_path(path: Path) -> str:
    """Format a path for people: `spec.networks.serviceNetwork[0]`, `data[ca-bundle.crt]`."""
    text = ""
    for part in path:
        if isinstance(part, int) or not _PLAIN_KEY.match(part):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


class Excerpt(msgspec.Struct, frozen=True):
    """The offending line as it may be shown, and what of it is meant: characters `start` to `end` (from 0)."""

    text: str
    start: int
    end: int


class Finding(msgspec.Struct, frozen=True):
    """One error or warning. It contains no secret."""

    severity: Severity
    file: str
    """The original file name."""
    object: str
    """`Kind/name` or `Kind/namespace/name`; empty where a file does not parse."""
    field: str
    """As `format_field_path` writes it."""
    message: str
    line: int = 0
    """It and `column` count from 1; 0: no position."""
    column: int = 0
    excerpt: Excerpt | None = None


class Place(msgspec.Struct, frozen=True, eq=False):
    """Where an object was read: what its findings say about themselves.

    `locate` gives line and column (from 1) of the value at a path, or of the nearest one above it that exists.
    """

    file: str
    object: str
    locate: Callable[[Path], tuple[int, int]] = lambda _: (0, 0)

    def __repr__(self) -> str:
        return f"Place({self.object} in {self.file})"

    def build_error(
        self, path: Path, message: str, shown: str | None = None, span: tuple[int, int] | None = None, at: Path | None = None
    ) -> Finding:
        """Return an error at `path`; `shown` is the value, given only where it can hold no secret, `span` the part of it.

        `at` is the path of the place where that differs: a line within the value, a key that must not be shown.
        """
        return self._build_finding("error", path, message, shown, span, at)

    def build_warning(
        self, path: Path, message: str, shown: str | None = None, span: tuple[int, int] | None = None, at: Path | None = None
    ) -> Finding:
        """Return a warning at `path`; the others are as of an `error`."""
        return self._build_finding("warning", path, message, shown, span, at)

    def _build_finding(
        self,
        severity: Severity,
        path: Path,
        message: str,
        shown: str | None,
        span: tuple[int, int] | None,
        at: Path | None,
    ) -> Finding:
        line, column = self.locate(path if at is None else at)
        excerpt = _build_excerpt(path, shown, span) if shown is not None and line else None
        return Finding(severity, self.file, self.object, format_field_path(path), message, line, column, excerpt)


def has_errors(findings: Iterable[Finding]) -> bool:
    """Return True if one of the findings is an error."""
    return any(finding.severity == "error" for finding in findings)


_WIDTH = 100


def _build_excerpt(path: Path, shown: str, span: tuple[int, int] | None) -> Excerpt:
    start, end = span or (0, len(shown))
    first = 0 if end <= _WIDTH else max(0, start - _WIDTH // 3)
    cut = shown[first : first + _WIDTH]
    lead = "…" if first else ""
    key = f"{path[-1]}: " if isinstance(path[-1], str) else "- "
    offset = len(key) + len(lead) - first
    text = key + lead + cut + ("…" if first + _WIDTH < len(shown) else "")
    return Excerpt("".join(c if c.isprintable() else "·" for c in text), start + offset, min(end + offset, len(text)))
