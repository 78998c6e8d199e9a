"""Debian's packages of the image: which ones (`debian-<architecture>.lock`), fetched by hash, unpacked without their scripts.

That is how distroless images are made: nothing of them runs meanwhile, so nobody needs to be root, and a root for another
architecture is made the same way.
"""

from __future__ import annotations

import hashlib
import http.client
import itertools
import os
import re
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SUITE = "bookworm"
WANTED = ("base-files", "ca-certificates", "libpython3.11-stdlib", "netbase", "python3.11-minimal")
UNWANTED = frozenset(
    (
        "debconf",
        "dpkg",
        "libacl1",
        "libmd0",
        "libpcre2-8-0",
        "libselinux1",
        "libzstd1",
        "mawk",
        "openssl",
        "readline-common",
        "tar",
    )
)
"""What only the scripts of packages need, and what they depend on for that."""
_DROPPED = re.compile(
    r"usr/share/(man|info|locale|lintian|doc-base|bash-completion|readline|gdb|apport|binfmts|perl5)/|usr/share/doc/(?!.*/copyright$)|"
    r"usr/lib/[^/]+/gconv/|usr/lib/python3\.11/(lib2to3|pydoc_data|idlelib|tkinter|turtledemo|ensurepip|distutils)/|"
    r"etc/(update-motd\.d|skel|profile|issue|dpkg|default|motd)|usr/sbin/[^/]+|var/(backups|local|mail|spool|lock|opt)/|(boot|media|mnt|srv|home|opt)/"
)
_MIRRORS = {"debian": "http://deb.debian.org/debian", "debian-security": "http://deb.debian.org/debian-security"}
_ATTEMPTS = 3
_WAIT_SECONDS = 5.0
"""Before the second attempt; twice as much before the third."""
_SNAPSHOT = "https://snapshot.debian.org/archive"
"""Keeps what the mirrors had at any time: https://snapshot.debian.org, "Usage"."""
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class DebianError(Exception):
    """A package cannot be had, or is another one; the message names it."""


@dataclass(frozen=True)
class Package:
    """A package of a lock: the archive and the path below it, and its SHA-256."""

    archive: str
    path: str
    sha256: str

    @property
    def file(self) -> str:
        """What the file is called."""
        return urllib.parse.unquote(self.path.rpartition("/")[2])


@dataclass(frozen=True)
class Lock:
    """When the lock was made, as snapshot.debian.org writes it, and the packages in the order in which they are unpacked."""

    made: str
    packages: tuple[Package, ...]


def read_lock(architecture: str) -> Lock:
    """Read the lock of an architecture."""
    head, *lines = (HERE / f"debian-{architecture}.lock").read_text().splitlines()
    return Lock(head.split()[-1], tuple(Package(*line.split()) for line in lines))


def resolve(architecture: str, made: str) -> Lock:
    """Resolve the packages with apt today, from indices with verified signatures. Raises DebianError."""
    with tempfile.TemporaryDirectory(prefix="transom-apt-") as directory:
        here = Path(directory)
        for name in ("lists/partial", "cache/archives/partial", "sources"):
            (here / name).mkdir(parents=True)
        (here / "status").touch()
        (here / "sources" / "debian.sources").write_text("\n".join(_iter_sources()))
        options = {
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "Dir::State": here,
            "Dir::State::status": here / "status",
            "Dir::Cache": here / "cache",
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": here / "sources",
            "Acquire::ForceHash": "SHA256",
        }
        apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
        _run([*apt, "update"])
        output = _run([*apt, "--print-uris", "-y", "--no-install-recommends", "install", *WANTED])
    matches = re.findall(
        r"^'http://[^/]+/(debian(?:-security)?)/(\S+)' (\S+)_\S+ \d+ SHA256:([0-9a-f]{64})$", output, re.MULTILINE
    )
    packages = (
        Package(archive, path, sha256) for archive, path, name, sha256 in matches if name.partition("_")[0] not in UNWANTED
    )
    return Lock(made, tuple(sorted(packages, key=lambda package: package.file)))


def write_lock(architecture: str, lock: Lock) -> None:
    """Keep a lock."""
    lines = [f"# {SUITE}, {architecture}, made {lock.made}", *(f"{p.archive} {p.path} {p.sha256}" for p in lock.packages)]
    (HERE / f"debian-{architecture}.lock").write_text("\n".join(lines) + "\n")


def unpack(lock: Lock, root: Path, cache: Path) -> None:
    """Fill a root: the packages' files, and what each says of itself, where scanners look for it. Raises DebianError."""
    status_directory = root / "var/lib/dpkg/status.d"
    status_directory.mkdir(parents=True)
    for package in lock.packages:
        file = _fetch(package, lock, cache)
        _run(["dpkg-deb", "--extract", str(file), str(root)])
        control = _run(["dpkg-deb", "--field", str(file)])
        (status_directory / _get_field(control, "Package")).write_text(control)
    for path in sorted(root.rglob("*"), reverse=True):
        inner = path.relative_to(root).as_posix()
        if path.is_dir() and not path.is_symlink():
            if _DROPPED.match(f"{inner}/") and not any(path.iterdir()):
                path.rmdir()
        elif _DROPPED.match(inner):
            path.unlink()


def iter_descriptions(root: Path) -> Iterator[Mapping[str, str]]:
    """Yield `Package`, `Version` and `Architecture` of each package of a root."""
    for file in sorted((root / "var/lib/dpkg/status.d").iterdir()):
        control = file.read_text()
        yield {name: _get_field(control, name) for name in ("Package", "Version", "Architecture")}


def _get_field(control: str, name: str) -> str:
    match = re.search(rf"^{name}: (\S+)", control, re.MULTILINE)
    return match[1] if match else ""


def _fetch(package: Package, lock: Lock, cache: Path) -> Path:
    """Return a package's file in the cache, fetched from a mirror or else from snapshot.debian.org."""
    target = cache / package.sha256
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    mirrors = _MIRRORS | {
        name: url for name in _MIRRORS if (url := os.environ.get(f"TRANSOM_{name.upper().replace('-', '_')}_MIRROR"))
    }
    places = (f"{mirrors[package.archive]}/{package.path}", f"{_SNAPSHOT}/{package.archive}/{lock.made}/{package.path}")
    errors: list[str] = []
    # in turns: what a mirror does not have now, it may have in some seconds
    for attempt, url in itertools.product(range(_ATTEMPTS), places):
        if attempt and url == places[0]:
            time.sleep(_WAIT_SECONDS * attempt)
        try:
            with urllib.request.urlopen(url, timeout=120) as answer:
                content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            errors.append(f"{url}: {error}")
            continue
        if hashlib.sha256(content).hexdigest() == package.sha256:
            part = Path(tempfile.mkstemp(dir=cache)[1])
            part.write_bytes(content)
            part.rename(target)
            return target
        errors.append(f"{url}: it has another hash than the lock says")
    raise DebianError(f"{package.file} cannot be had: {'; '.join(dict.fromkeys(errors))}")


def _iter_sources() -> Iterator[str]:
    for archive, suites in (("debian", f"{SUITE} {SUITE}-updates"), ("debian-security", f"{SUITE}-security")):
        yield f"Types: deb\nURIs: {_MIRRORS[archive]}\nSuites: {suites}\nComponents: main\nSigned-By: {_KEYRING}\n"


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"})
    if done.returncode != 0:
        raise DebianError(f"{' '.join(command[:2])} failed: {done.stderr[-2000:]}")
    return done.stdout
