"""Debian's systemd as a reader of units: what it says of them, and the environment that it would give a service."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

SYSTEMD = "/usr/lib/systemd/systemd"
_NOBODY = "65534"
_UNIT = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/true\n"
_VARIABLE = re.compile(r"^\t+Environment: ([^=]+)=(.*)$", re.MULTILINE)


class SystemdError(Exception):
    """systemd did not take the unit; the message is its own."""


def verify(service: str, drop_in: str, unit: str = _UNIT) -> str:
    """Run `systemd-analyze verify` on a service with a drop-in and return its output; empty if it is valid."""
    with tempfile.TemporaryDirectory(prefix="transom-units-") as directory:
        place = _place(Path(directory), service, drop_in, unit)
        command: list[str | Path] = ["systemd-analyze", "verify", "--man=no", place]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        return output or (f"exit code {done.returncode}" if done.returncode else "")


def read_environment(service: str, drop_in: str, unit: str = _UNIT) -> dict[str, str]:
    """Return the variables that systemd would give a service, with specifiers and escapes resolved by its own parser.

    `systemd --test` loads the units as PID 1 does and prints them; it refuses to do so as root, and starts nothing.
    """
    with tempfile.TemporaryDirectory(prefix="transom-units-") as directory:
        _place(Path(directory), service, drop_in, unit)
        Path(directory).chmod(0o755)
        arguments = ["--test", "--system", f"--unit={service}", "--no-pager"]
        command = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", SYSTEMD, *arguments]
        done = subprocess.run(
            command if os.geteuid() == 0 else command[4:],
            env={"PATH": os.defpath, "SYSTEMD_UNIT_PATH": directory, "XDG_RUNTIME_DIR": directory},
            capture_output=True,
            text=True,
            check=False,
        )
        block = done.stdout.partition(f"-> Unit {service}:")[2].partition("-> Unit ")[0]
        if not block:
            raise SystemdError(f"systemd --test ended with {done.returncode}: {done.stderr[-1000:]}")
        return dict(_VARIABLE.findall(block))


def _place(directory: Path, service: str, drop_in: str, unit: str) -> Path:
    path = directory / service
    path.write_text(unit)
    folder = directory / f"{service}.d"
    folder.mkdir()
    (folder / "http-proxy.conf").write_text(drop_in)
    return path
