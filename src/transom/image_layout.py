"""An OCI image layout, written without an engine: the same content gives the same bytes.

The OCI image specification 1.1 says what is in it (image-layout.md, image-index.md, manifest.md, config.md, layer.md);
`skopeo copy oci:DIR:TAG docker://…` puts one into a registry.
"""

import gzip
import hashlib
import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import msgspec

_OCI: Final = "application/vnd.oci.image."
_REFERENCE: Final = "org.opencontainers.image.ref.name"
_BLOBS: Final = "blobs/sha256"
_LEVEL: Final = 6


class LayoutError(Exception):
    """A layout that cannot be read; the message names it."""


class ImageLayer(msgspec.Struct, frozen=True):
    """A layer of a layout: the SHA-256 of its blob, its size in bytes, and the SHA-256 of what is packed in it."""

    digest: str
    size: int
    content: str


class Image(msgspec.Struct, frozen=True):
    """An image for Linux: its layers, lowest first, the architecture as Go names it, and the `config` of its configuration."""

    layers: tuple[ImageLayer, ...]
    architecture: str
    config: Mapping[str, Any]


class Layout:
    """A directory that images are written to."""

    def __init__(self, directory: Path, epoch: int) -> None:
        """`epoch` (seconds since 1970) is the time of all that is written: SOURCE_DATE_EPOCH of reproducible-builds.org."""
        self.directory, self._epoch = directory, epoch
        (directory / _BLOBS).mkdir(parents=True, exist_ok=True)

    def layer(self, tree: Path) -> ImageLayer:
        """A layer of all that is below a directory. Files are root's; of modes is kept what runs, and a sticky bit."""
        part = self.directory / "layer.part"
        with part.open("wb") as file:
            packed = _Hashed(file)
            with gzip.GzipFile("", "wb", _LEVEL, packed, mtime=0) as unpacked:
                content = _Hashed(unpacked)
                with tarfile.open(fileobj=content, mode="w|", format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]
                    for path in _below(tree):
                        _add(archive, path, tree, self._epoch)
        part.rename(self._blob(packed.digest))
        return ImageLayer(packed.digest, packed.size, content.digest)

    def take(self, layer: ImageLayer, source: Path) -> None:
        """Have the blob of another layout's layer here, too."""
        target = self._blob(layer.digest)
        if not target.exists():
            try:
                target.hardlink_to(source / _BLOBS / layer.digest)
            except OSError:
                # another file system
                target.write_bytes((source / _BLOBS / layer.digest).read_bytes())

    def write(self, images: Sequence[Image], tag: str, annotations: Mapping[str, str]) -> str:
        """Finish the layout: one image, or an index of one for each architecture, by its tag. Gives its digest, `sha256:…`."""
        entries = [self._image(image, annotations) for image in images]
        entry = entries[0]
        if len(entries) > 1:
            platforms = [{"platform": {"os": "linux", "architecture": image.architecture}} for image in images]
            manifests = [one | platform for one, platform in zip(entries, platforms, strict=True)]
            index = {"schemaVersion": 2, "mediaType": f"{_OCI}index.v1+json", "manifests": manifests}
            entry = self._json(index | {"annotations": dict(annotations)}, "index.v1+json")
        named = entry | {"annotations": {_REFERENCE: tag}}
        (self.directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        top = {"schemaVersion": 2, "mediaType": f"{_OCI}index.v1+json", "manifests": [named]}
        (self.directory / "index.json").write_bytes(_text(top))
        return str(entry["digest"])

    def _image(self, image: Image, annotations: Mapping[str, str]) -> dict[str, Any]:
        created = datetime.fromtimestamp(self._epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        config = {
            "created": created,
            "architecture": image.architecture,
            "os": "linux",
            "config": dict(image.config),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.content}" for layer in image.layers]},
            "history": [{"created": created, "created_by": "transom"} for _ in image.layers],
        }
        kind = f"{_OCI}layer.v1.tar+gzip"
        layers = [{"mediaType": kind, "digest": f"sha256:{one.digest}", "size": one.size} for one in image.layers]
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}manifest.v1+json",
            "config": self._json(config, "config.v1+json"),
            "layers": layers,
            "annotations": dict(annotations),
        }
        return self._json(manifest, "manifest.v1+json")

    def _json(self, value: Mapping[str, Any], kind: str) -> dict[str, Any]:
        content = _text(value)
        digest = hashlib.sha256(content).hexdigest()
        self._blob(digest).write_bytes(content)
        return {"mediaType": _OCI + kind, "digest": f"sha256:{digest}", "size": len(content)}

    def _blob(self, digest: str) -> Path:
        return self.directory / _BLOBS / digest


def read(directory: Path, architecture: str = "amd64") -> Image:
    """The image of a layout, of several the one of that architecture. Raises LayoutError."""
    try:
        manifest = json.loads((directory / "index.json").read_bytes())
        while "manifests" in manifest:
            entries = manifest["manifests"]
            fits = [one for one in entries if one.get("platform", {}).get("architecture", architecture) == architecture]
            if not fits:
                raise LayoutError(f"{directory}: it has no image for {architecture}")
            manifest = json.loads((directory / _BLOBS / _hex(fits[0])).read_bytes())
        config = json.loads((directory / _BLOBS / _hex(manifest["config"])).read_bytes())
        contents = [one.removeprefix("sha256:") for one in config["rootfs"]["diff_ids"]]
        layers = tuple(
            ImageLayer(_hex(one), one["size"], content) for one, content in zip(manifest["layers"], contents, strict=True)
        )
        return Image(layers, str(config["architecture"]), dict(config.get("config") or {}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LayoutError(f"{directory}: cannot be read as an OCI layout: {error}") from None


def _hex(entry: Mapping[str, Any]) -> str:
    digest = str(entry["digest"]).removeprefix("sha256:")
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise ValueError(f"the digest {entry['digest']!r} is no SHA-256")
    return digest


def _text(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _below(tree: Path) -> Iterator[Path]:
    """All that is in a directory, by name, each directory before what is in it."""
    for path in sorted(tree.iterdir(), key=lambda one: os.fsencode(one.name)):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)


def _add(archive: tarfile.TarFile, path: Path, tree: Path, epoch: int) -> None:
    entry = tarfile.TarInfo(path.relative_to(tree).as_posix())
    entry.mtime = epoch
    if path.is_symlink():
        entry.type, entry.mode, entry.linkname = tarfile.SYMTYPE, 0o777, str(path.readlink())
        archive.addfile(entry)
    elif path.is_dir():
        entry.type, entry.mode = tarfile.DIRTYPE, (0o1777 if path.stat().st_mode & 0o1000 else 0o755)
        archive.addfile(entry)
    else:
        found = path.stat()
        entry.mode, entry.size = (0o755 if found.st_mode & 0o100 else 0o644), found.st_size
        with path.open("rb") as content:
            archive.addfile(entry, content)


class _Hashed:
    """Writes to a file, and knows the SHA-256 and the size of what it wrote."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile) -> None:
        self._file, self._hash, self.size = file, hashlib.sha256(), 0

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()
