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
from typing import Final

import msgspec
import platformdirs
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from transom.apply.kept_settings import KeptSettings, decoded, encoded
from transom.apply.roll_out import change_of, result_of
from transom.apply.target import Target
from transom.cli.output import ExitCode, fail, naming
from transom.hosts import owner
from transom.hosts.passes import PassResult, PassSettings
from transom.hosts.ssh import Timeouts
from transom.hosts.ssh.known_hosts import KnownHostsFile
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.host.queries import LEDGER
from transom.windows.ledger import Manager

_KEPT: Final = 2


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


class PassedFiles:
    """For each host the last two settings that it was healthy with, the newest first; "nothing" is one of them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "passed"

    def of(self, target: Target) -> list[Egress]:
        """Those of a host; none where it was never worked on from here, or with another key or version. Raises OSError."""
        seals = [_sealed_by(target, key) for key in (target.key, *target.previous) if key is not None]
        if not seals:
            return []
        try:
            data = MultiFernet(seals).decrypt(self._file(target).read_bytes())
            present = decoded(data)
        except (FileNotFoundError, InvalidToken, msgspec.ValidationError):
            return []
        return [kept.egress() for kept in present]

    def note(self, target: Target, found: PassResult) -> None:
        """Keep what a pass has proved: that the host is healthy with its settings, or had none before. Raises OSError."""
        if target.key is None:
            return
        # what an earlier key sealed is sealed anew
        present = self.of(msgspec.structs.replace(target, previous=()))
        known = list(present or self.of(target))
        if not known and found.before is not None and found.before.registry.key(LEDGER) is None:
            known = [Egress(windows=target.egress.windows)]
        settled = found.plan is not None and not found.plan and found.error is None
        if settled or result_of(target.egress, found) == "passed":
            same = change_of(target.egress)
            # a host that had none is put back to none
            known = [msgspec.structs.replace(target.egress, missing=False), *(one for one in known if change_of(one) != same)][
                :_KEPT
            ]
        if list(map(change_of, known)) != list(map(change_of, present)):
            self._write(target, known, _sealed_by(target, target.key))

    def before(self, target: Target) -> Egress | None:
        """The newest that are not those which the host should have now."""
        return next((one for one in self.of(target) if change_of(one) != change_of(target.egress)), None)

    def _file(self, target: Target) -> Path:
        return self._directory / hashlib.sha256(place_of(target)).hexdigest()[:16]

    def _write(self, target: Target, known: list[Egress], seal: Fernet) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = [KeptSettings.of(one) for one in known]
        file = self._file(target)
        part = file.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(seal.encrypt(encoded(kept)))
        part.replace(file)


def _sealed_by(target: Target, key: Secret) -> Fernet:
    """What a host's settings are sealed with: a key by HKDF (RFC 5869) of its SSH key."""
    derivation = HKDF(SHA256(), 32, salt=place_of(target), info=b"transom: settings that passed")
    return Fernet(base64.urlsafe_b64encode(derivation.derive(key.reveal().encode())))


def place_of(target: Target) -> bytes:
    """What a host is known by here: address and port."""
    spec = target.instance.spec
    return f"{spec.address.casefold()} {spec.port}".encode()
