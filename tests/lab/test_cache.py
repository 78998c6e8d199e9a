"""What is costly to make is made once and whole, whoever is killed meanwhile."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lab.golang import GoError
from tests.support.repository import ROOT
from tests.support.waiting import until

from lab import build, cache

# as `go build … -o FILE PACKAGE`: half of the file, and then as long as `longer` is there; a child of its own beside it
GO = """
#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo run >>{place}/runs
printf half >"$2"
cd "$(dirname "$2")"
[ ! -e {place}/longer ] || {{ sleep 1000 & echo $! >{place}/child.new; mv {place}/child.new {place}/child; wait; }}
[ ! -e {place}/broken ] || {{ echo no space left >&2; exit 1; }}
printf whole >"$2"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a `go` that says what it does."""
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    program.write_text(GO.strip().format(place=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def building() -> subprocess.Popen[bytes]:
    code = "from lab import build; print(build.build_program(build.CURL))"
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def made(place: Path) -> list[str]:
    return sorted(path.name for path in (place / "cache" / "transom-lab").iterdir() if path.suffix != ".lock")


async def test_a_killed_build_leaves_nothing(place: Path):
    longer = place / "longer"
    longer.touch()
    killed = building()
    child = int((await until(lambda: (place / "child").exists() and (place / "child").read_text())).strip())
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert [name[:6] for name in made(place)] == [".curl-"]
    longer.unlink()
    file = build.build_program(build.CURL)
    assert file.read_text() == "whole"
    assert made(place) == [file.parent.name]
    await until(lambda: not alive(child))


async def test_two_at_once_build_once_and_say_so(place: Path):
    longer = place / "longer"
    longer.touch()
    first = building()
    child = int((await until(lambda: (place / "child").exists() and (place / "child").read_text())).strip())
    second = building()
    said = b""
    while b"waiting for another process that makes curl" not in said:
        part = os.read(second.stderr.fileno(), 4096)
        assert part, said
        said += part
    os.kill(child, signal.SIGKILL)
    results = [item.communicate()[0] for item in (first, second)]
    assert results[0] == results[1] != b""
    assert Path(results[0].decode().strip()).read_text() == "whole"
    assert (place / "runs").read_text() == "run\n"


def test_a_failed_build_leaves_nothing(place: Path):
    (place / "broken").touch()
    with pytest.raises(GoError, match=r"go build \. failed:\nno space left"):
        build.build_program(build.CURL)
    assert made(place) == []


def test_what_others_make_is_let_alone(place: Path):
    others = [cache.get_directory() / name for name in (".curl-more-abcdefgh", ".recorder-abcdefgh", "curl-0123456789abcdef")]
    for other in others:
        other.mkdir()
    half_made = cache.get_directory() / ".curl-abcdefgh"
    half_made.mkdir()
    build.build_program(build.CURL)
    assert [other.exists() for other in others] == [True] * 3
    assert not half_made.exists()
