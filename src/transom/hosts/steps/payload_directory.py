"""A payload's directory: `payload.yaml` and the files that it names, each known by its hash."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from pathlib import Path

from transom.proxy.finding import Finding, Place
from transom.sources.payload import FILE, PayloadError, read_payload
from transom.windows.payload import Payload
from transom.windows.payload.lock import Lock, read_lock, resolve, unresolved
from transom.windows.payload.worker import Artifact

LOCK = "payload.lock"
CHUNK = 256 * 1024
"""Bytes of a file that one transfer holds in memory."""


class PayloadDirectory:
    """The payload, its artifacts by source or URL, and their content by hash. One for all hosts; nothing of it changes."""

    def __init__(
        self,
        path: Path,
        payload: Payload,
        artifacts: Mapping[str, Artifact],
        scripts: Mapping[str, bytes],
        files: Mapping[str, Path],
    ) -> None:
        self.path, self.payload, self.artifacts, self.scripts, self._files = path, payload, artifacts, scripts, files

    @classmethod
    def open(cls, path: Path, cache: Path | None = None) -> "PayloadDirectory":
        """Read a directory; every file is hashed once. Raises PayloadError, naming the file.

        Files of URLs that are not in it are those of `cache`.
        """
        file = path / FILE
        payload = described(path)
        findings: list[Finding] = []
        artifacts: dict[str, Artifact] = {}
        files: dict[str, Path] = {}
        place = Place(str(file), "Payload")
        for index, entry in enumerate(payload.files):
            name = entry.artifact
            if not name or name in artifacts:
                continue
            source = _fetched(path, cache, entry.sha256) if entry.url else path / name
            try:
                artifacts[name] = found = _hashed(source)
                files[found.sha256] = source
            except OSError as error:
                hint = "; run transom payload build" if entry.url else ""
                message = f"{source} cannot be read: {error.strerror}{hint}"
                findings.append(place.error(("files", index, "source" if entry.source else "url"), message))
                continue
            if entry.sha256 and entry.sha256 != found.sha256:
                message = f"{source} has another hash, {found.sha256}"
                findings.append(place.error(("files", index, "sha256"), message))
        scripts: dict[str, bytes] = {}
        for index, variable in enumerate(payload.variables):
            if variable.script:
                try:
                    scripts[variable.name] = (path / variable.script).read_bytes()
                except OSError as error:
                    message = f"{path / variable.script} cannot be read: {error.strerror}"
                    findings.append(place.error(("variables", index, "script"), message))
        if findings:
            raise PayloadError(tuple(findings))
        return cls(path, payload, artifacts, scripts, files)

    @property
    def parts(self) -> Mapping[str, Path]:
        """All that the payload is made of, by its path below the directory."""
        found = {file.relative_to(self.path).as_posix(): file for file in self._files.values()}
        scripts = {variable.script for variable in self.payload.variables if variable.script}
        return found | {name: self.path / name for name in (FILE, LOCK, *scripts) if (self.path / name).exists()}

    @cached_property
    def identity(self) -> str:
        """What tells it from another one, also of the same version."""
        content = (
            self.payload,
            sorted((name, one.sha256) for name, one in self.artifacts.items()),
            sorted(self.scripts.items()),
        )
        return f"{self.payload.version} {hashlib.sha256(repr(content).encode()).hexdigest()}"

    async def chunks(self, sha256: str, offset: int) -> AsyncIterator[bytes]:
        """The content of an artifact from `offset` on, `CHUNK` bytes at a time. Raises OSError."""
        file = await asyncio.to_thread(self._files[sha256].open, "rb")
        try:
            file.seek(offset)
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                yield chunk
        finally:
            file.close()


def described(path: Path) -> Payload:
    """What `payload.yaml` of a directory says, with the hashes of its `payload.lock`. Raises PayloadError."""
    file = path / FILE
    try:
        found = resolve(read_payload(file.read_bytes(), str(file)), locked(path))
    except OSError as error:
        raise PayloadError((_missing(file, error),)) from None
    if findings := tuple(unresolved(found, Place(str(file), "Payload"))):
        raise PayloadError(findings)
    return found


def locked(path: Path) -> Lock:
    """The `payload.lock` of a directory; an empty one where there is none. Raises PayloadError."""
    file = path / LOCK
    try:
        return read_lock(file.read_bytes())
    except FileNotFoundError:
        return Lock()
    except (OSError, ValueError) as error:
        raise PayloadError((Finding("error", str(file), "", "", f"cannot be read: {error}"),)) from None


def downloaded(path: Path, sha256: str) -> Path:
    """Where in a directory a file lies that was fetched."""
    return path / "downloads" / sha256


def to_fetch(payload: Payload, path: Path, cache: Path | None = None) -> dict[str, str]:
    """The URLs whose files are neither in the payload's directory nor in `cache`, with their SHA-256.

    What is within an archive is taken out by `payload build` alone.
    """
    wanted = {file.url: file.sha256 for file in payload.files if file.url and not file.member}
    return {url: sha256 for url, sha256 in wanted.items() if not _fetched(path, cache, sha256).exists()}


def _fetched(path: Path, cache: Path | None, sha256: str) -> Path:
    own = downloaded(path, sha256)
    return own if cache is None or own.exists() else downloaded(cache, sha256)


def _hashed(path: Path) -> Artifact:
    with path.open("rb") as file:
        return Artifact(hashlib.file_digest(file, "sha256").hexdigest(), file.tell())


def _missing(file: Path, error: OSError) -> Finding:
    return Finding("error", str(file), "", "", f"cannot be read: {error.strerror}")
