"""The measured cases, and how well the profiles predict them."""

import hashlib
import json
from collections import Counter
from functools import cache
from pathlib import Path

from transom.proxy.clients.cases import decide_case, read_case

OBSERVED = Path(__file__).parent / "observed.jsonl"
OBSERVED_2 = OBSERVED.with_name("observed-2.jsonl")
"""Measured later: other clients, and versions between the first. `bypass` is null where the list makes a client fail."""


@cache
def rows() -> tuple[dict, ...]:
    return tuple(json.loads(line) for file in (OBSERVED, OBSERVED_2) for line in file.read_bytes().splitlines())


def is_held_out(row: dict) -> bool:
    """A fifth of the cases, drawn by hash: they were not looked at while the profiles were written."""
    key = json.dumps([row["client"], row.get("no_proxy"), row["url"], row.get("env"), row.get("syntax")], sort_keys=True)
    return hashlib.sha256(key.encode()).digest()[0] % 5 == 0


def predict(row: dict) -> bool | None:
    return decide_case(read_case(json.dumps(row).encode())[1]).bypass


def misses(cases: tuple[dict, ...]) -> list[dict]:
    return [row for row in cases if predict(row) is not row["bypass"]]


def share(cases: tuple[dict, ...]) -> float:
    """The share of cases predicted, in percent."""
    return 100 * (1 - len(misses(cases)) / len(cases))


def share_by_client(cases: tuple[dict, ...]) -> dict[str, float]:
    total = Counter(row["client"] for row in cases)
    missed = Counter(row["client"] for row in misses(cases))
    return {client: 100 * (1 - missed[client] / count) for client, count in total.items()}
