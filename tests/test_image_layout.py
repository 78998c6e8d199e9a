"""An OCI layout that Transom writes: the same bytes for the same content, and read back as it was."""

import json
import os
import tarfile
from pathlib import Path

import pytest

from transom.oci.image_layout import Image, Layout, LayoutError, read_image

EPOCH = 1_700_000_000
CONFIG = {"User": "65532:65532", "Entrypoint": ["transom"]}


def tree(path: Path, names: tuple[str, ...]) -> Path:
    """Some files, made in this order."""
    path.mkdir(parents=True)
    for name in names:
        file = path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(name)
        if name.startswith("bin/"):
            file.chmod(file.stat().st_mode | 0o100)
    (path / "link").symlink_to("bin/run")
    return path


def written(path: Path, names: tuple[str, ...]) -> tuple[Path, str]:
    layout = Layout(path / "layout", EPOCH)
    layer = layout.write_layer(tree(path / "tree", names))
    images = [Image((layer,), architecture, CONFIG) for architecture in ("amd64", "arm64")]
    return layout.directory, layout.write(images, "1", {"org.opencontainers.image.version": "1"})


def contents(path: Path) -> dict[str, bytes]:
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_the_same_bytes_whoever_made_the_files_and_when(tmp_path: Path) -> None:
    names = ("bin/run", "etc/a", "etc/b", "x" * 120)
    first, digest = written(tmp_path / "one", names)
    before = os.umask(0o077)
    try:
        second, other = written(tmp_path / "elsewhere" / "two", names[::-1])
    finally:
        os.umask(before)
    assert other == digest
    assert contents(second) == contents(first)
    found = read_image(first, "arm64")
    assert (found.architecture, found.config) == ("arm64", CONFIG)
    with tarfile.open(first / "blobs" / "sha256" / found.layers[0].digest) as archive:
        entries = {item.name: item for item in archive}
    assert {entry.uid for entry in entries.values()} == {0} and {entry.mtime for entry in entries.values()} == {EPOCH}
    assert (entries["bin/run"].mode, entries["etc/a"].mode, entries["link"].linkname) == (0o755, 0o644, "bin/run")


def test_a_layer_of_another_layout(tmp_path: Path) -> None:
    below, _ = written(tmp_path / "below", ("a",))
    base = read_image(below)
    layout = Layout(tmp_path / "layout", EPOCH)
    for layer in base.layers:
        layout.link_layer(layer, below)
    digest = layout.write(
        [Image((*base.layers, layout.write_layer(tree(tmp_path / "more", ("b",)))), "amd64", base.config)], "2", {}
    )
    (entry,) = json.loads((layout.directory / "index.json").read_bytes())["manifests"]
    assert (entry["digest"], entry["annotations"]) == (digest, {"org.opencontainers.image.ref.name": "2"})
    found = read_image(layout.directory)
    assert found.layers[0] == base.layers[0] and len(found.layers) == 2
    assert all((layout.directory / "blobs" / "sha256" / layer.digest).stat().st_size == layer.size for layer in found.layers)


@pytest.mark.parametrize(
    "index",
    [
        b"",
        b"[]",
        b'{"manifests": [{"digest": "sha256:../../../etc/passwd"}]}',
        b'{"manifests": [{"digest": "sha256:%s"}]}' % (b"0" * 64),
        b'{"manifests": [{"platform": {"architecture": "s390x"}}]}',
    ],
)
def test_what_is_no_layout_is_named(tmp_path: Path, index: bytes) -> None:
    (tmp_path / "index.json").write_bytes(index)
    with pytest.raises(LayoutError, match=str(tmp_path)):
        read_image(tmp_path)
