"""What docs/security.md promises is held by tests that it names, and that exist."""

import ast
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


def test_each_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE))
    assert len(named) > 30
    missing = []
    for file, function in sorted(named):
        path = ROOT / file
        tree = ast.parse(path.read_text("utf-8")) if path.is_file() else ast.Module([], [])
        tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        if not (function in tests if function else any(name.startswith("test_") for name in tests)):
            missing.append(f"{file}::{function}" if function else file)
    assert missing == []
