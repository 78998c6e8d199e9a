"""What is logged of kinds that cannot be followed: nothing of a restart, one line of an outage, each missing right."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.kube.virtual_time import run

from transom.kube.errors import ApiError, ConnectionFailed, StatusError
from transom.kube.watch_failures import WatchFailures

KINDS = [f"Kind{number}" for number in range(30)]
DOWN = ConnectionFailed("no answer")
STARTING = StatusError(503, "ServiceUnavailable", "the server is starting")
FORBIDDEN = StatusError(403, "Forbidden", "secrets is forbidden")


def lines(error: ApiError, kinds: Iterable[str], seconds: int) -> list[tuple[str, str, Any]]:
    """Return level, event and kinds of the lines above debug, of kinds that fail every 5 s for a time and then work."""

    async def fail() -> None:
        failures = WatchFailures()
        for _ in range(0, seconds, 5):
            for kind in kinds:
                failures.note_failure(kind, error, 5)
            await asyncio.sleep(5)
        for kind in kinds:
            failures.note_success(kind)

    with capture_logs() as logs:
        run(fail())
    return [(log["log_level"], log["event"], log.get("kinds")) for log in logs if log["log_level"] != "debug"]


@pytest.mark.parametrize(
    ("error", "kinds", "seconds", "expected"),
    [
        pytest.param(DOWN, KINDS, 25, [], id="restart"),
        pytest.param(STARTING, KINDS, 25, [], id="start"),
        pytest.param(FORBIDDEN, KINDS, 10, [], id="roles not read yet"),
        pytest.param(DOWN, KINDS, 120, [("warning", "cannot follow"), ("info", "followed again")], id="outage"),
        pytest.param(STARTING, KINDS, 120, [("warning", "cannot follow"), ("info", "followed again")], id="slow start"),
        pytest.param(DOWN, KINDS, 400, [("warning", "cannot follow")] * 2 + [("info", "followed again")], id="long outage"),
        pytest.param(
            FORBIDDEN,
            KINDS[:2],
            120,
            [("warning", "cannot follow")] * 2 + [("info", "followed again")] * 2,
            id="rights",
        ),
    ],
)
def test_lines_that_somebody_acts_on(error: ApiError, kinds: list[str], seconds: int, expected: list[tuple[str, str]]) -> None:
    logged = lines(error, kinds, seconds)
    assert [(level, event) for level, event, _ in logged] == expected


def test_a_missing_right_is_named_by_its_kind() -> None:
    assert [kinds for _, event, kinds in lines(FORBIDDEN, KINDS[:2], 60) if event == "cannot follow"] == [["Kind0"], ["Kind1"]]
