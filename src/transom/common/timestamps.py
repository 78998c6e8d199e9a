"""RFC 3339 timestamps, as Kubernetes writes them."""

from datetime import datetime
from typing import Any


def format_timestamp(time: datetime) -> str:
    """Return a UTC time in whole seconds, as in `2026-11-22T10:00:05Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: Any) -> datetime | None:
    """Parse a time with its zone; return None for anything else."""
    try:
        time = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return time if time is not None and time.tzinfo is not None else None
