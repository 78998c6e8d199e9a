"""Annotations of Lease/transom, which the leader writes every two seconds."""

from typing import Final

REFUSED_WRITES: Final = "transom.dev/refused-writes"
"""What the API server refuses to the leader, which may be unable to write a status or an event about it."""
