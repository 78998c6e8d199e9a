"""Numbers with their nouns, and long lists, in messages."""

from collections.abc import Iterable


def format_count(number: int, noun: str) -> str:
    """Return `1 error`, `2 errors`, `1,000 errors`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_first(items: Iterable[str], limit: int, separator: str = ", ") -> str:
    """Return `a, b and 3 more`: the first `limit` items, and the number of the others; empty if there is none."""
    listed = list(items)
    more = len(listed) - limit
    return separator.join(listed[:limit]) + (f" and {more:,} more" if more > 0 else "")
