"""What of a payload is on a host, as the ledger says it: services, files, directories, and what was done to Windows."""

from collections.abc import Iterator, Mapping

import msgspec

from transom.windows.host import Preparation, entries, stamp
from transom.windows.host.queries import LEDGER
from transom.windows.registry import Registry
from transom.windows.registry.edits import SetValue
from transom.windows.registry.names import FoldedDict, same
from transom.windows.registry.values import sz

INSTALLED = LEDGER + r"\Installed"
FILES = INSTALLED + r"\Files"
_OWNED = sz("owned")


class TakenOver(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a service was found that is ours by a person's word: its command line (`ImagePath`), and its `Type` and `Start`."""

    command: str
    type: int = 0
    start: int = 0


class OwnService(msgspec.Struct, frozen=True, omit_defaults=True):
    """A service of the payload: made by us, or there before (adopted): then its environment alone is ours.

    `networks` are the HNS networks that it makes, which go after it. `taken`: another operator made it, and a person gave it
    to Transom: it is kept, upgraded and removed as one of ours.
    """

    adopted: bool = False
    networks: tuple[str, ...] = ()
    taken: TakenOver | None = None


class OwnFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that was sent: the keyed digest of its SHA-256, and its size.

    `aside`: a file of somebody else's was there, and lies beside it. `former`: what it replaces, as long as that may still
    be there, for the line is written before the file is replaced. `found`: the same digest of the file that lay there when its
    services were taken over; it does not come back.
    """

    digest: str
    size: int
    aside: bool = False
    former: str = ""
    former_size: int = 0
    found: str = ""

    def known(self, size: int, modified: int) -> str | None:
        """The digest of what lies there, by its size and its time; None where it is neither of the two that were sent."""
        for digest_, size_ in ((self.digest, self.size), (self.former, self.former_size)):
            if digest_ and (size, modified) == (size_, stamp(digest_)):
                return digest_
        return None

    def describe(self, there: str | None) -> str | None:
        """What lies there by its digest, for people; None where nothing does."""
        if there in (self.digest, self.former):
            return describe(there, self.size if there == self.digest else self.former_size)
        return there and "changed since it was sent"

    def settled(self, there: str | None) -> "OwnFile":
        """The line once it is seen which of the two is there."""
        if there not in (self.digest, self.former) or not self.former:
            return self
        return OwnFile(there, self.size if there == self.digest else self.former_size, self.aside, found=self.found)


def describe(digest: str, size: int) -> str:
    """A file that was or will be sent, for people: a keyed digest tells two contents apart and gives neither away."""
    return f"{size} bytes, {digest[:12]}"


class Output(msgspec.Struct, frozen=True):
    """What a script of the payload printed, and the boot in which it did."""

    text: str
    boot: int | None = None


class Prepared(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was done to Windows itself; `boot` is the boot in which it was, where only the next one completes it."""

    preparation: Preparation
    boot: int | None = None


class Installed(msgspec.Struct, frozen=True):
    """What of a payload is on the host. `owned` are those of `directories` that go with all that is in them."""

    payload: str = ""
    prepared: Prepared | None = None
    services: dict[str, OwnService] = {}
    files: dict[str, OwnFile] = {}
    directories: tuple[str, ...] = ()
    owned: tuple[str, ...] = ()
    outputs: dict[str, Output] = {}

    def __bool__(self) -> bool:
        """Whether anything of a payload is there."""
        return bool(self.payload or self.prepared or self.services or self.files or self.directories or self.outputs)

    def settled(self, there: Mapping[str, str]) -> "Installed":
        """The same once it is seen which files are there: their digests by path."""
        digests = FoldedDict(there)
        files = {path: file.settled(digests.get(path)) for path, file in self.files.items()}
        return msgspec.structs.replace(self, files=files)

    def file(self, path: str) -> OwnFile | None:
        """The file at a path, compared without case."""
        return next((file for name, file in self.files.items() if same(name, path)), None)

    def service(self, name: str) -> OwnService | None:
        """The service of that name, compared without case."""
        return next((service for known, service in self.services.items() if same(known, name)), None)


def read(registry: Registry) -> Installed:
    """The ledger's entry. Raises LedgerError."""
    key = registry.key(INSTALLED)
    payload = key.get("Payload") if key else None
    prepared = entries.entry(key, "Preparation", Prepared) if key and key.get("Preparation") else None
    directories = registry.key(rf"{INSTALLED}\Directories")
    return Installed(
        payload.text() if payload else "",
        prepared,
        entries.entries(registry, rf"{INSTALLED}\Services", OwnService),
        entries.entries(registry, FILES, OwnFile),
        tuple(entries.names(directories)),
        tuple(path for path in entries.names(directories) if directories and directories.get(path) == _OWNED),
        entries.entries(registry, rf"{INSTALLED}\Variables", Output),
    )


def lines(entry: Installed) -> Iterator[SetValue]:
    """A value for each service, file, directory and variable."""
    if entry:
        yield SetValue(INSTALLED, "Payload", sz(entry.payload))
    if entry.prepared:
        yield entries.line(INSTALLED, "Preparation", entry.prepared)
    for name, own in entry.services.items():
        yield entries.line(rf"{INSTALLED}\Services", name, own)
    for path, file in entry.files.items():
        yield entries.line(FILES, path, file)
    for path in entry.directories:
        yield SetValue(rf"{INSTALLED}\Directories", path, _OWNED if path in entry.owned else sz(""))
    for name, output in entry.outputs.items():
        yield entries.line(rf"{INSTALLED}\Variables", name, output)
