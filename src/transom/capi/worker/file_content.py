"""A file's bytes, escaped for CABPK's template, YAML and cloudbase-init's template engine."""

import base64
import gzip
import hashlib
import importlib.resources
from importlib.resources.abc import Traversable
from typing import Any, Literal

import msgspec

from transom.capi.bootstrap.kubeadm import ContentSource, File, SecretKey

INLINE = 10_240
"""What `files[].content` holds, in characters (Cluster API v1beta2)."""
SECRET = 1_048_576
"""What a Secret holds, in bytes (Kubernetes: MaxSecretSize)."""
KEY = "content"


class EncodedFile(msgspec.Struct, frozen=True):
    """An encoded file: its entry and, if it refers to a Secret, the name of that and the text under its only key."""

    file: File
    secret: str | None = None
    text: str = ""


class ContentTooLarge(ValueError):
    """A file that no Secret can hold; the message says how large it is."""


Encoding = Literal["base64", "gzip+base64"]


def encode_file_content(path: str, content: bytes, permissions: str, owner: str) -> EncodedFile:
    """In base64, gzipped where that is needed or shorter; outside the template if it is too long. Raises ContentTooLarge.

    `owner` begins the name of a Secret. An empty file is gzipped too: `content` must not be empty.
    """
    plain = base64.b64encode(content).decode("ascii")
    zipped = base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")
    if content and len(plain) <= INLINE:
        return EncodedFile(File(path, permissions=permissions, encoding="base64", content=plain))
    if len(zipped) <= INLINE:
        return EncodedFile(File(path, permissions=permissions, encoding="gzip+base64", content=zipped))
    gzipped = len(zipped) < len(plain)
    text = zipped if gzipped else plain
    if len(text) > SECRET:
        raise ContentTooLarge(f"{len(content):,} bytes are {len(text):,} in base64; a Secret holds {SECRET:,}")
    name = f"{owner}-file-{hashlib.sha256(content).hexdigest()[:10]}"
    source = ContentSource(SecretKey(name, KEY))
    encoding: Encoding = "gzip+base64" if gzipped else "base64"
    return EncodedFile(File(path, permissions=permissions, encoding=encoding, content_from=source), name, text)


def read_script(name: str) -> bytes:
    """Read a script of this package, with Windows line endings and without comments, since it has to fit into INLINE."""
    return _to_windows_script(importlib.resources.files("transom.capi") / "scripts" / name)


def read_payload_script(name: str) -> bytes:
    """Read a script that is also in the payload of kubeadm clusters."""
    return _to_windows_script(importlib.resources.files("transom.payloads") / "kubeadm" / name)


def _to_windows_script(file: Traversable) -> bytes:
    lines = (line for line in file.read_text("ascii").splitlines() if not line.startswith("rem "))
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def build_secret(
    name: str, namespace: str, labels: dict[str, str], data: dict[str, str], *, immutable: bool = False
) -> dict[str, Any]:
    """Build a Secret of strings."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        **({"immutable": True} if immutable else {}),
        "data": {key: base64.b64encode(text.encode()).decode("ascii") for key, text in data.items()},
    }
