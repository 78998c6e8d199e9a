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

from transom.common.regular_files import open_regular_file, read_regular_file

_OCI: Final = "application/vnd.oci.image."
_REFERENCE: Final = "org.opencontainers.image.ref.name"
_MAX_LAYER: Final = 4 << 30
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

    def write_layer(self, tree: Path) -> ImageLayer:
        """Write a layer of a directory. Files belong to root; of modes only the executable and the sticky bit are kept."""
        part = self.directory / "layer.part"
        with part.open("wb") as file:
            packed = _HashingWriter(file)
            with gzip.GzipFile("", "wb", _LEVEL, packed, mtime=0) as unpacked:
                content = _HashingWriter(unpacked)
                with tarfile.open(fileobj=content, mode="w|", format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]
                    for path in _iter_files(tree):
                        _add(archive, path, tree, self._epoch)
        part.rename(self._get_blob_path(packed.digest))
        return ImageLayer(packed.digest, packed.size, content.digest)

    def link_layer(self, layer: ImageLayer, source: Path) -> None:
        """Have the blob of another layout's layer here, too."""
        target = self._get_blob_path(layer.digest)
        if not target.exists():
            try:
                target.hardlink_to(source / _BLOBS / layer.digest)
            except OSError:
                # another file system
                target.write_bytes(read_regular_file(source / _BLOBS / layer.digest, _MAX_LAYER))

    def write(self, images: Sequence[Image], tag: str, annotations: Mapping[str, str]) -> str:
        """Finish the layout: one image, or an index of one for each architecture, by its tag. Gives its digest, `sha256:…`."""
        entries = [self._write_image(image, annotations) for image in images]
        entry = entries[0]
        if len(entries) > 1:
            platforms = [{"platform": {"os": "linux", "architecture": image.architecture}} for image in images]
            manifests = [item | platform for item, platform in zip(entries, platforms, strict=True)]
            index = {"schemaVersion": 2, "mediaType": f"{_OCI}index.v1+json", "manifests": manifests}
            entry = self._write_json(index | {"annotations": dict(annotations)}, "index.v1+json")
        named = entry | {"annotations": {_REFERENCE: tag}}
        (self.directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        top = {"schemaVersion": 2, "mediaType": f"{_OCI}index.v1+json", "manifests": [named]}
        (self.directory / "index.json").write_bytes(_to_json(top))
        return str(entry["digest"])

    def _write_image(self, image: Image, annotations: Mapping[str, str]) -> dict[str, Any]:
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
        layers = [{"mediaType": kind, "digest": f"sha256:{item.digest}", "size": item.size} for item in image.layers]
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}manifest.v1+json",
            "config": self._write_json(config, "config.v1+json"),
            "layers": layers,
            "annotations": dict(annotations),
        }
        return self._write_json(manifest, "manifest.v1+json")

    def _write_json(self, value: Mapping[str, Any], kind: str) -> dict[str, Any]:
        content = _to_json(value)
        digest = hashlib.sha256(content).hexdigest()
        self._get_blob_path(digest).write_bytes(content)
        return {"mediaType": _OCI + kind, "digest": f"sha256:{digest}", "size": len(content)}

    def _get_blob_path(self, digest: str) -> Path:
        return self.directory / _BLOBS / digest


def read_image(directory: Path, architecture: str = "amd64") -> Image:
    """Read the image of a layout, of several the one for that architecture. Raises LayoutError."""
    try:
        manifest = json.loads(read_regular_file(directory / "index.json"))
        while "manifests" in manifest:
            entries = manifest["manifests"]
            fits = [entry for entry in entries if entry.get("platform", {}).get("architecture", architecture) == architecture]
            if not fits:
                raise LayoutError(f"{directory}: it has no image for {architecture}")
            manifest = json.loads(read_regular_file(directory / _BLOBS / _get_digest(fits[0])))
        config = json.loads(read_regular_file(directory / _BLOBS / _get_digest(manifest["config"])))
        contents = [item.removeprefix("sha256:") for item in config["rootfs"]["diff_ids"]]
        layers = tuple(
            ImageLayer(_get_digest(item), item["size"], content)
            for item, content in zip(manifest["layers"], contents, strict=True)
        )
        return Image(layers, str(config["architecture"]), dict(config.get("config") or {}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LayoutError(f"{directory}: cannot be read as an OCI layout: {error}") from None


def _get_digest(entry: Mapping[str, Any]) -> str:
    digest = str(entry["digest"]).removeprefix("sha256:")
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise ValueError(f"the digest {entry['digest']!r} is not a SHA-256 digest")
    return digest


def _to_json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _iter_files(tree: Path) -> Iterator[Path]:
    """All that is in a directory, by name, each directory before what is in it."""
    for path in sorted(tree.iterdir(), key=lambda path: os.fsencode(path.name)):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _iter_files(path)


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
        status = path.stat()
        entry.mode, entry.size = (0o755 if status.st_mode & 0o100 else 0o644), status.st_size
        with open_regular_file(path) as content:
            archive.addfile(entry, content)


class _HashingWriter:
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
