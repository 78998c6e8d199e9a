"""What an API server sends, read: each answer becomes an object, a word on what is wrong with it, or both.

Of an object that is nested too deep everything above that depth is read, and it is named. An invalid one is named by its
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

from transom.kube.errors import StatusError, build_status_error
from transom.kube.memory_limits import estimate_memory_size
from transom.kube.nesting import MAX_LEVELS, is_too_deep, truncate_nesting
from transom.kube.objects import Metadata, ObjectMeta, T
from transom.kube.resources import Resource

_log: Final = structlog.get_logger("transom.kube.decoding")
_AROUND: Final = 8
"""More levels than a list or an event has around an object: what is left of one there is still seen to be too deep."""
_MAX_METADATA: Final = 16 << 10
_AT_ONCE: Final = 256 << 10
"""Bytes that are looked through on the event loop; more take a thread."""
TOO_DEEP: Final = f"nested deeper than {MAX_LEVELS} levels: what lies deeper is not read"
V = TypeVar("V")


class MalformedObject(msgspec.Struct, frozen=True):
    """An object that does not match its type; `problem` names the field.

    `in_use`: what fits of it was read, and is used.
    """

    metadata: Metadata
    problem: str
    in_use: bool = False


class DecodeResult(msgspec.Struct, Generic[T], frozen=True):
    """An object, or None if it is unreadable; and its errors."""

    object: T | None
    malformed: MalformedObject | None = None


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
        """Its fields in addition to its message."""
        return (self.details.causes if self.details else None) or ()

    @property
    def whole_message(self) -> str:
        """With the causes that it does not name itself: of an eviction that is refused, the PodDisruptionBudget."""
        message = self.message or ""
        causes = (cause.message for cause in self.causes)
        return " ".join((message, *(cause for cause in causes if cause and cause not in message)))


_decode_metadata: Final = msgspec.json.Decoder(Metadata).decode
_decode_named: Final = msgspec.json.Decoder(_Named).decode
_decode_status: Final = msgspec.json.Decoder(ApiStatus).decode


def decode_json(decoder: Callable[[bytes], V], data: bytes) -> V:
    """Decode `data` with a decoder of msgspec and raise only msgspec.DecodeError for all of its failures."""
    try:
        return decoder(data)
    except UnicodeDecodeError:
        raise msgspec.DecodeError("this is not UTF-8") from None
    except RecursionError:
        raise msgspec.DecodeError("nested too deep") from None


async def decode_envelope(decoder: Callable[[bytes], V], data: bytes) -> V:
    """Decode a list or an event, whose objects are msgspec.Raw, even if one object is nested too deep.

    Raises msgspec.DecodeError.
    """
    try:
        return decoder(data)
    except UnicodeDecodeError:
        raise msgspec.DecodeError("this is not UTF-8") from None
    except RecursionError:
        # a page of large objects takes a second
        thread = len(data) > _AT_ONCE
        levels = MAX_LEVELS + _AROUND
        return decode_json(
            decoder, await asyncio.to_thread(truncate_nesting, data, levels) if thread else truncate_nesting(data, levels)
        )


def decode_object(resource: Resource[T], data: bytes | msgspec.Raw) -> DecodeResult[T]:
    """One object. Never raises."""
    text = bytes(data)
    deep = is_too_deep(text)
    if deep:
        text = truncate_nesting(text)
    try:
        obj = decode_json(resource.decode, text)
    except msgspec.DecodeError as error:
        return DecodeResult(None, MalformedObject(parse_metadata(text), str(error)))
    except Exception as fault:  # noqa: BLE001  # one object's trouble is its own
        metadata = parse_metadata(text)
        _log.exception("internal error; the other objects continue", kind=resource.kind, name=metadata.metadata.name)
        return DecodeResult(None, MalformedObject(metadata, f"a fault of Transom itself: {type(fault).__name__}"))
    return DecodeResult(obj, MalformedObject(parse_metadata(text), TOO_DEEP, in_use=True) if deep else None)


def parse_metadata(text: bytes) -> Metadata:
    """As much as can be said of an object that may not fit: nothing, where even its name does not. Never raises.

    Of metadata of more than 16 KiB it is the identity alone.
    """
    try:
        metadata = decode_json(_decode_metadata, text)
        if estimate_memory_size(metadata) <= _MAX_METADATA:
            return metadata
    except msgspec.DecodeError:
        pass
    try:
        named = decode_json(_decode_named, text).metadata
    except msgspec.DecodeError:
        return Metadata()
    return Metadata(ObjectMeta(named.name, named.namespace, named.uid, named.resource_version))


def strip_metadata(malformed: MalformedObject) -> MalformedObject:
    """Return a note of an object with its identity and nothing else of its metadata."""
    meta = malformed.metadata.metadata
    identity = Metadata(ObjectMeta(meta.name, meta.namespace, meta.uid, meta.resource_version))
    return MalformedObject(identity, malformed.problem, malformed.in_use)


def parse_error_response(body: bytes, code: int, retry_after: str | None = None) -> StatusError:
    """Parse an unsuccessful answer; `retry_after` is its header."""
    try:
        status = decode_json(_decode_status, body)
    except msgspec.DecodeError:
        # a proxy or a server that is not ready answers in its own words: the first of them
        message = " ".join(body[:200].decode(errors="replace").split())
        if message.startswith("<") or 300 <= code < 400:
            message = f"HTTP {code} and an HTML page, which an API server does not send: a proxy or login page answers"
        status = ApiStatus(message=message)
    return build_status_error(status.code or code, status.reason or "", status.whole_message, _parse_retry_after(retry_after))


def _parse_retry_after(header: str | None) -> float | None:
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
