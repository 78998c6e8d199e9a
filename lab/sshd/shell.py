"""How OpenSSH for Windows runs a command: by the default shell, in a job object that ends with the shell.

Source: PowerShell/openssh-portable, contrib/win32/win32compat/w32-doexec.c: the command line is
``"shell" /c "command"``; the shell itself holds the only handle of the job (JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE), so that what
it leaves behind ends with it.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from itertools import count

import asyncssh

from lab import wine
from lab.sshd.settings import Settings

_SAME_IN_POWERSHELL = re.compile(r"[A-Za-z0-9\\:._/ -]*")
_PLAIN = _SAME_IN_POWERSHELL
_commands = count(1)


class Shell:
    """The default shell of the machine."""

    def __init__(self, settings: Settings, marker: str) -> None:
        self._settings = settings
        self._marker = marker

    async def run(self, command: str, process: asyncssh.SSHServerProcess[bytes]) -> int:
        """Run a command line to its end and return its exit code; what it started has then ended, too."""
        if self._settings.shell == "powershell" and not _SAME_IN_POWERSHELL.fullmatch(command):
            process.stderr.write(b"This command line is not read by PowerShell as it is by cmd.\r\n")
            return 1
        name, value = self._marker.split("=", 1)
        own = f"TRANSOM_LAB_COMMAND={next(_commands)}"
        variables = {name: value, "SSH_CLIENT": value, "TRANSOM_LAB_COMMAND": own.partition("=")[2]}
        if _PLAIN.fullmatch(command):
            words = [wine.CMD, "/c", *command.split()]
        else:
            words = [r"C:\lab\shell.exe"]
            variables["SSH_ORIGINAL_COMMAND"] = command
        started = subprocess.Popen(
            [*wine.find_loader(), *words],
            cwd=self._settings.prefix / "drive_c" / "users" / self._settings.user,
            env=wine.build_environment(self._settings.prefix, variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            await process.redirect(started.stdin, started.stdout, started.stderr)
            # Not asyncio's own subprocess: its end is known only when all that has its output has ended, too.
            code = await asyncio.to_thread(started.wait)
        finally:
            await asyncio.to_thread(wine.kill, self._settings.prefix, own)
        await process.stdout.drain()
        await process.stderr.drain()
        return code
