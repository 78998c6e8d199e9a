"""What whoever worked in this process has logged."""

import pytest


def logged_no_password(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Whatever was done in a test, no password of it is in a log, nor in what was printed."""
    streams = capsys.readouterr()
    # for the report of a test that failed
    print(streams.out, streams.err)
    assert "hunter2" not in streams.out + streams.err + caplog.text
