"""Small images, put into a registry by its HTTP API.

``x:none`` has no layers, so a pull over CRI succeeds in Wine, which cannot unpack; ``x:1`` has one small layer. Both are for
Windows; ``x:linux`` is for Linux, without layers.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import ssl
import tarfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_OCI = "application/vnd.oci.image."
_WINDOWS = {"os": "windows", "os.version": "10.0.20348.2485"}


def push(registry: str, authority: Path) -> None:
    """Put the images into the registry at an https URL, whose certificate is of the authority in a PEM file."""
    target = _Registry(registry, authority)
    target.push_image("none", [])
    target.push_image("1", [_build_tar()])
    target.push_image("linux", [], {"os": "linux"})


def build_layer() -> tuple[str, bytes]:
    """Return the path of the layer of `x:1` below the registry's URL, and its content; its SHA-256 is its name."""
    content = gzip.compress(_build_tar(), mtime=0)
    return f"v2/x/blobs/{_digest(content)}", content


class _Registry:
    def __init__(self, url: str, authority: Path) -> None:
        self._url = url
        context = ssl.create_default_context(cafile=str(authority))
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        self._opener = urllib.request.build_opener(*handlers)

    def push_image(self, tag: str, layers: list[bytes], system: Mapping[str, str] = _WINDOWS) -> None:
        config = {
            "architecture": "amd64",
            **system,
            "config": {"Cmd": ["x"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(item) for item in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}manifest.v1+json",
            "config": self._push_blob(json.dumps(config).encode(), "config.v1+json"),
            "layers": [self._push_blob(gzip.compress(item, mtime=0), "layer.v1.tar+gzip") for item in layers],
        }
        self._send("PUT", f"{self._url}/v2/x/manifests/{tag}", json.dumps(manifest).encode(), f"{_OCI}manifest.v1+json")

    def _push_blob(self, content: bytes, kind: str) -> dict[str, Any]:
        place = self._send("POST", f"{self._url}/v2/x/blobs/uploads/", b"")
        self._send("PUT", f"{place}{'&' if '?' in place else '?'}digest={_digest(content)}", content)
        return {"mediaType": _OCI + kind, "digest": _digest(content), "size": len(content)}

    def _send(self, method: str, url: str, content: bytes, kind: str = "application/octet-stream") -> str:
        request = urllib.request.Request(url, data=content, method=method, headers={"Content-Type": kind})
        with self._opener.open(request, timeout=120) as response:
            return str(response.headers.get("Location", ""))


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _build_tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        file = tarfile.TarInfo("Files/hello.txt")
        file.size = 2
        archive.addfile(file, io.BytesIO(b"hi"))
    return out.getvalue()
