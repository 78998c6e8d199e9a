"""What a person's `~/.ssh/config` says of a host: the options that Transom reads, by name, and no other."""

import errno
import getpass
import os
from pathlib import Path
from typing import Any, Final, cast

import asyncssh
from asyncssh.config import SSHClientConfig

from transom.common.regular_files import open_regular_file
from transom.hosts.errors import Unreachable

OPTIONS: Final = (
    "Hostname",
    "Port",
    "User",
    "IdentityFile",
    "IdentitiesOnly",
    "IdentityAgent",
    "ProxyJump",
    "ProxyCommand",
)
"""Read for hosts and for jump hosts; the names are those of asyncssh."""
JUMP_HOST_OPTIONS: Final = ("HostKeyAlias", "UserKnownHostsFile", "GlobalKnownHostsFile")
"""Read for jump hosts alone: where the keys of hosts are kept is Transom's own matter."""
BLOCKS: Final = ("Host", "Match", "Include", "Tag")
"""What says to which hosts the others apply."""
_FILE: Final = Path("~", ".ssh", "config")
_KNOWN_HOSTS: Final = {
    "UserKnownHostsFile": ("~/.ssh/known_hosts", "~/.ssh/known_hosts2"),
    "GlobalKnownHostsFile": ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"),
}
"""Their defaults (ssh_config(5))."""
_IDENTITIES: Final = tuple(
    f"~/.ssh/id_{kind}" for kind in ("ed25519_sk", "ecdsa_sk", "ed448", "ed25519", "ecdsa", "rsa", "dsa")
)
"""The keys that asyncssh reads without IdentityFile (`_DEFAULT_KEY_FILES`)."""
_BESIDE: Final = ("", ".pub", "-cert.pub")
"""What is read for a key, by what follows its name."""


class _Reader(SSHClientConfig):
    """Reads with asyncssh's grammar, and passes over every option that is not named above.

    What asyncssh does not know, and so never reports, would come through else: agent forwarding, algorithms, environment.
    """

    def _set_route(self, option: str, args: list[str]) -> None:
        """Keep ProxyJump or ProxyCommand, whichever comes first (ssh_config(5), ProxyJump)."""
        value = args.pop(0)
        if "ProxyJump" not in self._options and "ProxyCommand" not in self._options:
            self._options[option] = None if value.lower() == "none" else value

    def parse(self, path: Path) -> None:
        """Read a file, or one that it includes. Raises OSError if it is not a regular file: to read it might not end."""
        open_regular_file(path).close()
        super().parse(path)

    _handlers = {
        name: handler
        for name, handler in SSHClientConfig._handlers.items()
        if handler[0] in (*OPTIONS, *JUMP_HOST_OPTIONS, *BLOCKS)
    } | {"proxyjump": ("ProxyJump", _set_route), "proxycommand": ("ProxyCommand", _set_route)}
    _percent_expand = SSHClientConfig._percent_expand.intersection(OPTIONS)


class SshConfig:
    """What the file says of one host."""

    def __init__(self, config: SSHClientConfig) -> None:
        options = config._options
        files = options.get("IdentityFile")
        if isinstance(files, list):
            # ssh passes over files that are not there
            options["IdentityFile"] = [file for file in files if Path(file).expanduser().exists()]
        self._of_jump_host = {name: options.pop(name, None) for name in JUMP_HOST_OPTIONS}
        command = options.pop("ProxyCommand", None)
        self.proxy_command: str | None = command if isinstance(command, str) else None
        """The command through which the host is reached, with its tokens expanded; None if it is reached without."""
        self._config = config
        # no public function takes a parsed configuration; the caller that connects loads the keys
        self.options = asyncssh.SSHClientConnectionOptions(config=None, client_keys=None, agent_path=None, known_hosts=None)
        """Options of asyncssh that have what was read, and nothing else of the file."""
        self.options.config = config

    @property
    def port(self) -> int:
        """The port; 22 by default."""
        port = self._config.get("Port")
        return port if isinstance(port, int) else 22

    @property
    def jump_hosts(self) -> str | None:
        """The value of ProxyJump; None where the host is reached without."""
        value = self._config.get("ProxyJump")
        return value if isinstance(value, str) else None

    @property
    def host_key_alias(self) -> str | None:
        """The name by which known_hosts has the key of a jump host."""
        value = self._of_jump_host["HostKeyAlias"]
        return value if isinstance(value, str) else None

    def find_known_hosts(self) -> list[Path]:
        """Return the files with keys of jump hosts that there are."""
        files: list[str] = []
        for option, defaults in _KNOWN_HOSTS.items():
            value = self._of_jump_host[option]
            files += value if isinstance(value, list) else defaults
        return [path for path in (Path(file).expanduser() for file in files) if path.is_file()]


def read_ssh_config(host: str, port: int | None = None, username: str = "") -> SshConfig:
    """Return what `~/.ssh/config` says of a host; port and user name that are given come first. Raises Unreachable.

    `Match exec` runs a command: call it in a thread.
    """
    path = _FILE.expanduser()
    files = [path] if os.access(path, os.R_OK) else []
    options: tuple[Any, ...] = (username or (), host, port if port is not None else ())
    try:
        user = getpass.getuser()
        config = _Reader.load(None, files, False, False, False, user, *options)
        if config.has_match_final():
            config = _Reader.load(None, files, True, False, True, user, *options)
        _refuse_special_identity_files(cast(SSHClientConfig, config))
    except (OSError, KeyError, ValueError) as error:
        raise Unreachable(f"~/.ssh/config cannot be used: {error}") from None
    return SshConfig(cast(SSHClientConfig, config))


def _refuse_special_identity_files(config: SSHClientConfig) -> None:
    """Check that keys are regular files: asyncssh would wait for a FIFO, and read a device without end. Raises OSError."""
    files = config.get("IdentityFile")
    for name in files if isinstance(files, list) else _IDENTITIES:
        for suffix in _BESIDE:
            try:
                open_regular_file(Path(f"{name}{suffix}").expanduser()).close()
            except OSError as error:
                # asyncssh, or ssh in its manner, handles the other ones
                if error.errno == errno.EINVAL:
                    raise
