"""Files out of a container image that lies here as a directory or a tarball: no engine, no registry.

It reads four kinds:

- an OCI layout, `index.json` and `blobs/` (OCI, "Image Layout");
- what `docker save` or `podman save` writes, `manifest.json` with `Layers`;
- what `skopeo copy docker://… dir:…` writes;
- a plain directory with the image's files.
"""

import contextlib
import hashlib
import io
import json
import posixpath
import tarfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from transom.common.archives import MAX_MEMBERS, iterate_members, open_tar, read_bounded
from transom.common.regular_files import open_regular_file

_WHITEOUT = ".wh."
_SUMS = "sha256sum"
_CHUNK = 1024 * 1024
_MAX_MANIFEST = 16 << 20
_BROKEN = (OSError, ValueError, EOFError, tarfile.TarError, zlib.error)
"""Errors that reading an untrusted archive raises."""
_ZSTD = b"\x28\xb5\x2f\xfd"


class ImageError(Exception):
    """An image that cannot be read, or in which something is missing or is not what it should be; the message names it."""


def extract_files(image: Path, source_directory: str, file_names: Iterable[str], target: Path) -> None:
    """Write files of an image below `target`, each by its path below the directory `source_directory` of the image.

    A file may be in the image directly, or as the only one in a `.tar.gz` of its name. Where `source_directory` has a
    file `sha256sum`, that has its hash. Raises ImageError, with nothing written of a file that is wrong.
    """
    names = sorted(set(file_names))
    files: dict[str, bytes] = {}
    try:
        for path, content in _iter_files(image):
            inner = path.removeprefix(f"{source_directory}/")
            if inner == path:
                continue
            if content is None:
                removed = [item for item in files if item == inner or item.startswith(f"{inner}/")]
                for entry in removed:
                    del files[entry]
            elif inner == _SUMS or inner in names or inner.removesuffix(".tar.gz") in names:
                files.pop(inner.removesuffix(".tar.gz"), None)
                files[inner] = read_bounded(content)
    except (*_BROKEN, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ImageError(f"{image}: cannot be read as an image: {error}") from None
    sums = _parse_checksums(files.get(_SUMS, b""))
    missing = [name for name in names if name not in files and f"{name}.tar.gz" not in files]
    if missing:
        raise ImageError(
            f"{image}: it has no {source_directory}/{missing[0]}" + (f" (and {len(missing) - 1} more)" if missing[1:] else "")
        )
    made = {name: files[name] if name in files else _unpack(files[f"{name}.tar.gz"], name, image) for name in names}
    for name, data in made.items():
        expected = sums.get(name.rpartition("/")[2])
        if expected is not None and hashlib.sha256(data).hexdigest() != expected:
            raise ImageError(f"{image}: {source_directory}/{name} has another hash than {source_directory}/{_SUMS} says")
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)


def _unpack(data: bytes, name: str, image: Path) -> bytes:
    try:
        with open_tar(io.BytesIO(data)) as archive:
            for member in iterate_members(archive):
                is_same = member.isreg() and member.name.rpartition("/")[2] == name.rpartition("/")[2]
                if is_same and (content := archive.extractfile(member)) is not None:
                    return read_bounded(content)
    except _BROKEN as error:
        raise ImageError(f"{image}: {name}.tar.gz cannot be read: {error}") from None
    raise ImageError(f"{image}: {name}.tar.gz has no {name.rpartition('/')[2]} in it")


def _parse_checksums(data: bytes) -> dict[str, str]:
    """Parse the output of `sha256sum`: SHA-256 by file name."""
    pairs = (line.split(maxsplit=1) for line in data.decode("utf-8", "replace").splitlines())
    return {pair[1].strip().rpartition("/")[2]: pair[0] for pair in pairs if len(pair) == 2}


def _iter_files(image: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Iterate over the files of an image by path, layer by layer; None: a layer deletes the file."""
    if image.is_dir() and not any((image / name).is_file() for name in ("index.json", "manifest.json")):
        for path in sorted(image.rglob("*")):
            if path.is_file() and not path.is_symlink():
                with open_regular_file(path) as content:
                    yield path.relative_to(image).as_posix(), content
        return
    with _open_store(image) as store:
        for digest, name in _iter_layers(store):
            with store.open_blob(name) as blob:
                if digest and _hash(blob) != digest:
                    raise ValueError(f"layer {name} has another hash than the manifest says")
                yield from _iter_layer(blob, name)


def _hash(blob: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := blob.read(_CHUNK):
        digest.update(chunk)
    blob.seek(0)
    return digest.hexdigest()


def _iter_layer(blob: IO[bytes], name: str) -> Iterator[tuple[str, IO[bytes] | None]]:
    if blob.read(len(_ZSTD)) == _ZSTD:
        raise ValueError(f"layer {name} is packed with zstd, which is not read here: copy the image with gzip")
    blob.seek(0)
    with open_tar(blob) as archive:
        for member in iterate_members(archive):
            path = member.name.removeprefix("./").strip("/")
            directory, _, last = path.rpartition("/")
            if last.startswith(_WHITEOUT):
                deleted = directory if last == f"{_WHITEOUT}{_WHITEOUT}.opq" else f"{directory}/{last.removeprefix(_WHITEOUT)}"
                yield deleted.strip("/"), None
            elif member.isreg():
                yield path, archive.extractfile(member)


class _Store(ABC):
    """The parts of an image by name."""

    def read_json(self, name: str) -> Any:
        with self.open_blob(name) as content:
            return json.loads(read_bounded(content, _MAX_MANIFEST))

    def open_blob(self, name: str) -> IO[bytes]:
        """Open a part. Raises ValueError for a name that leads out of the image, KeyError and OSError for a missing part."""
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"{name} is not part of an image")
        return self._open(name)

    @abstractmethod
    def has(self, name: str) -> bool:
        """Return True if the image has a part of this name."""

    @abstractmethod
    def _open(self, name: str) -> IO[bytes]: ...


class _DirectoryStore(_Store):
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def has(self, name: str) -> bool:
        return (self._directory / name).is_file()

    def _open(self, name: str) -> IO[bytes]:
        return open_regular_file(self._directory / name)


class _ArchiveStore(_Store):
    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._members = {member.name.removeprefix("./"): member for member in iterate_members(archive, MAX_MEMBERS)}

    def has(self, name: str) -> bool:
        return name in self._members

    def _open(self, name: str) -> IO[bytes]:
        member = self._members[name]
        if member.issym() or member.islnk():
            # `docker save` writes a layer once, and links to it (moby, image/tarexport/save.go)
            directory = posixpath.dirname(name) if member.issym() else ""
            member = self._members[posixpath.normpath(posixpath.join(directory, member.linkname))]
        content = self._archive.extractfile(member) if member.isreg() else None
        if content is None:
            raise ValueError(f"{name} is not a file")
        return content


@contextlib.contextmanager
def _open_store(image: Path) -> Iterator[_Store]:
    if image.is_dir():
        yield _DirectoryStore(image)
        return
    with open_regular_file(image) as file, open_tar(file) as archive:
        yield _ArchiveStore(archive)


def _iter_layers(store: _Store) -> Iterator[tuple[str, str]]:
    """Iterate over the layers, lowest first: SHA-256 (empty if unknown) and name."""
    if store.has("index.json"):
        manifest = _select_manifest(store, store.read_json("index.json"))
        yield from ((_get_digest(layer), f"blobs/sha256/{_get_digest(layer)}") for layer in manifest["layers"])
        return
    manifest = store.read_json("manifest.json")
    if isinstance(manifest, list):
        yield from (("", str(name)) for name in manifest[0]["Layers"])
    else:
        yield from ((_get_digest(layer), _get_digest(layer)) for layer in manifest["layers"])


def _select_manifest(store: _Store, index: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the manifest of an index: its only one, or the one for Linux on x86-64."""
    entries = index["manifests"]
    ours = [entry for entry in entries if (entry.get("platform") or {}).get("architecture", "amd64") == "amd64"]
    manifest: Mapping[str, Any] = store.read_json(f"blobs/sha256/{_get_digest((ours or entries)[0])}")
    return _select_manifest(store, manifest) if "manifests" in manifest else manifest


def _get_digest(entry: Mapping[str, Any]) -> str:
    kind, _, text = str(entry["digest"]).partition(":")
    if kind != "sha256" or len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise ValueError(f"the digest {entry['digest']!r} is not a SHA-256 digest")
    return text
