"""Lines of the log: none is longer than its bound, whatever is part of it."""

import json
import logging
import subprocess
import sys
from typing import Any

import pytest
import structlog
from tests.support.repository import ROOT

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


_WARNED = """
from tests.windows.hostile_requests import build_large
from transom.operations.logs import configure
from transom.windows.nodes.node_certificates import CertificateRequest, decide_approval
from transom.windows.nodes.windows_instance import SERVING

configure("json", "info")
for length in (70, 80, 90):
    pem = build_large(common_name="system:node:" + "x" * length)
    decide_approval(CertificateRequest(SERVING, "", (), (), pem), [], {})
"""


@pytest.mark.parametrize("options", [(), ("-W", "default")], ids=["as it is", "for developers"])
def test_what_a_library_warns_of_a_request_is_no_line_of_the_log(options: tuple[str, ...]) -> None:
    """cryptography warns of a long name in a certificate request, each time with another number of characters."""
    command = (sys.executable, *options, "-c", _WARNED)
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stderr
    assert ("UserWarning" in text) == bool(options)
    assert bool(text) == bool(options)
