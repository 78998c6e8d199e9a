"""What the command line keeps between its runs, under `$XDG_STATE_HOME/transom`: host keys, and who works on which host."""

import os
from pathlib import Path

import msgspec
import platformdirs

from transom.cli.output import ExitCode, fail, naming
from transom.hosts import owner
from transom.hosts.passes import PassSettings
from transom.hosts.ssh import Timeouts
from transom.hosts.ssh.known_hosts import KnownHostsFile
from transom.windows.ledger import Manager


def directory() -> Path:
    """Transom's state directory (XDG Base Directory Specification), made where it is missing; without it the command ends."""
    path = platformdirs.user_state_path("transom")
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(None, "it is not writable")
    except OSError as error:
        fail(f"{path}: {error.strerror}; the state directory can be set by XDG_STATE_HOME", ExitCode.NOT_DONE)
    return path


def host_keys(*, required: bool = False) -> KnownHostsFile:
    """Host keys that were trusted on first use; with `required` there is none such."""
    return KnownHostsFile(directory() / "known_hosts", required=required)


def settings(timeouts: Timeouts, manager: Manager = Manager()) -> PassSettings:  # noqa: B008  # frozen
    """Passes made by this person on this machine; two commands of theirs do not work on one host at once."""
    with naming(directory()):
        person = msgspec.structs.replace(owner.person(directory()), manager=manager.name)
    return PassSettings(person, claims=directory(), timeouts=timeouts, adopts=manager.adopts)
