"""What a process that was killed has left goes, and what somebody uses stays."""

import signal
import subprocess
import sys
from pathlib import Path

from lab.claim import claim

CLAIMS = """
import sys, time
from pathlib import Path
from lab.claim import claim

directory, _ = claim(Path(sys.argv[1]), "one-", "one-*")
(directory / "deep").mkdir()
(directory / "deep" / "file").touch()
print(directory, flush=True)
time.sleep(100)
"""


def test_what_a_killed_process_left_goes_with_the_next_claim(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    first, lock = claim(tmp_path, "one-", "one-*")
    ended: list[Path] = []
    command = [sys.executable, "-c", CLAIMS, str(tmp_path)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        claim(tmp_path, "one-", "one-*", ended.append)[1].close()
        assert (left / "deep" / "file").exists()
        process.send_signal(signal.SIGKILL)
    own, held = claim(tmp_path, "one-", "one-*", ended.append)
    assert left in ended
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "one", first, own])
    lock.close()
    held.close()
