"""What is fetched for the lab is tried again where the network failed for a moment."""

import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from image import debian

from lab import golang

GO = """#!/bin/sh
echo run >>{place}/runs
[ "$(wc -l <{place}/runs)" -gt {failures} ] || {{ echo '{message}' >&2; exit 1; }}
"""


@pytest.mark.parametrize(
    ("message", "failures", "runs", "works"),
    [
        ("dial tcp 10.0.0.1:443: i/o timeout", 2, 3, True),
        ("unexpected EOF", 9, 4, False),
        ("x509: certificate signed by unknown authority", 9, 1, False),
        ("undefined: f", 9, 1, False),
    ],
)
def test_go_is_run_again_where_the_network_failed(
    message: str, failures: int, runs: int, works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    program.write_text(GO.format(place=tmp_path, failures=failures, message=message))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(golang, "WAIT_SECONDS", 0)
    if works:
        golang.run(tmp_path, ["build", "."])
    else:
        with pytest.raises(golang.GoError, match=message):
            golang.run(tmp_path, ["build", "."])
    assert len((tmp_path / "runs").read_text().split()) == runs


class Mirror(BaseHTTPRequestHandler):
    """Fails as often as it is told, and then has the file."""

    failures: ClassVar[int] = 0

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        Mirror.failures -= 1
        self.send_response(200 if Mirror.failures < 0 else 503)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"whol" if Mirror.failures < 0 else b"busy")


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setenv("TRANSOM_DEBIAN_MIRROR", url)
        monkeypatch.setattr(debian, "_SNAPSHOT", url)
        monkeypatch.setattr(debian, "_WAIT_SECONDS", 0)
        yield
        server.shutdown()


@pytest.mark.parametrize(("failures", "works"), [(0, True), (1, True), (5, True), (6, False)])
def test_a_package_is_asked_for_again(failures: int, works: bool, tmp_path: Path, mirror: None) -> None:
    Mirror.failures = failures
    package = debian.Package("debian", "pool/x_1_all.deb", hashlib.sha256(b"whol").hexdigest())
    if works:
        assert debian._fetch(package, debian.Lock("20261101T000000Z", (package,)), tmp_path).read_bytes() == b"whol"
    else:
        with pytest.raises(debian.DebianError):
            debian._fetch(package, debian.Lock("20261101T000000Z", (package,)), tmp_path)
        assert list(tmp_path.iterdir()) == []
