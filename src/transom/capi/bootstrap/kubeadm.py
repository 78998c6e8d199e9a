"""The parts of a KubeadmConfigSpec that are written here: files and commands, alike in v1beta1 and v1beta2 of Cluster API."""

import base64
import gzip
from typing import Literal

import msgspec


class SecretKey(msgspec.Struct, frozen=True):
    """A key of a Secret in the object's own namespace."""

    name: str
    key: str


class ContentSource(msgspec.Struct, frozen=True):
    """Where CABPK takes a file's content from when it renders a machine's bootstrap data."""

    secret: SecretKey


class File(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An entry of `files`. `content` stands as `encoding` says; CABPK hands both on to cloud-init or cloudbase-init.

    `permissions` is octal text of four digits, in quotes wherever it is written: cloudbase-init reads a bare `744` as decimal.
    """

    path: str
    owner: str = ""
    permissions: str = ""
    encoding: Literal["", "base64", "gzip", "gzip+base64"] = ""
    content: str = ""
    content_from: ContentSource | None = None


class Entries(msgspec.Struct, frozen=True):
    """What is added to a KubeadmConfigSpec: `files` at the end, `pre` before and `post` after the join, each in its order."""

    files: tuple[File, ...] = ()
    pre: tuple[str, ...] = ()
    post: tuple[str, ...] = ()

    def __add__(self, other: "Entries") -> "Entries":
        return Entries(self.files + other.files, self.pre + other.pre, self.post + other.post)


def compress_file(file: File) -> File:
    """Return the file, gzipped if that makes its text shorter."""
    if file.encoding != "base64" or not file.content:
        return file
    text = base64.b64encode(gzip.compress(base64.b64decode(file.content), mtime=0)).decode("ascii")
    if len(text) + len("gzip+") >= len(file.content):
        return file
    return msgspec.structs.replace(file, encoding="gzip+base64", content=text)


def encode_file(path: str, content: bytes, permissions: str = "0644") -> File:
    """Return a file with base64 content, which passes through every template engine."""
    return File(path, permissions=permissions, encoding="base64", content=base64.b64encode(content).decode("ascii"))
