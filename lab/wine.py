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


def loader() -> tuple[str, ...]:
    """The command that starts a Windows program, without the shell script that Debian puts before it.

    The address space is laid out without chance, here and in every process that such a one starts: Wine needs the addresses
    from 0x7ffe0000 for itself, but Linux lays a program's heap anywhere within 1 GB after the loader at 0x7d000000. By chance,
    one start of 2,000 would end with "failed to map the shared user data: c0000018".
    """
    for path in LOADERS:
        if Path(path).exists():
            return ("/usr/bin/setarch", "--addr-no-randomize", path)
    raise WineError("Wine is not installed: run scripts/install")


def environment(prefix: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole Linux environment of a Wine process: every variable of it would be one of Windows, too.

    TMPDIR is where Debian's Wine puts the socket of its server, in a directory named after the inode of the prefix. In /tmp,
    which all prefixes share, a new prefix would find what one that is gone, with the same inode, has left. Wine asks the
    resolver for the name of the Linux machine at each boot: where nobody answers, RES_OPTIONS makes that one second.
    fontconfig finds nothing in the prefix: each start of cmd.exe, as of all that could make a window, would read its settings
    and look at every font of Linux. With WINELOADERNOEXEC Wine's loader does not start itself once more, to lay out the address
    space: `loader` has done so. Wine sets it for all that a process starts.
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
        [*inside, *loader(), *command],
        cwd=prefix / "drive_c",
        env=environment(prefix, extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        check=False,
    )


def stop(prefix: Path) -> None:
    """End every process of this prefix, and no other, and wait until the registry is on the disk."""
    server = shutil.which("wineserver", path="/usr/bin:/usr/lib/wine") or "/usr/lib/wine/wineserver64"
    for option in ("-k", "-w"):
        subprocess.run([server, option], env=environment(prefix), capture_output=True, timeout=60, check=False)


def processes(prefix: Path, marker: str = "") -> list[int]:
    """The ids of the running processes of a prefix; with a marker, of those that were started with it in their environment.

    A process inherits the Linux environment of the one that created it: what a service starts has the environment of
    the service control manager, whoever asked for the service.
    """
    sought, found = b"WINEPREFIX=" + os.fsencode(prefix), []
    # each end of a connection comes here: a Path for each process of Linux would cost more than twice as much
    for name in [entry.name for entry in os.scandir("/proc") if entry.name.isdigit()]:
        content = _environment_of(f"/proc/{name}") or _environment_of_other_threads(f"/proc/{name}/task")
        if sought in content and sought in (variables := content.split(b"\0")) and (not marker or marker.encode() in variables):
            found.append(int(name))
    return found


def _environment_of(directory: str) -> bytes:
    """Empty where it has ended, or is somebody else's."""
    try:
        with open(f"{directory}/environ", "rb", buffering=0) as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


def _environment_of_other_threads(directory: str) -> bytes:
    """Of a process whose first thread has ended: one that ends in Wine ends its threads one by one, and can hang there."""
    try:
        # a directory has two links, and one for each in it: those with one thread are the kernel's
        threads = os.listdir(directory) if os.stat(directory).st_nlink > 3 else ()  # noqa: PTH116, PTH208
    except OSError:
        return b""
    return next(filter(None, (_environment_of(f"{directory}/{thread}") for thread in threads)), b"")


def running(prefix: Path) -> list[str]:
    """The names of the running processes of a prefix, for people."""
    found = []
    for pid in processes(prefix):
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return sorted(found)


def kill(prefix: Path, marker: str = "") -> None:
    """End these processes at once, with what they start meanwhile. Without a marker, what is not on the disk yet is lost."""
    while found := processes(prefix, marker):
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
