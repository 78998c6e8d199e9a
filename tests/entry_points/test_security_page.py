"""What docs/security.md promises is held by tests that it names; `tests/manifests/test_rights.py` sees that they are there."""

import re
from collections.abc import Iterator

from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")


def iterate_promises() -> Iterator[str]:
    """Yield each row of the tables that have a column `shown by`."""
    lines = iter(PAGE.splitlines())
    for line in lines:
        if line.startswith("|") and line.rstrip(" |").endswith("shown by"):
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    break
                yield row


def test_each_promise_names_a_test() -> None:
    promises = list(iterate_promises())
    assert len(promises) > 20
    assert [row for row in promises if not re.search(r"`tests/[\w/]+\.py`", row.rstrip(" |").rpartition("|")[2])] == []
