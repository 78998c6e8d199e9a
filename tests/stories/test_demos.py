"""Both demos come to their end, say what they say, and keep the password to themselves."""

import subprocess
import sys

import pytest


def told(*module: str) -> str:
    done = subprocess.run([sys.executable, "-m", *module], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    return done.stdout


def test_the_simulated_host_ends_as_it_began() -> None:
    story = told("transom", "demo")
    assert "simulated" in story
    assert "The registry is the one from before" in story


@pytest.mark.lab
def test_the_real_parts_play_along() -> None:
    story = told("lab.demo")
    told_errors = [line.strip() for line in story.splitlines() if line.strip().startswith("failed:")]
    assert ["no such host" in error for error in told_errors] == [True, False, False, True]
    assert ["unknown authority" in error for error in told_errors] == [False, True, True, False]
    assert story.count("pulled: sha256:") == 2
    assert "byte for byte as before" in story
