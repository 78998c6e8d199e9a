"""`payload.lock`: the hashes of what `payload build` has fetched, as the publishers' own checksum files said them then."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from transom.proxy.finding import Finding, Place
from transom.windows.payload.payload import Payload, PayloadFile

VERSION: Final = 1


class LockedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a URL gave: its SHA-256, who said it, and the SHA-256 of the files within it that hosts get."""

    sha256: str
    checksums: str = ""
    members: Mapping[str, str] = {}


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of it, by URL."""

    version: int = VERSION
    files: Mapping[str, LockedFile] = {}

    def to_json(self) -> bytes:
        """Return the lock file's content: JSON, with the URLs in order."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"


def parse_lock(data: bytes) -> Lock:
    """Parse a lock file. Raises ValueError."""
    lock = msgspec.json.decode(data, type=Lock)
    if lock.version != VERSION:
        raise ValueError(f"its version is {lock.version}, and this Transom reads {VERSION}")
    return lock


def resolve_hashes(payload: Payload, lock: Lock) -> Payload:
    """Return the payload with the hash of each file that hosts get, as far as the lock has it."""
    files = tuple(_resolve_file(file, lock.files.get(file.url)) for file in payload.files)
    return msgspec.structs.replace(payload, files=files)


def _resolve_file(file: PayloadFile, locked: LockedFile | None) -> PayloadFile:
    if not file.url or not (file.checksums or file.member):
        return file
    # a hash in payload.yaml takes precedence over the lock
    if locked is None or (file.sha256 and file.sha256 != locked.sha256):
        return msgspec.structs.replace(file, sha256="" if file.member else file.sha256)
    return msgspec.structs.replace(file, sha256=locked.members.get(file.member, "") if file.member else locked.sha256)


def iter_unresolved(payload: Payload, place: Place) -> Iterator[Finding]:
    """Yield a finding for each file of a resolved payload without a known hash."""
    for index, file in enumerate(payload.files):
        if file.url and not file.sha256:
            yield place.build_error(
                ("files", index, "url"), f"{file.url} has no hash in payload.lock: run transom payload build"
            )
