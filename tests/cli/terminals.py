"""Terminal: what several tests use."""

import os
import pty
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
