"""What the publishers of a payload's programs serve: the files of its URLs, and their checksum files beside them."""

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.sources.payload import parse_payload
from transom.windows.payload.lock import Lock, LockedFile
from transom.windows.payload.payload import Payload

HOSTS = ("github.com", "dl.k8s.io")


def published(payload: Payload, programs: Mapping[str, bytes]) -> dict[str, bytes]:
    """Contents by URL; `programs` by the file's name on the host, and a few bytes for each other one."""
    wholes: dict[str, bytes] = {}
    archives: dict[str, dict[str, bytes]] = {}
    for file in payload.files:
        name = file.path.rpartition("\\")[2]
        content = programs.get(name, b"MZ " + name.encode())
        if file.member:
            archives.setdefault(file.url, {})[file.member] = content
        elif file.url:
            wholes[file.url] = content
    wholes |= {url: _packed(members) for url, members in archives.items()}
    served: dict[str, bytes] = {}
    for file in payload.files:
        if file.url:
            served |= beside(file.url, wholes[file.url], file.checksums)
    return served


def beside(url: str, content: bytes, checksums: str) -> dict[str, bytes]:
    """A file, and its checksum file: a hash alone as on dl.k8s.io, else as `sha256sum` writes it, with another line."""
    digest = hashlib.sha256(content).hexdigest()
    line = digest if checksums.startswith("https://dl.k8s.io/") else f"{'0' * 64}  other\n{digest}  {url.rpartition('/')[2]}\n"
    return {url: content, checksums: line.encode()}


def _packed(members: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def completed(directory: Path) -> PayloadDirectory:
    """A payload's directory as `payload build` leaves it, with programs that a simulated host starts."""
    found: dict[str, LockedFile] = {}
    (directory / "downloads").mkdir()
    for file in parse_payload((directory / "payload.yaml").read_bytes()).files:
        if not file.url:
            continue
        content = b"MZservice " + file.path.encode()
        sha256 = hashlib.sha256(content).hexdigest()
        (directory / "downloads" / sha256).write_bytes(content)
        members = {**(found[file.url].members if file.url in found else {}), **({file.member: sha256} if file.member else {})}
        found[file.url] = LockedFile(sha256, file.checksums, members)
    (directory / "payload.lock").write_bytes(Lock(files=found).to_json())
    return PayloadDirectory.open(directory)
