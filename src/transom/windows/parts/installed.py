"""What of a payload is on a host, as the ledger says it: services, files, directories, and what was done to Windows."""

from collections.abc import Iterator, Mapping

import msgspec

from transom.windows.host import ledger_entries
from transom.windows.host.host_state import Preparation, compute_file_time
from transom.windows.host.queries import LEDGER
from transom.windows.registry.edits import SetValue
from transom.windows.registry.names import FoldedDict, is_same
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_sz

INSTALLED = LEDGER + r"\Installed"
FILES = INSTALLED + r"\Files"
_OWNED = build_sz("owned")


class TakenOverService(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a service was found that is ours by a person's word: its command line (`ImagePath`), and its `Type` and `Start`."""

    command: str
    type: int = 0
    start: int = 0


class OwnService(msgspec.Struct, frozen=True, omit_defaults=True):
    """A service of the payload: made by us, or there before (adopted): then its environment alone is ours.

    `networks` are the HNS networks that it makes, which go after it. `taken`: another operator created it, and a user handed it
    over to Transom: it is kept, upgraded and removed like Transom's own.
    """

    adopted: bool = False
    networks: tuple[str, ...] = ()
    taken: TakenOverService | None = None


class OwnFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that Transom sent: the keyed digest of its SHA-256, and its size.

    `aside`: a foreign file existed and is kept next to it. `former`: the file that it replaces, as long as that may still
    exist, since the line is written before the file is replaced. `found`: the same digest of the file that existed when its
    services were taken over; it is not restored.
    """

    digest: str
    size: int
    aside: bool = False
    former: str = ""
    former_size: int = 0
    found: str = ""

    def match_digest(self, size: int, modified: int) -> str | None:
        """Return the digest of the present file by its size and time; None if it is neither of the two that were sent."""
        for digest_, size_ in ((self.digest, self.size), (self.former, self.former_size)):
            if digest_ and (size, modified) == (size_, compute_file_time(digest_)):
                return digest_
        return None

    def describe_present_file(self, present_digest: str | None) -> str | None:
        """Describe the present file by its digest, for people; None if it does not exist."""
        if present_digest in (self.digest, self.former):
            return describe_sent_file(present_digest, self.size if present_digest == self.digest else self.former_size)
        return present_digest and "changed since it was sent"

    def with_present_file(self, present_digest: str | None) -> "OwnFile":
        """Return the line with only the one of the two files that is present."""
        if present_digest not in (self.digest, self.former) or not self.former:
            return self
        return OwnFile(
            present_digest, self.size if present_digest == self.digest else self.former_size, self.aside, found=self.found
        )


def describe_sent_file(digest: str, size: int) -> str:
    """Describe a file that was or will be sent: a keyed digest distinguishes contents without revealing them."""
    return f"{size} bytes, {digest[:12]}"


class Output(msgspec.Struct, frozen=True):
    """What a script of the payload printed, and the boot in which it did."""

    text: str
    boot: int | None = None


class PreparedWindows(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was done to Windows itself; `boot` is the boot in which it was, where only the next one completes it."""

    preparation: Preparation
    boot: int | None = None


class InstalledPayload(msgspec.Struct, frozen=True):
    """What of a payload is on the host. `owned` are those of `directories` that go with all that is in them."""

    payload: str = ""
    prepared: PreparedWindows | None = None
    services: dict[str, OwnService] = {}
    files: dict[str, OwnFile] = {}
    directories: tuple[str, ...] = ()
    owned: tuple[str, ...] = ()
    outputs: dict[str, Output] = {}

    def __bool__(self) -> bool:
        """Return True if anything of a payload is installed."""
        return bool(self.payload or self.prepared or self.services or self.files or self.directories or self.outputs)

    def with_present_files(self, present_digests: Mapping[str, str]) -> "InstalledPayload":
        """Return a copy whose lines have only the present files, from their digests by path."""
        digests = FoldedDict(present_digests)
        files = {path: file.with_present_file(digests.get(path)) for path, file in self.files.items()}
        return msgspec.structs.replace(self, files=files)

    def find_file(self, path: str) -> OwnFile | None:
        """Return the file at a path, compared without case, or None."""
        return next((file for name, file in self.files.items() if is_same(name, path)), None)

    def find_service(self, name: str) -> OwnService | None:
        """Return the service with that name, compared without case, or None."""
        return next((service for item, service in self.services.items() if is_same(item, name)), None)


def read(registry: Registry) -> InstalledPayload:
    """Read the ledger's entry. Raises LedgerError."""
    key = registry.find_key(INSTALLED)
    payload = key.get("Payload") if key else None
    prepared = ledger_entries.read_entry(key, "Preparation", PreparedWindows) if key and key.get("Preparation") else None
    directories = registry.find_key(rf"{INSTALLED}\Directories")
    return InstalledPayload(
        payload.decode_text() if payload else "",
        prepared,
        ledger_entries.read_entries(registry, rf"{INSTALLED}\Services", OwnService),
        ledger_entries.read_entries(registry, FILES, OwnFile),
        tuple(ledger_entries.iter_value_names(directories)),
        tuple(path for path in ledger_entries.iter_value_names(directories) if directories and directories.get(path) == _OWNED),
        ledger_entries.read_entries(registry, rf"{INSTALLED}\Variables", Output),
    )


def iter_ledger_values(entry: InstalledPayload) -> Iterator[SetValue]:
    """Yield a value for each service, file, directory and variable."""
    if entry:
        yield SetValue(INSTALLED, "Payload", build_sz(entry.payload))
    if entry.prepared:
        yield ledger_entries.build_ledger_value(INSTALLED, "Preparation", entry.prepared)
    for name, own in entry.services.items():
        yield ledger_entries.build_ledger_value(rf"{INSTALLED}\Services", name, own)
    for path, file in entry.files.items():
        yield ledger_entries.build_ledger_value(FILES, path, file)
    for path in entry.directories:
        yield SetValue(rf"{INSTALLED}\Directories", path, _OWNED if path in entry.owned else build_sz(""))
    for name, output in entry.outputs.items():
        yield ledger_entries.build_ledger_value(rf"{INSTALLED}\Variables", name, output)
