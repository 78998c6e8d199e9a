"""The SSH server of a machine, as the one who operates the machine sees it: keys, start and stop, journal, faults."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import asyncssh
import msgspec

from lab.place import Place
from lab.sshd.fault import Fault, write
from lab.sshd.forked import ENVIRONMENT, ROOT, ForkedServer
from lab.sshd.journal import Entry, read
from lab.sshd.settings import Settings
from lab.template import ADMINISTRATOR

START_SECONDS = 120


class SSHError(Exception):
    """The SSH server did not start."""


class SSH:
    """Start and stop the server; read what it saw. A test client logs in as ``user`` with the key at ``key``."""

    def __init__(self, directory: Path, prefix: Path, place: Place, shell: str) -> None:
        self.user = ADMINISTRATOR
        self.place = place
        self.key = directory / "client_key"
        self.journal = directory / "ssh.jsonl"
        self._host_key = directory / "ssh_host_ed25519_key"
        self._settings = directory / "sshd.json"
        self._fault = directory / "fault.json"
        self._scan = directory / "scan"
        self._log = directory / "sshd.log"
        self._process: subprocess.Popen[bytes] | ForkedServer | None = None
        client = asyncssh.generate_private_key("ssh-ed25519")
        client.write_private_key(str(self.key))
        self.key.chmod(0o600)
        self.change_host_key()
        settings = Settings(
            address=place.address,
            port=place.port,
            prefix=prefix,
            user=self.user,
            authorized_keys=client.export_public_key().decode(),
            host_key=self._host_key,
            shell=shell,
            journal=self.journal,
            fault=self._fault,
            scan=self._scan,
        )
        self._settings.write_bytes(msgspec.json.encode(settings, enc_hook=str))

    def share_key(self, other: Path) -> None:
        """Be opened by the key of another machine; it holds from the next start of the server."""
        self.key.write_bytes(other.read_bytes())
        settings = msgspec.json.decode(self._settings.read_bytes())
        settings["authorized_keys"] = asyncssh.read_private_key(str(other)).export_public_key().decode()
        self._settings.write_bytes(msgspec.json.encode(settings))

    def change_host_key(self) -> None:
        """Give the machine another host key; it holds from the next start of the server."""
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(self._host_key))

    @property
    def host_key(self) -> str:
        """The host key as a line of ``ssh_host_ed25519_key.pub``: algorithm and key."""
        key = asyncssh.read_private_key(str(self._host_key))
        return " ".join(key.export_public_key().decode().split()[:2])

    def start(self) -> None:
        """Start the server; ``wait`` says when it listens."""
        with self._log.open("ab") as log:
            if not self.place.inside:
                self._process = ForkedServer(self._settings, log)
                return
            self._process = subprocess.Popen(
                [*self.place.inside, sys.executable, "-m", "lab.sshd", str(self._settings)],
                cwd=ROOT,
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait until the server listens.

        Raises:
            SSHError: it ended, or did not listen after 120 s; with the end of its log.
        """
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection((self.place.address, self.place.port), 1).close()
            except OSError:
                if time.monotonic() > deadline or (self._process and self._process.poll() is not None):
                    raise SSHError(f"the SSH server did not start:\n{self._log.read_text()[-2000:]}") from None
                time.sleep(0.03)
            else:
                return

    def stop(self) -> None:
        """End the server, and with it all connections and what they started."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the server at once, without closing its connections."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start: every connection ends, the machine stays on."""
        self.stop()
        self.start()
        self.wait()

    def _end(self, how: int) -> None:
        if self._process:
            if self._process.poll() is None:
                # it may end meanwhile
                with suppress(ProcessLookupError):
                    os.kill(self._process.pid, how)
                    os.kill(self._process.pid, signal.SIGCONT)
            self._process.wait(timeout=120)
            if self._process.stdin:
                self._process.stdin.close()
            self._process = None

    def suspend(self) -> None:
        """Suspend the server, as on a host that hangs: connections stay open, and get no answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the server."""
        self._signal(signal.SIGCONT)

    def _signal(self, how: int) -> None:
        if not self._process:
            raise SSHError("the SSH server does not run")
        os.kill(self._process.pid, how)

    def schedule_fault(self, fault: Fault) -> None:
        """Schedule a fault for the next connection that reaches its request, once."""
        write(self._fault, fault)

    def cancel_fault(self) -> None:
        """Cancel a fault that has not happened."""
        self._fault.unlink(missing_ok=True)

    @property
    def armed(self) -> bool:
        """Whether a fault is still to happen."""
        return self._fault.exists()

    def scan(self, seconds: float) -> None:
        """Let a virus scanner read each file that came over SFTP for so long after it was closed; 0: let it be gone."""
        self._scan.unlink(missing_ok=True)
        if seconds:
            self._scan.write_text(str(seconds))

    def read_entries(self) -> list[Entry]:
        """Return the entries of the server's journal, oldest first."""
        return read(self.journal)
