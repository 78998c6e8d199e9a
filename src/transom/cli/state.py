"""What the command line keeps between its runs, under `$XDG_STATE_HOME/transom`: host keys, and who works on which host."""

from pathlib import Path

import platformdirs

from transom.hosts import owner
from transom.hosts.known_hosts import KnownHostsFile
from transom.hosts.passes import Settings


def directory() -> Path:
    """Transom's state directory (XDG Base Directory Specification)."""
    return platformdirs.user_state_path("transom")


def host_keys() -> KnownHostsFile:
    """Host keys that were trusted on first use."""
    return KnownHostsFile(directory() / "known_hosts")


def settings() -> Settings:
    """Passes made by this person on this machine; two commands of theirs do not work on one host at once."""
    return Settings(owner.person(directory()), claims=directory())
