"""A payload's directory: `payload.yaml` and the files that it names, each known by its hash."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from pathlib import Path

from transom.common.regular_files import open_regular_file, read_regular_file
from transom.proxy.finding import Finding, Place
from transom.sources.payload import FILE, PayloadError, parse_payload
from transom.windows.payload.lock import Lock, iter_unresolved, parse_lock, resolve_hashes
from transom.windows.payload.payload import Payload
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
        payload = read_resolved_payload(path)
        findings: list[Finding] = []
        artifacts: dict[str, Artifact] = {}
        files: dict[str, Path] = {}
        place = Place(str(file), "Payload")
        for index, entry in enumerate(payload.files):
            name = entry.artifact
            if not name or name in artifacts:
                continue
            source = _find_download(path, cache, entry.sha256) if entry.url else path / name
            try:
                artifacts[name] = artifact = _hash_file(source)
                files[artifact.sha256] = source
            except OSError as error:
                hint = "; run transom payload build" if entry.url else ""
                message = f"{source} cannot be read: {error.strerror}{hint}"
                findings.append(place.build_error(("files", index, "source" if entry.source else "url"), message))
                continue
            if entry.sha256 and entry.sha256 != artifact.sha256:
                message = f"{source} has another hash, {artifact.sha256}"
                findings.append(place.build_error(("files", index, "sha256"), message))
        scripts: dict[str, bytes] = {}
        for index, variable in enumerate(payload.variables):
            if variable.script:
                try:
                    scripts[variable.name] = read_regular_file(path / variable.script)
                except OSError as error:
                    message = f"{path / variable.script} cannot be read: {error.strerror}"
                    findings.append(place.build_error(("variables", index, "script"), message))
        if findings:
            raise PayloadError(tuple(findings))
        return cls(path, payload, artifacts, scripts, files)

    @property
    def parts(self) -> Mapping[str, Path]:
        """All that the payload is made of, by its path below the directory."""
        paths = {file.relative_to(self.path).as_posix(): file for file in self._files.values()}
        scripts = {variable.script for variable in self.payload.variables if variable.script}
        return paths | {name: self.path / name for name in (FILE, LOCK, *scripts) if (self.path / name).exists()}

    @cached_property
    def identity(self) -> str:
        """What tells it from another one, also of the same version."""
        content = (
            self.payload,
            sorted((name, artifact.sha256) for name, artifact in self.artifacts.items()),
            sorted(self.scripts.items()),
        )
        return f"{self.payload.version} {hashlib.sha256(repr(content).encode()).hexdigest()}"

    async def iter_chunks(self, sha256: str, offset: int) -> AsyncIterator[bytes]:
        """Yield the content of an artifact from `offset` on, `CHUNK` bytes at a time. Raises OSError."""
        file = await asyncio.to_thread(open_regular_file, self._files[sha256])
        try:
            file.seek(offset)
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                yield chunk
        finally:
            file.close()


def read_resolved_payload(path: Path) -> Payload:
    """Read a directory's `payload.yaml` with the hashes of its `payload.lock`. Raises PayloadError."""
    file = path / FILE
    try:
        payload = resolve_hashes(parse_payload(read_regular_file(file), str(file)), read_lock_file(path))
    except OSError as error:
        raise PayloadError((_build_missing_finding(file, error),)) from None
    if findings := tuple(iter_unresolved(payload, Place(str(file), "Payload"))):
        raise PayloadError(findings)
    return payload


def read_lock_file(path: Path) -> Lock:
    """Read the `payload.lock` of a directory; an empty lock if it has none. Raises PayloadError."""
    file = path / LOCK
    try:
        return parse_lock(read_regular_file(file))
    except FileNotFoundError:
        return Lock()
    except (OSError, ValueError) as error:
        raise PayloadError((Finding("error", str(file), "", "", f"cannot be read: {error}"),)) from None


def get_download_path(path: Path, sha256: str) -> Path:
    """Return the path of a downloaded file in a directory."""
    return path / "downloads" / sha256


def list_missing_downloads(payload: Payload, path: Path, cache: Path | None = None) -> dict[str, str]:
    """Return URL and SHA-256 of the files that are neither in the payload's directory nor in `cache`.

    Only `payload build` extracts files from archives.
    """
    wanted = {file.url: file.sha256 for file in payload.files if file.url and not file.member}
    return {url: sha256 for url, sha256 in wanted.items() if not _find_download(path, cache, sha256).exists()}


def _find_download(path: Path, cache: Path | None, sha256: str) -> Path:
    own = get_download_path(path, sha256)
    return own if cache is None or own.exists() else get_download_path(cache, sha256)


def _hash_file(path: Path) -> Artifact:
    with open_regular_file(path) as file:
        return Artifact(hashlib.file_digest(file, "sha256").hexdigest(), file.tell())


def _build_missing_finding(file: Path, error: OSError) -> Finding:
    return Finding("error", str(file), "", "", f"cannot be read: {error.strerror}")
