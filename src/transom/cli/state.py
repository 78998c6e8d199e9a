"""What the command line keeps between its runs, under `$XDG_STATE_HOME/transom`.

That is host keys, who works on which host, and for `transom rollback` the last known good settings of hosts.

Settings hold credentials, so each host's are sealed with the SSH key that its `WindowsInstance` names: who has that key can
read the host's registry, too. What an earlier key sealed is read with that one, as long as the Secret has it. Where an agent
has the key there is nothing to seal with, and nothing is kept.
"""

import base64
import hashlib
import os
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import platformdirs
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from transom.apply.roll_out import judge_result
from transom.apply.settings_serialization import KeptSettings, decode, encode
from transom.apply.target import Target
from transom.cli.home import explain_unknown_home, is_home_known
from transom.cli.output import ExitCode, fail
from transom.common.regular_files import read_regular_file
from transom.hosts import owner
from transom.hosts.passes.base_pass import PassResult, PassSettings
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.ssh.known_hosts import KnownHostsFile
from transom.hosts.ssh.ssh_client import Timeouts
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.rollout.fingerprint import compute_settings_key
from transom.windows.host.queries import LEDGER
from transom.windows.ledger import Manager

_KEPT: Final = 2


def create_directory() -> Path:
    """Transom's state directory (XDG Base Directory Specification), made where it is missing; without it the command ends."""
    if not (is_home_known() or os.environ.get("XDG_STATE_HOME")):
        fail(f"{explain_unknown_home()}: set HOME, or XDG_STATE_HOME, the directory for what Transom keeps", ExitCode.NOT_DONE)
    path = platformdirs.user_state_path("transom")
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(None, "it is not writable")
    except OSError as error:
        _fail_without_directory(path, error)
    return path


def _fail_without_directory(path: Path, error: OSError) -> NoReturn:
    fail(
        f"{error.filename or path}: {error.strerror}; XDG_STATE_HOME can name another directory for what Transom keeps",
        ExitCode.NOT_DONE,
    )


def open_host_keys(*, required: bool = False) -> KnownHostsFile:
    """Host keys that were trusted on first use; with `required` there is none such."""
    return KnownHostsFile(create_directory() / "known_hosts", required=required)


def build_pass_settings(
    timeouts: Timeouts,
    manager: Manager = Manager(),  # noqa: B008  # frozen
    *,
    clears_when_stopped: bool = True,
) -> PassSettings:
    """Build the settings of passes by this user on this machine: two commands never work on one host at once."""
    directory = create_directory()
    try:
        person = msgspec.structs.replace(owner.build_user_owner(directory), manager=manager.name)
    except OSError as error:
        _fail_without_directory(directory, error)
    return PassSettings(
        person,
        claims=directory,
        timeouts=timeouts,
        patience=ServiceTimeouts.from_seconds(timeouts.service),
        adopts=manager.adopts,
        clears_when_stopped=clears_when_stopped,
    )


class HealthySettingsStore:
    """For each host the last two settings that it was healthy with, the newest first; "nothing" is one of them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "passed"

    def read_settings(self, target: Target) -> list[Egress]:
        """Those of a host; none where it was never worked on from here, or with another key or version. Raises OSError."""
        seals = [_create_cipher(target, key) for key in (target.key, *target.previous) if key is not None]
        if not seals:
            return []
        try:
            data = MultiFernet(seals).decrypt(read_regular_file(self._get_file(target)))
            present = decode(data)
        except (FileNotFoundError, InvalidToken, msgspec.ValidationError):
            return []
        return [kept.to_egress() for kept in present]

    def record_settings(self, target: Target, result: PassResult) -> None:
        """Keep what a pass has proved: that the host is healthy with its settings, or had none before. Raises OSError."""
        if target.key is None:
            return
        # what an earlier key sealed is sealed anew
        present = self.read_settings(msgspec.structs.replace(target, previous=()))
        known = list(present or self.read_settings(target))
        if result.before is not None and result.before.registry.find_key(LEDGER) is None:
            # it has nothing of Transom's: what is known is of before a removal, or of another host at this address
            known = [Egress(windows=target.egress.windows)]
        settled = result.plan is not None and not result.plan and result.error is None
        if settled or judge_result(target.egress, result) == "passed":
            same = compute_settings_key(target.egress)
            # a host that had none is put back to none
            known = [
                msgspec.structs.replace(target.egress, missing=False),
                *(item for item in known if compute_settings_key(item) != same),
            ][:_KEPT]
        if list(map(compute_settings_key, known)) != list(map(compute_settings_key, present)):
            self._write_settings(target, known, _create_cipher(target, target.key))

    def find_previous_settings(self, target: Target) -> Egress | None:
        """Return the newest settings that differ from those the host should have now."""
        return next(
            (item for item in self.read_settings(target) if compute_settings_key(item) != compute_settings_key(target.egress)),
            None,
        )

    def _get_file(self, target: Target) -> Path:
        return self._directory / hashlib.sha256(format_host_address(target)).hexdigest()[:16]

    def _write_settings(self, target: Target, settings: list[Egress], cipher: Fernet) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = [KeptSettings.from_egress(item) for item in settings]
        file = self._get_file(target)
        part = file.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(cipher.encrypt(encode(kept)))
        part.replace(file)


def _create_cipher(target: Target, key: Secret) -> Fernet:
    """Create the cipher for a host's settings: a key by HKDF (RFC 5869) from its SSH key."""
    derivation = HKDF(SHA256(), 32, salt=format_host_address(target), info=b"transom: settings that passed")
    return Fernet(base64.urlsafe_b64encode(derivation.derive(key.reveal().encode())))


def format_host_address(target: Target) -> bytes:
    """Return the address and port by which this machine knows a host."""
    spec = target.instance.spec
    return f"{spec.address.casefold()} {spec.port}".encode()
