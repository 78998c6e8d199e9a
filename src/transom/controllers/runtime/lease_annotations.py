"""Annotations of Lease/transom, which the leader writes every two seconds."""

from typing import Final

MISSING_RIGHTS: Final = "transom.dev/missing-rights"
"""What the leader's ServiceAccount may not do, separated by `; `: few users may ask the API server for rights of others."""
FAILED_READS: Final = "transom.dev/failed-reads"
"""The kinds that the leader cannot read, although it has the right."""
REFUSED_WRITES: Final = "transom.dev/refused-writes"
"""What the API server refuses to the leader, which may be unable to write a status or an event about it."""
