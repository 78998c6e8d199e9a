"""A forked `transom` is the program: what it writes, how it ends, what a signal does, and nothing of who forked it."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.bundles import egress_proxy, write
from tests.support.forked import Forked, run
from tests.support.waiting import until


@pytest.mark.parametrize(
    "said", ["--version", "apply --help", "nonsense", "validate -f .", "validate -f nowhere", "manifests", "apply -f nowhere"]
)
def test_it_says_and_exits_as_the_program_does(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, egress_proxy({"httpProxy": "http://p.x:1", "noProxy": "a.b,*.c"}))
    monkeypatch.chdir(tmp_path)
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "COLUMNS": "70"}
    arguments = said.split()
    command = [sys.executable, "-m", "transom", *arguments]
    started = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    forked = run(*arguments, environment=environment)
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)
    assert forked.stdout + forked.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, -15), (signal.SIGINT, 130)])
async def test_a_signal_ends_it_and_no_other(number: signal.Signals, code: int, tmp_path: Path) -> None:
    # whoever it asks never answers
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    arguments = ("facts", "127.0.0.1", "--port", str(port), "-u", "a", "-i", str(tmp_path / "key"))
    key = subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    assert key.returncode == 0
    both = [Forked(*arguments, environment={"HOME": str(tmp_path)}) for _ in range(2)]
    await until(lambda: len(_connections(port)) == 2)
    first, second = both
    assert first.returncode is None
    first.send_signal(number)
    _, errors = await first.communicate()
    assert (first.returncode, b"Traceback" in errors) == (code, False)
    assert second.returncode is None
    second.kill()
    assert await second.wait() == -9
    server.close()


def _connections(port: int) -> list[str]:
    """The established connections to a port of the loopback (proc(5), /proc/net/tcp: state 01)."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"]
