"""The programs of OpenShift's payload out of an image: in each form that tools write, and what is wrong with one is named."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml
from tests.support.workers.shipped import shipped
from typer.testing import CliRunner

from transom.cli import program as cli
from transom.oci.image_files import ImageError, extract_files

NAMES = [file["source"] for file in yaml.safe_load(shipped("default"))["files"] if "source" in file]


def archive(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            made.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def program(name: str) -> bytes:
    return b"MZ " + name.encode()


def packed(name: str, data: bytes | None = None) -> bytes:
    return gzip.compress(archive({name.rpartition("/")[2]: data or program(name)}))


def layers() -> list[bytes]:
    """As WMCO builds them: programs packed one by one, hashes beside them; another program and a file below."""
    old = {"payload/kube-node/kubelet.exe.tar.gz": packed("kube-node/kubelet.exe", b"MZ old"), "payload/gone.exe": b"x"}
    sums = "".join(f"{hashlib.sha256(program(name)).hexdigest()}  /build/{name}\n" for name in NAMES)
    new = {f"payload/{name}.tar.gz": packed(name) for name in NAMES}
    return [
        archive(old),
        gzip.compress(archive(new | {"payload/sha256sum": sums.encode()})),
        archive({"payload/.wh.gone.exe": b""}),
    ]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def oci(made: list[bytes]) -> dict[str, bytes]:
    manifest = json.dumps({"layers": [{"digest": f"sha256:{digest(item)}"} for item in made]}).encode()
    entry = {"digest": f"sha256:{digest(manifest)}"}
    other = {"digest": f"sha256:{'0' * 64}", "platform": {"architecture": "arm64"}}
    index = json.dumps({"manifests": [other, entry | {"platform": {"architecture": "amd64"}}]}).encode()
    return {"index.json": index} | {f"blobs/sha256/{digest(item)}": item for item in (manifest, *made)}


def saved(made: list[bytes]) -> dict[str, bytes]:
    manifest = json.dumps([{"Layers": [f"{number}/layer.tar" for number in range(len(made))]}]).encode()
    return {"manifest.json": manifest} | {f"{number}/layer.tar": item for number, item in enumerate(made)}


def copied(made: list[bytes]) -> dict[str, bytes]:
    manifest = json.dumps({"layers": [{"digest": f"sha256:{digest(item)}"} for item in made]}).encode()
    return {"manifest.json": manifest} | {digest(item): item for item in made}


def plain(made: list[bytes]) -> dict[str, bytes]:
    return {f"payload/{name}": program(name) for name in NAMES}


def directory(path: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def tarball(path: Path, files: Mapping[str, bytes]) -> Path:
    path.write_bytes(archive(files))
    return path


@pytest.mark.parametrize("lay", [directory, tarball])
@pytest.mark.parametrize("form", [oci, saved, copied])
def test_the_shipped_payload_is_complete_with_the_image(
    tmp_path: Path, form: Callable[[list[bytes]], dict[str, bytes]], lay: Callable[[Path, Mapping[str, bytes]], Path]
) -> None:
    image = lay(tmp_path / "image", form(layers()))
    target = tmp_path / "payload"
    shipped("default", "--output-dir", str(target))
    assert "7 services" in shipped("build", str(target), "--from-image", str(image))
    assert {name: (target / name).read_bytes() for name in NAMES} == {name: program(name) for name in NAMES}
    # what is there stays, and the image is not needed for it
    shipped("build", str(target), "--from-image", str(image))


def test_a_plain_directory(tmp_path: Path) -> None:
    extract_files(directory(tmp_path / "image", plain([])), "payload", NAMES, tmp_path)
    assert (tmp_path / "kube-node/kubelet.exe").read_bytes() == program("kube-node/kubelet.exe")


def changed(files: dict[str, bytes], at: str) -> dict[str, bytes]:
    return files | {at: files[at][:-1] + bytes([files[at][-1] ^ 1])}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "it has no payload/"),
        (saved(layers()[:1]), "it has no payload/"),
        (changed(oci(layers()), f"blobs/sha256/{digest(layers()[2])}"), "has another hash than the manifest says"),
        (saved([archive({"payload/a.exe.tar.gz": b"not gzip"})]), "a.exe.tar.gz cannot be read"),
        (
            saved([archive({"payload/a.exe": b"x", "payload/sha256sum": b"0" * 64 + b"  a.exe\n"})]),
            "another hash than payload/sha256sum",
        ),
        ({"manifest.json": b"{}"}, "cannot be read as an image"),
        ({"manifest.json": b'[{"Layers": ["../../etc/passwd"]}]'}, "is not part of an image"),
        (saved([b"\x28\xb5\x2f\xfd zstd"]), "is packed with zstd"),
    ],
)
def test_what_is_wrong_with_an_image_is_named_and_nothing_is_written(
    tmp_path: Path, files: dict[str, bytes], says: str
) -> None:
    (tmp_path / "image").mkdir()
    with pytest.raises(ImageError, match=says):
        extract_files(
            directory(tmp_path / "image", files), "payload", ["a.exe"] if "payload" not in says[:14] else NAMES, tmp_path / "to"
        )
    assert not (tmp_path / "to").exists()


def test_the_command_names_it(tmp_path: Path) -> None:
    target = tmp_path / "payload"
    shipped("default", "--output-dir", str(target))
    done = CliRunner().invoke(
        cli.build_program(), ["payload", "build", str(target), "--from-image", str(tmp_path / "none.tar")]
    )
    assert done.exit_code == 2
    assert "--from-image:" in done.stderr and "none.tar" in done.stderr
