"""A Linux program of the lab that runs beside the tests: it ends when it is told to, and with the process that started it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TIED = ("setpriv", "--pdeathsig", "KILL")
"""Before a command: it ends with the thread that started it, however that ended."""
# The shell waits for the end of its standard input, which comes with the end of whoever started it, however that ended.
_GUARD = """
file=$1 ending=$2
shift 2
"$@" </dev/null &
child=$!
echo $child >"$file"
cat >/dev/null
kill -$ending $child
wait $child
"""


class Process:
    """A running program. Its output goes to ``log``; ``ending`` is the signal that tells it to end."""

    def __init__(
        self, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None, ending: str = "TERM"
    ) -> None:
        self._pid_file = log.with_suffix(".child")
        self._pid_file.unlink(missing_ok=True)
        self.log = log
        with log.open("ab") as output:
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "guard", self._pid_file, ending, *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=dict(env) if env is not None else None,
                start_new_session=True,
            )

    def stop(self) -> None:
        """End the program and wait until it has ended."""
        if self._guard.stdin:
            self._guard.stdin.close()
        self._guard.wait(timeout=120)

    @property
    def pid(self) -> int | None:
        """Its process; None while it has not begun."""
        try:
            return int(self._pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None

    def has_ended(self) -> bool:
        """Return True if the program has ended."""
        if self.pid is None:
            # it has not begun yet
            return False
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        return state == "Z"
