import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom.kube.backoff import Backoff


@pytest.mark.parametrize(
    ("failures", "drawn", "at_least", "seconds"),
    [
        (1, 0.0, None, 0.5),
        (1, 1.0, None, 1.0),
        (2, 1.0, None, 2.0),
        (5, 0.5, None, 12.0),
        (6, 1.0, None, 30.0),
        (100_000, 1.0, None, 30.0),
        (1, 0.5, 7.0, 7.05),
        (5, 1.0, 7.0, 16.0),
    ],
)
def test_waits(failures: int, drawn: float, at_least: float | None, seconds: float) -> None:
    assert Backoff(1.0, 30.0, lambda: drawn).compute_seconds(failures, at_least) == pytest.approx(seconds)


@given(st.integers(1, 10_000), st.none() | st.floats(0, 1000))
def test_a_wait_is_never_none_at_all_and_never_below_what_the_server_asks(failures: int, at_least: float | None) -> None:
    seconds = Backoff(1.0, 30.0).compute_seconds(failures, at_least)
    assert seconds >= max(0.5, at_least or 0)
    assert seconds <= max(30.0, (at_least or 0) + 3)
