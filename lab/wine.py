"""How Wine is called: with nothing of the Linux environment, in a prefix, from the drive C of that prefix."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

LOADERS = ("/usr/lib/wine/wine64", "/usr/bin/wine64", "/usr/bin/wine")
CMD = r"C:\windows\system32\cmd.exe"


class WineError(Exception):
    """Wine is missing, or a program in it failed."""


def find_loader() -> tuple[str, ...]:
    """Return the command that starts a Windows program, without the shell script that Debian puts before it.

    The address space is not randomized, here and in every process that it starts: Wine needs the addresses from 0x7ffe0000,
    but Linux places a program's heap anywhere within 1 GB after the loader at 0x7d000000. With randomization, one start of
    2,000 ends with "failed to map the shared user data: c0000018".
    """
    for path in LOADERS:
        if Path(path).exists():
            return ("/usr/bin/setarch", "--addr-no-randomize", path)
    raise WineError("Wine is not installed: run scripts/install")


def build_environment(prefix: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Build the complete Linux environment of a Wine process: each variable also becomes one of Windows.

    TMPDIR is where Debian's Wine puts its server's socket, in a directory named after the inode of the prefix. In /tmp, which
    all prefixes share, a new prefix would find what an earlier one with the same inode left. Wine asks the resolver for the
    name of the Linux machine at each boot: RES_OPTIONS limits this to one second if no server answers. fontconfig finds
    nothing in the prefix: otherwise each start of cmd.exe, and of any program that could open a window, would read its
    settings and all fonts of Linux. With WINELOADERNOEXEC, Wine's loader does not start itself again to lay out the address
    space: `find_loader` has done so. Wine sets it for every process that it starts.
    """
    here = str(prefix)
    own = {"HOME": here, "WINEPREFIX": here, "TMPDIR": here, "FONTCONFIG_SYSROOT": here}
    shared = {"PATH": "/usr/bin:/bin", "WINEDEBUG": "-all", "RES_OPTIONS": "timeout:1 attempts:1", "WINELOADERNOEXEC": "1"}
    return shared | own | dict(extra or {})


def run(
    prefix: Path,
    command: Sequence[str],
    *,
    inside: Sequence[str] = (),
    timeout: float = 120,
    extra: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a Windows program to its end. ``inside`` is put before the command, to enter a network namespace.

    Args:
        prefix: the Wine prefix.
        command: the program, by its full path (else a start.exe runs first), and its arguments.
        inside: a Linux command that runs the rest in another network namespace.
        timeout: seconds.
        extra: variables besides ``environment``.
    """
    return subprocess.run(
        [*inside, *find_loader(), *command],
        cwd=prefix / "drive_c",
        env=build_environment(prefix, extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        check=False,
    )


def stop(prefix: Path) -> None:
    """End every process of this prefix, and no other, and wait until the registry is on the disk."""
    server = shutil.which("wineserver", path="/usr/bin:/usr/lib/wine") or "/usr/lib/wine/wineserver64"
    for option in ("-k", "-w"):
        subprocess.run([server, option], env=build_environment(prefix), capture_output=True, timeout=60, check=False)


def list_processes(prefix: Path, marker: str = "") -> list[int]:
    """Return the ids of the running processes of a prefix, or only those with a marker in their environment.

    A process inherits the Linux environment of the one that created it: what a service starts has the environment of the
    service control manager, whichever process requested the service.
    """
    sought, pids = b"WINEPREFIX=" + os.fsencode(prefix), []
    # each end of a connection comes here: a Path for each process of Linux would cost more than twice as much
    for name in [entry.name for entry in os.scandir("/proc") if entry.name.isdigit()]:
        content = _read_environment(f"/proc/{name}") or _read_thread_environment(f"/proc/{name}/task")
        if sought in content and sought in (variables := content.split(b"\0")) and (not marker or marker.encode() in variables):
            pids.append(int(name))
    return pids


def _read_environment(directory: str) -> bytes:
    """Return the environment of a process; empty if it has ended or belongs to another user."""
    try:
        with open(f"{directory}/environ", "rb", buffering=0) as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


def _read_thread_environment(directory: str) -> bytes:
    """Return the environment of a process whose first thread has ended.

    Wine ends the threads of a process one by one, and can hang while it does.
    """
    try:
        # a directory has two links, and one for each in it: those with one thread are the kernel's
        threads = os.listdir(directory) if os.stat(directory).st_nlink > 3 else ()  # noqa: PTH116, PTH208
    except OSError:
        return b""
    return next(filter(None, (_read_environment(f"{directory}/{thread}") for thread in threads)), b"")


def list_running(prefix: Path) -> list[str]:
    """Return the names of the running processes of a prefix, for messages."""
    names = []
    for pid in list_processes(prefix):
        with suppress(OSError):
            names.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return sorted(names)


def kill(prefix: Path, marker: str = "") -> None:
    """End these processes at once, with what they start meanwhile. Without a marker, what is not on the disk yet is lost."""
    while pids := list_processes(prefix, marker):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
