"""Files that somebody else wrote: manifests, templates, bundles, keys, known_hosts, archives and images."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from tests.entry_points.attacks import (
    ARCHIVE_VARIANTS,
    BUNDLES,
    IMAGES,
    KNOWN_HOSTS,
    PRIVATE_KEYS,
    TEMPLATES,
    YAML_VARIANTS,
    build_image,
    build_kit,
)
from tests.entry_points.entry_point import MIB, Bench, OpenBench
from tests.sources.bad_input import BAD, HEAD
from tests.support.bundles import certificate
from tests.support.command import run
from tests.support.hostile_files import HOSTILE_ARCHIVES, HOSTILE_FILES, NAME
from tests.support.ssh_keys import PLAIN

from transom.common import archives
from transom.common.regular_files import read_regular_file, read_regular_text
from transom.hosts.errors import HostError, KeyUnusable
from transom.hosts.ssh.known_hosts import KnownHostsFile
from transom.hosts.ssh.ssh_client import parse_private_key
from transom.http.downloads import DownloadError
from transom.oci.image_files import ImageError, extract_files
from transom.proxy.secret import Secret
from transom.proxy.trust import format_pem, parse_bundle
from transom.sources.directory import iter_values, load_objects
from transom.sources.payload_build import _DownloadTask
from transom.windows.payload.payload import PayloadFile

_DEAR: Final = "bomb.zip"
"""It takes ten seconds to make: `tests/test_archives.py` has it."""
Read = Callable[[Path], Any]


@dataclass(frozen=True)
class Files:
    """What is written in the place of a good file, how it is read, and what a good one reads as."""

    name: str
    good: bytes
    bad: Mapping[str, Callable[[], bytes]]
    read: Read
    errors: tuple[type[Exception], ...]
    """What `read` raises for a file that it does not take."""
    is_exact: bool = False
    """Whether no bad file reads as the good one."""
    seconds: float = 1.0
    """CPU seconds for one file. Most commands have no event loop: what they read may take longer than a callback."""


class _FilesBench(Bench):
    def __init__(self, directory: Path, files: Files) -> None:
        self._directory, self._files = directory, files
        self._numbers = itertools.count()
        self._wanted = self._read(files.good)

    def _read(self, data: bytes | Callable[[Path], None]) -> Any:
        directory = self._directory / str(next(self._numbers))
        directory.mkdir()
        path = directory / self._files.name
        if isinstance(data, bytes):
            path.write_bytes(data)
        else:
            data(path)
        return self._files.read(path)

    async def attack(self, name: str) -> None:
        build = self._files.bad.get(name)
        data = HOSTILE_FILES[name] if build is None else await asyncio.to_thread(build)
        try:
            read = self._read(data)
        except self._files.errors:
            return
        assert not self._files.is_exact or read != self._wanted

    async def serve_neighbour(self) -> None:
        assert self._read(self._files.good) == self._wanted
        await asyncio.sleep(0.05)


def open_files(files: Files) -> OpenBench:
    """Return a bench that reads files of a kind."""

    @asynccontextmanager
    async def open_bench(directory: Path, _: tuple[str, ...]) -> AsyncIterator[Bench]:
        with pytest.MonkeyPatch.context() as patched:
            # the real limits take seconds of unpacking
            patched.setattr(archives, "MAX_UNPACKED", 256 * MIB)
            patched.setattr(archives, "MAX_MEMBER", 64 * MIB)
            yield _FilesBench(directory, files)

    return open_bench


def list_inputs(files: Files) -> tuple[str, ...]:
    """Return the names of what can be in the place of such a file."""
    return (*files.bad, *HOSTILE_FILES)


def _load_manifests(path: Path) -> Any:
    loaded = load_objects([str(path)])
    assert len(list(iter_values([str(path)]))) < 100_000
    return len(loaded.findings), [egress_proxy.metadata.name for egress_proxy in loaded.egress_proxies]


def _run(*arguments: str) -> tuple[int, int]:
    ran = run(*arguments)
    assert "Traceback" not in ran.err
    return ran.code, len(ran.out)


def _take_member(path: Path) -> bytes:
    """Take the program out of an archive, as `transom payload build` does."""
    kind = path.suffix if path.suffix == ".zip" else ".tar.gz"
    url = f"https://downloads.example/kit{kind}"
    wanted = _DownloadTask(url, [PayloadFile("C:\\k\\kubelet.exe", url=url, member=NAME)], None, path.parent)
    return read_regular_file(path.parent / wanted._extract_members(path)[NAME])


def _take_image(path: Path) -> bytes:
    extract_files(path, "k", ["kubelet.exe"], path.parent / "taken")
    return read_regular_file(path.parent / "taken" / "kubelet.exe")


def _read_key(path: Path) -> str:
    try:
        return parse_private_key(Secret(read_regular_text(path))).get_fingerprint()
    except UnicodeDecodeError:
        raise KeyUnusable("it is not text") from None


def _split(suffix: str) -> dict[str, Callable[[], bytes]]:
    archives = {**HOSTILE_ARCHIVES, **ARCHIVE_VARIANTS}
    return {name: build for name, build in archives.items() if name.endswith(suffix) and name != _DEAR}


_SLOW: Final = 6.0
_BAD_YAML: Final = {name: (lambda data=data: data) for name, (data, _) in BAD.items()} | dict(YAML_VARIANTS)
_SOME_YAML: Final = {
    name: _BAD_YAML[name] for name in ("anchors that explode", "a deep nest", "300,000 keys", "200,000 documents", "no object")
}
MANIFESTS: Final = Files("egress.yaml", HEAD.encode(), _BAD_YAML, _load_manifests, (), seconds=_SLOW)
TEMPLATE_FILES: Final = Files(
    "template.yaml",
    b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
    _SOME_YAML | dict(TEMPLATES),
    lambda path: _run("capi", "check", "-f", str(path)),
    (),
    seconds=_SLOW,
)
INPUT_FILES: Final = Files(
    "inputs.yaml",
    b"cluster: prod\nprovider: aws\n",
    _SOME_YAML,
    lambda path: _run("capi", "worker", "--inputs", str(path)),
    (),
    is_exact=True,
    seconds=_SLOW,
)
VALUES_FILES: Final = Files(
    "values.yaml",
    b"image: {registry: registry.example}\n",
    _SOME_YAML,
    lambda path: _run("manifests", "--values", str(path)),
    (),
    is_exact=True,
    seconds=_SLOW,
)
BUNDLE_FILES: Final = Files(
    "bundle.pem",
    certificate("Corp Root").encode(),
    BUNDLES,
    lambda path: format_pem(parse_bundle(read_regular_text(path, errors="replace")).certificates),
    (OSError,),
)
INSPECTED_FILES: Final = Files(
    "bundle.pem",
    certificate("Corp Root").encode(),
    BUNDLES,
    lambda path: _run("trust", "inspect", str(path)),
    (),
    seconds=_SLOW,
)
KEY_FILES: Final = Files("id_ed25519", PLAIN.encode(), PRIVATE_KEYS, _read_key, (KeyUnusable, OSError), is_exact=True)
KNOWN_HOSTS_FILES: Final = Files(
    "known_hosts",
    KNOWN_HOSTS["honest"](),
    {name: build for name, build in KNOWN_HOSTS.items() if name != "honest"},
    lambda path: [key.get_fingerprint() for key in KnownHostsFile(path).list_known_keys("10.0.0.7", 22)],
    (HostError, OSError, UnicodeDecodeError),
    is_exact=True,
    seconds=_SLOW,
)
_ARCHIVE_ERRORS: Final = (DownloadError, OSError)
TAR_FILES: Final = Files(
    "kit.tar.gz", build_kit("kit.tar.gz"), _split(".tar.gz"), _take_member, _ARCHIVE_ERRORS, is_exact=True, seconds=_SLOW
)
ZIP_FILES: Final = Files(
    "kit.zip", build_kit("kit.zip"), _split(".zip"), _take_member, _ARCHIVE_ERRORS, is_exact=True, seconds=_SLOW
)
IMAGE_FILES: Final = Files("image.tar", build_image(), IMAGES, _take_image, (ImageError, OSError), is_exact=True, seconds=_SLOW)
