"""`payload.lock`: the hashes of what `payload build` has fetched, as the publishers' own checksum files said them then."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from transom.proxy.finding import Finding, Place
from transom.windows.payload import Payload, PayloadFile

VERSION: Final = 1


class Locked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a URL gave: its SHA-256, who said it, and the SHA-256 of the files within it that hosts get."""

    sha256: str
    checksums: str = ""
    members: Mapping[str, str] = {}


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of it, by URL."""

    version: int = VERSION
    files: Mapping[str, Locked] = {}

    def text(self) -> bytes:
        """As it is written: JSON, with the URLs in order."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"


def read_lock(data: bytes) -> Lock:
    """The lock of a text. Raises ValueError."""
    found = msgspec.json.decode(data, type=Lock)
    if found.version != VERSION:
        raise ValueError(f"its version is {found.version}, and this Transom reads {VERSION}")
    return found


def resolve(payload: Payload, lock: Lock) -> Payload:
    """The payload with the hash of each file that hosts get, as far as the lock has it."""
    files = tuple(_resolved(file, lock.files.get(file.url)) for file in payload.files)
    return msgspec.structs.replace(payload, files=files)


def _resolved(file: PayloadFile, locked: Locked | None) -> PayloadFile:
    if not file.url or not (file.checksums or file.member):
        return file
    # a hash that somebody wrote into payload.yaml holds against the lock
    if locked is None or (file.sha256 and file.sha256 != locked.sha256):
        return msgspec.structs.replace(file, sha256="" if file.member else file.sha256)
    return msgspec.structs.replace(file, sha256=locked.members.get(file.member, "") if file.member else locked.sha256)


def unresolved(payload: Payload, place: Place) -> Iterator[Finding]:
    """The files of a resolved payload whose hash nobody knows yet."""
    for index, file in enumerate(payload.files):
        if file.url and not file.sha256:
            yield place.error(("files", index, "url"), f"{file.url} has no hash in payload.lock: run transom payload build")
