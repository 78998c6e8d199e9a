"""Lines of the log: none is longer than its bound, whatever is part of it."""

import json
import logging
import sys
from typing import Any

import pytest
import structlog

from transom.operations.logs import MAX_TEXT, LogFormat, configure

LONG = "x" * 3_000_000


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize(
    "value", [LONG, [LONG], {"a": LONG}, (LONG,), LONG.encode()], ids=["text", "list", "map", "tuple", "bytes"]
)
def test_a_long_value(form: LogFormat, value: Any, capsys: pytest.CaptureFixture[str]) -> None:
    configure(form, "info", lasting=False)
    structlog.get_logger("x").warning("it happened", field=value, other=5)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "it happened" in lines[0]
    assert "other" in lines[0]
    assert len(lines[0]) < 2 * MAX_TEXT


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_long_error(form: LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it was raised and how it ends can be read."""
    configure(form, "info", lasting=False)
    try:
        raise ValueError(f"begin {LONG} end")
    except ValueError:
        structlog.get_logger("x").exception("it failed")
    text = capsys.readouterr().err
    assert "test_a_long_error" in text
    assert "ValueError: begin" in text
    assert " end" in text
    assert len(text) < 2 * MAX_TEXT


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_long_line_of_a_library(form: LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    configure(form, "info", lasting=False)
    root = logging.getLogger()
    root.handlers[0].setStream(sys.stderr)  # type: ignore[attr-defined]
    logging.getLogger("library").warning("got %s", LONG)
    text = capsys.readouterr().err
    assert "got xx" in text
    assert len(text) < 2 * MAX_TEXT


def test_a_short_line_is_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json", "info", lasting=False)
    structlog.get_logger("x").info("it happened", items=["a", "b"], count=3)
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["items"], line["count"]) == ("it happened", ["a", "b"], 3)
