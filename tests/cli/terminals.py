"""Terminal: what several tests use."""

import contextlib
import os
import pty
import subprocess
import sys
import time
from pathlib import Path


class Terminal:
    """A pseudo-terminal that programs write to."""

    def __init__(self, home: Path) -> None:
        self.near, self.far = pty.openpty()
        self.environment = {"PATH": os.defpath, "HOME": str(home), "TERM": "xterm-256color", "COLUMNS": "100"}

    def read(self) -> str:
        """All that was written, once nobody writes any more."""
        os.close(self.far)
        found = b""
        while True:
            try:
                part = os.read(self.near, 65536)
            except OSError:
                break
            if not part:
                break
            found += part
        os.close(self.near)
        return found.decode()


class Typist:
    """A person who runs `transom` at a terminal, and types."""

    def __init__(self, home: Path, *arguments: str) -> None:
        near, far = pty.openpty()
        environment = {"PATH": os.defpath, "HOME": str(home), "TERM": "dumb"}
        # of this session it is the terminal, so that Ctrl-C there is a signal, and passwords are read from it
        command = ["setsid", "--ctty", "--wait", "env", "--default-signal=INT", sys.executable, "-m", "transom", *arguments]
        self._process = subprocess.Popen(command, stdin=far, stdout=far, stderr=far, env=environment)
        os.close(far)
        self._near = near
        self.seen = ""
        self._read = 0

    def type(self, prompt: str, text: str) -> None:
        """Wait for a prompt that has not been answered yet, and type a line, or Ctrl-D."""
        self._wait_for(prompt)
        os.write(self._near, (text if text == "\x04" else f"{text}\n").encode())

    def interrupt(self, prompt: str) -> None:
        """Wait for a prompt, and press Ctrl-C until the program ends: a read that begins just then does not see the first."""
        self._wait_for(prompt)
        with contextlib.suppress(OSError):
            while self._process.poll() is None:
                os.write(self._near, b"\x03")
                time.sleep(0.1)

    def end(self) -> int:
        """Wait for the end; the exit code."""
        while self._more():
            pass
        os.close(self._near)
        return self._process.wait()

    def _wait_for(self, prompt: str) -> None:
        # the last character of a prompt comes once the terminal is as the program wants it
        while (at := self.seen.find(prompt, self._read)) < 0 or not self.seen.endswith(": "):
            if not self._more():
                raise AssertionError(f"it ended without asking {prompt!r}:\n{self.seen}")
        self._read = at + len(prompt)

    def _more(self) -> bool:
        try:
            part = os.read(self._near, 65536)
        except OSError:
            return False
        self.seen += part.decode("utf-8", "replace")
        return bool(part)
