"""What an API server sends, read: each answer becomes an object, a word on what is wrong with it, or both.

Of an object that is nested too deep everything above that depth is read, and it is named. One that does not fit is named by its
metadata, and set aside.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Generic, TypeVar

import msgspec
import structlog

from transom.kube import StatusError, status_error
from transom.kube.nesting import MAX_LEVELS, shortened, too_deep
from transom.kube.objects import Metadata, ObjectMeta, T
from transom.kube.resources import Resource

_log: Final = structlog.get_logger("transom.kube.reading")
_AROUND: Final = 8
"""More levels than a list or an event has around an object: what is left of one there is still seen to be too deep."""
_AT_ONCE: Final = 256 << 10
"""Bytes that are looked through on the event loop; more take a thread."""
TOO_DEEP: Final = f"nested deeper than {MAX_LEVELS} levels: what lies deeper is not read"
V = TypeVar("V")


class Malformed(msgspec.Struct, frozen=True):
    """An object that does not fit what it is read into; `problem` names the field.

    `in_use`: what fits of it was read, and is used.
    """

    metadata: Metadata
    problem: str
    in_use: bool = False


class Read(msgspec.Struct, Generic[T], frozen=True):
    """An object, or None where it does not fit at all; and what is wrong with it."""

    object: T | None
    malformed: Malformed | None = None


class _Identity(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _Named(msgspec.Struct, frozen=True):
    metadata: _Identity = _Identity()


class StatusCause(msgspec.Struct, frozen=True):
    """metav1.StatusCause."""

    reason: str | None = None
    message: str | None = None


class _StatusDetails(msgspec.Struct, frozen=True):
    """metav1.StatusDetails."""

    causes: list[StatusCause] | None = None


class ApiStatus(msgspec.Struct, frozen=True):
    """metav1.Status: what an API server says in the place of an object, and at the end of a command in a container."""

    status: str | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _StatusDetails | None = None

    @property
    def causes(self) -> Sequence[StatusCause]:
        """What it names beside its message."""
        return (self.details.causes if self.details else None) or ()

    @property
    def whole_message(self) -> str:
        """With the causes that it does not name itself: of an eviction that is refused, the PodDisruptionBudget."""
        said = self.message or ""
        causes = (cause.message for cause in self.causes)
        return " ".join((said, *(cause for cause in causes if cause and cause not in said)))


_decode_metadata: Final = msgspec.json.Decoder(Metadata).decode
_decode_named: Final = msgspec.json.Decoder(_Named).decode
_decode_status: Final = msgspec.json.Decoder(ApiStatus).decode


def decoded(read: Callable[[bytes], V], data: bytes) -> V:
    """`data` by a decoder of msgspec, which fails in more ways than it says. Raises msgspec.DecodeError alone."""
    try:
        return read(data)
    except UnicodeDecodeError:
        raise msgspec.DecodeError("this is not UTF-8") from None
    except RecursionError:
        raise msgspec.DecodeError("nested too deep") from None


async def around(read: Callable[[bytes], V], data: bytes) -> V:
    """A list or an event, whose objects are msgspec.Raw. However deep one of those is, the others are read.

    Raises msgspec.DecodeError.
    """
    try:
        return read(data)
    except UnicodeDecodeError:
        raise msgspec.DecodeError("this is not UTF-8") from None
    except RecursionError:
        # a page of large objects takes a second
        thread = len(data) > _AT_ONCE
        levels = MAX_LEVELS + _AROUND
        return decoded(read, await asyncio.to_thread(shortened, data, levels) if thread else shortened(data, levels))


def read_object(resource: Resource[T], data: bytes | msgspec.Raw) -> Read[T]:
    """One object. Never raises."""
    text = bytes(data)
    deep = too_deep(text)
    if deep:
        text = shortened(text)
    try:
        found = decoded(resource.decode, text)
    except msgspec.DecodeError as error:
        return Read(None, Malformed(metadata_of(text), str(error)))
    except Exception as fault:  # noqa: BLE001  # one object's trouble is its own
        metadata = metadata_of(text)
        _log.exception("a fault of Transom itself; the other objects go on", kind=resource.kind, name=metadata.metadata.name)
        return Read(None, Malformed(metadata, f"a fault of Transom itself: {type(fault).__name__}"))
    return Read(found, Malformed(metadata_of(text), TOO_DEEP, in_use=True) if deep else None)


def metadata_of(text: bytes) -> Metadata:
    """As much as can be said of an object that may not fit: nothing, where even its name does not. Never raises."""
    try:
        return decoded(_decode_metadata, text)
    except msgspec.DecodeError:
        pass
    try:
        named = decoded(_decode_named, text).metadata
    except msgspec.DecodeError:
        return Metadata()
    return Metadata(ObjectMeta(named.name, named.namespace, named.uid, named.resource_version))


def refusal(body: bytes, code: int, retry_after: str | None = None) -> StatusError:
    """What an answer other than success says; `retry_after` is its header."""
    try:
        status = decoded(_decode_status, body)
    except msgspec.DecodeError:
        # a proxy or a server that is not ready answers in its own words: the first of them
        told = " ".join(body[:200].decode(errors="replace").split())
        if told.startswith("<") or 300 <= code < 400:
            told = f"HTTP {code} and a page for browsers, which is no API server's answer: a proxy or a login stands before it"
        status = ApiStatus(message=told)
    return status_error(status.code or code, status.reason or "", status.whole_message, _seconds(retry_after))


def _seconds(header: str | None) -> float | None:
    """`Retry-After`: seconds or an HTTP date (RFC 9110, section 10.2.3)."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, when.timestamp() - datetime.fromtimestamp(time.time(), UTC).timestamp())
