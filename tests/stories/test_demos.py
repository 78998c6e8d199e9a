"""Both demos come to their end, say what they say, and keep the password to themselves."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.command import run

from transom.cli.commands import demo
from winsim import Simulator


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


async def test_doctor_finds_nothing_in_the_demo(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        story = demo._Demo(Console(), simulator, await simulator.add_host("win-1"), tmp_path)
        story._write_manifests(demo._build_settings(), ca="Corp Proxy CA 2026")
    ran = await asyncio.to_thread(run, "doctor", "-f", str(tmp_path), "-o", "json")
    assert (ran.code, ran.json["findings"], ran.json["unread"]) == (0, [], [])


@pytest.mark.lab
def test_the_real_parts_play_along(tmp_path: Path) -> None:
    log = tmp_path / "demo.log"
    story = told("lab.demo", "--log", str(log))
    assert "http://***@" in log.read_text("utf-8") and "hunter2" not in log.read_text("utf-8")
    told_errors = [line for line in story.splitlines() if line.split()[:2] == ["pull", "failed:"]]
    assert ["no such host" in error for error in told_errors] == [True, False, False, True]
    assert ["unknown authority" in error for error in told_errors] == [False, True, True, False]
    assert story.count("pulled sha256:") == 2
    assert "byte for byte as before" in story
