"""Who works on a host, and what keeps two commands of one person apart."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from transom.hosts.errors import Held
from transom.hosts.owner import build_user_owner, lock_host

HOLDER = """
import sys
from pathlib import Path
from transom.hosts.owner import lock_host
with lock_host(Path(sys.argv[1]), "win1", 22):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_person_is_the_same_as_long_as_the_state_directory_is(tmp_path: Path) -> None:
    first, second = build_user_owner(tmp_path / "a"), build_user_owner(tmp_path / "a")
    assert first == second
    assert first.process == f"pid {os.getpid()}"
    assert first.tag != build_user_owner(tmp_path / "b").tag


def test_a_container_may_run_as_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", dict[int, object]().__getitem__)
    assert build_user_owner(tmp_path).identity.startswith(f"{os.getuid()}@")


def test_one_process_holds_a_host_until_it_ends(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(Held, match=f"pid {holder.pid}"), lock_host(tmp_path, "WIN1", 22):
        pytest.fail("held twice")
    with lock_host(tmp_path, "win1", 2222), lock_host(tmp_path, "win2", 22):
        pass
    holder.kill()
    holder.wait()
    with lock_host(tmp_path, "win1", 22):
        pass
    holder.stdin.close()
    holder.stdout.close()
