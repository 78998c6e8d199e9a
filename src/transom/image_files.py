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
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

_WHITEOUT = ".wh."
_SUMS = "sha256sum"
_CHUNK = 1024 * 1024
_ZSTD = b"\x28\xb5\x2f\xfd"


class ImageError(Exception):
    """An image that cannot be read, or in which something is missing or is not what it should be; the message names it."""


def take(image: Path, below: str, wanted: Iterable[str], target: Path) -> None:
    """Write files of an image below `target`, each by its path below the directory `below` of the image.

    A file may lie in the image as it is, or as the only one in a `.tar.gz` of its name. Where `below` has a file `sha256sum`,
    that has its hash. Raises ImageError, with nothing written of a file that is wrong.
    """
    names = sorted(set(wanted))
    found: dict[str, bytes] = {}
    try:
        for path, content in _files(image):
            inner = path.removeprefix(f"{below}/")
            if inner == path:
                continue
            if content is None:
                gone = [one for one in found if one == inner or one.startswith(f"{inner}/")]
                for one in gone:
                    del found[one]
            elif inner == _SUMS or inner in names or inner.removesuffix(".tar.gz") in names:
                found.pop(inner.removesuffix(".tar.gz"), None)
                found[inner] = content.read()
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError, EOFError) as error:
        raise ImageError(f"{image}: cannot be read as an image: {error}") from None
    sums = _sums(found.get(_SUMS, b""))
    missing = [name for name in names if name not in found and f"{name}.tar.gz" not in found]
    if missing:
        raise ImageError(
            f"{image}: it has no {below}/{missing[0]}" + (f" (and {len(missing) - 1} more)" if missing[1:] else "")
        )
    made = {name: found[name] if name in found else _packed(found[f"{name}.tar.gz"], name, image) for name in names}
    for name, data in made.items():
        expected = sums.get(name.rpartition("/")[2])
        if expected is not None and hashlib.sha256(data).hexdigest() != expected:
            raise ImageError(f"{image}: {below}/{name} has another hash than {below}/{_SUMS} says")
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)


def _packed(data: bytes, name: str, image: Path) -> bytes:
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            for member in archive:
                if member.isreg() and member.name.rpartition("/")[2] == name.rpartition("/")[2]:
                    content = archive.extractfile(member)
                    assert content is not None
                    return content.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ImageError(f"{image}: {name}.tar.gz cannot be read: {error}") from None
    raise ImageError(f"{image}: {name}.tar.gz has no {name.rpartition('/')[2]} in it")


def _sums(data: bytes) -> dict[str, str]:
    """SHA-256 by file name, of a text as `sha256sum` writes it."""
    pairs = (line.split(maxsplit=1) for line in data.decode("utf-8", "replace").splitlines())
    return {pair[1].strip().rpartition("/")[2]: pair[0] for pair in pairs if len(pair) == 2}


def _files(image: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Each file of an image by its path, layer by layer; None: a layer takes it away."""
    if image.is_dir() and not any((image / name).is_file() for name in ("index.json", "manifest.json")):
        for path in sorted(image.rglob("*")):
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as content:
                    yield path.relative_to(image).as_posix(), content
        return
    with _opened(image) as store:
        for digest, name in _layers(store):
            with store.blob(name) as blob:
                if digest and _hash(blob) != digest:
                    raise ValueError(f"layer {name} has another hash than the manifest says")
                yield from _of_layer(blob, name)


def _hash(blob: IO[bytes]) -> str:
    found = hashlib.sha256()
    while chunk := blob.read(_CHUNK):
        found.update(chunk)
    blob.seek(0)
    return found.hexdigest()


def _of_layer(blob: IO[bytes], name: str) -> Iterator[tuple[str, IO[bytes] | None]]:
    if blob.read(len(_ZSTD)) == _ZSTD:
        raise ValueError(f"layer {name} is packed with zstd, which is not read here: copy the image with gzip")
    blob.seek(0)
    with tarfile.open(fileobj=blob, mode="r:*") as archive:
        for member in archive:
            path = member.name.removeprefix("./").strip("/")
            directory, _, last = path.rpartition("/")
            if last.startswith(_WHITEOUT):
                gone = directory if last == f"{_WHITEOUT}{_WHITEOUT}.opq" else f"{directory}/{last.removeprefix(_WHITEOUT)}"
                yield gone.strip("/"), None
            elif member.isreg():
                yield path, archive.extractfile(member)


class _Store:
    """The parts of an image by name."""

    def __init__(self, directory: Path | None, archive: tarfile.TarFile | None) -> None:
        self._directory, self._archive = directory, archive

    def json(self, name: str) -> Any:
        with self.blob(name) as content:
            return json.loads(content.read())

    def has(self, name: str) -> bool:
        if self._directory is not None:
            return (self._directory / name).is_file()
        assert self._archive is not None
        return name in {one.removeprefix("./") for one in self._archive.getnames()}

    def blob(self, name: str) -> IO[bytes]:
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"{name} is no part of an image")
        if self._directory is not None:
            return (self._directory / name).open("rb")
        assert self._archive is not None
        names = {one.removeprefix("./"): one for one in self._archive.getnames()}
        content = self._archive.extractfile(names[name])
        if content is None:
            raise ValueError(f"{name} is no file")
        return content


@contextlib.contextmanager
def _opened(image: Path) -> Iterator[_Store]:
    if image.is_dir():
        yield _Store(image, None)
        return
    with tarfile.open(image) as archive:
        yield _Store(None, archive)


def _layers(store: _Store) -> Iterator[tuple[str, str]]:
    """The layers, lowest first: SHA-256 (empty where nobody says it) and name."""
    if store.has("index.json"):
        manifest = _manifest(store, store.json("index.json"))
        yield from ((_hex(one), f"blobs/sha256/{_hex(one)}") for one in manifest["layers"])
        return
    manifest = store.json("manifest.json")
    if isinstance(manifest, list):
        yield from (("", str(name)) for name in manifest[0]["Layers"])
    else:
        yield from ((_hex(one), _hex(one)) for one in manifest["layers"])


def _manifest(store: _Store, index: Mapping[str, Any]) -> Mapping[str, Any]:
    """The manifest of an index: its only one, or the one for Linux on x86-64."""
    entries = index["manifests"]
    ours = [one for one in entries if (one.get("platform") or {}).get("architecture", "amd64") == "amd64"]
    found: Mapping[str, Any] = store.json(f"blobs/sha256/{_hex((ours or entries)[0])}")
    return _manifest(store, found) if "manifests" in found else found


def _hex(entry: Mapping[str, Any]) -> str:
    kind, _, text = str(entry["digest"]).partition(":")
    if kind != "sha256" or len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise ValueError(f"the digest {entry['digest']!r} is no SHA-256")
    return text
