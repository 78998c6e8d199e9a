"""Host keys that were seen before, and what to do about one that differs."""

import base64
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import asyncssh

from transom.common.regular_files import read_regular_text
from transom.hosts.errors import HostKeyMissing, HostKeyUnusable
from transom.hosts.ssh.host_key_checks import UnusableHostKey, check_host_key


class KnownKey(Protocol):
    """What is kept of a key that was seen before: enough to know it again. An `asyncssh.SSHKey` is one."""

    @property
    def sig_algorithms(self) -> Sequence[bytes]:
        """The signature algorithms that it can be asked for by, none where they are not kept."""
        ...

    def get_fingerprint(self) -> str:
        """`SHA256:…`."""
        ...


class Fingerprint:
    """A key of which only the SHA-256 fingerprint was kept."""

    sig_algorithms: Sequence[bytes] = ()

    def __init__(self, text: str) -> None:
        self._text = text

    def get_fingerprint(self) -> str:
        """Return the fingerprint exactly as recorded."""
        return self._text


class HostKeys(Protocol):
    """Where keys that are trusted on first use are kept."""

    def list_known_keys(self, address: str, port: int) -> Sequence[KnownKey]:
        """List the keys recorded for this host, none before the first contact.

        Raises HostKeyUnusable, HostKeyMissing, OSError.
        """
        ...

    async def record_key(self, address: str, port: int, key: asyncssh.SSHKey) -> None:
        """Keep the key that a host showed when it was first met, for good: when this ends, secrets are sent to the host.

        Raises HostError, OSError.
        """
        ...

    def describe_remedy(self, address: str, port: int) -> str:
        """Describe what a person does if the machine was replaced, as the end of a sentence."""
        ...


class KnownHostsFile:
    """A file in OpenSSH's known_hosts format (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"); made when the first key is recorded.

    With `required` no host is trusted on first use.
    """

    def __init__(self, path: Path, *, required: bool = False) -> None:
        self._path = path
        self._required = required

    def list_known_keys(self, address: str, port: int) -> Sequence[KnownKey]:
        """As HostKeys says. Hashed names and patterns are understood; revoked keys and CAs are not looked at."""
        keys = self._list_recorded(address, port)
        if not keys and self._required:
            raise build_missing_key_error(
                address,
                port,
                f"spec.hostKey of its WindowsInstance, or, after `{_format_pattern(address, port)} `, {self._path}",
            )
        return keys

    def _list_recorded(self, address: str, port: int) -> Sequence[KnownKey]:
        try:
            text = read_regular_text(self._path)
        except FileNotFoundError:
            return ()
        try:
            entries = asyncssh.import_known_hosts(text)
        except ValueError:
            raise HostKeyUnusable(f"{self._path} is not in the format of known_hosts; repair or remove it") from None
        wanted = _format_pattern(address, port)
        # asyncssh looks for a host on another port also without the port; OpenSSH's writing names it, so only that counts
        keys = entries.match(wanted if wanted.startswith("[") else address, "", None)[0]
        usable = tuple(key for key in keys if _is_usable(key))
        if keys and not usable:
            # without a key the next one that the host shows would be trusted
            raise HostKeyUnusable(f"{self._path} has no key of {wanted} that Transom accepts: {UnusableHostKey()}")
        return usable

    async def record_key(self, address: str, port: int, key: asyncssh.SSHKey) -> None:
        """As HostKeys says."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._path.open("a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(f"{_format_pattern(address, port)} {format_key_line(key)}\n")
            file.flush()
            os.fsync(file.fileno())

    def describe_remedy(self, address: str, port: int) -> str:
        """As HostKeys says."""
        return f"remove the line of {_format_pattern(address, port)} from {self._path}"


class NoHostKeys:
    """Nothing is kept: every key is new. For tests and for the simulated host of the demo."""

    def list_known_keys(self, address: str, port: int) -> Sequence[KnownKey]:
        """None, always."""
        return ()

    async def record_key(self, address: str, port: int, key: asyncssh.SSHKey) -> None:
        """Keep nothing."""

    def describe_remedy(self, address: str, port: int) -> str:
        """As HostKeys says."""
        return "connect again"


def format_key_line(key: asyncssh.SSHKey) -> str:
    """Format a key as `type base64`, without a comment."""
    return f"{key.algorithm.decode()} {base64.b64encode(key.public_data).decode()}"


def build_missing_key_error(address: str, port: int, place: str) -> HostKeyMissing:
    """Why a host is not connected to of which no key is known; `place` is where its line is put.

    Where the key lies: Microsoft, "OpenSSH Server configuration for Windows Server and Windows", HostKey.
    """
    return HostKeyMissing(
        "the host's key is not known, and --require-host-keys is set: it is not connected to. Put the line of its "
        rf"C:\ProgramData\ssh\ssh_host_ed25519_key.pub into {place}: read at the host's console, by the cloud's run "
        f"command or in its console output. `ssh-keyscan -t ed25519 -p {port} {address}` shows what answers there: compare"
    )


def parse_pinned_key(text: str) -> asyncssh.SSHKey:
    """Return the key of a line as in `ssh_host_ed25519_key.pub`. Raises HostKeyUnusable."""
    try:
        check_host_key(base64.b64decode(text.split()[1]))
        return asyncssh.import_public_key(text)
    except UnusableHostKey as error:
        raise HostKeyUnusable(f"Transom does not accept the pinned host key: {error}") from None
    except (IndexError, asyncssh.KeyImportError, ValueError):
        raise HostKeyUnusable("the pinned host key is not a line as in ssh_host_ed25519_key.pub") from None


def _is_usable(key: asyncssh.SSHKey) -> bool:
    try:
        check_host_key(key.public_data)
    except UnusableHostKey:
        return False
    return True


def _format_pattern(address: str, port: int) -> str:
    return address if port == 22 else f"[{address}]:{port}"
