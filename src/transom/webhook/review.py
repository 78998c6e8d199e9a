"""Admission reviews (admission.k8s.io/v1): what the API server asks, and what it is answered."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from transom.pods.environment import PodEgress
from transom.pods.explanation import ca_text, proxy_text
from transom.pods.patch import Operation, Patch, patch
from transom.pods.pod import Pod

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
_MAX_TEXT: Final = 2000


class NoReview(ValueError):
    """A body that is no AdmissionReview; the text says what is wrong and shows nothing of it."""


class _GroupVersionKind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """`request` of a review, which may be about an object of any kind."""

    uid: str
    kind: _GroupVersionKind = _GroupVersionKind()
    sub_resource: str | None = None
    namespace: str | None = None
    operation: str = ""
    dry_run: bool | None = None

    @property
    def concerns_pods(self) -> bool:
        """Whether it is about a pod that is created, or about new ephemeral containers of one."""
        if self.kind.kind != "Pod" or self.kind.group or self.kind.version != "v1":
            return False
        return (self.operation == "CREATE" and not self.sub_resource) or self.ephemeral

    @property
    def ephemeral(self) -> bool:
        """Whether ephemeral containers are added to a pod."""
        return self.operation == "UPDATE" and self.sub_resource == "ephemeralcontainers"


class PodRequest(Request, frozen=True, rename="camel"):
    """A request whose objects can be read as pods."""

    object: Pod | None = None
    old_object: Pod | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: Request | None = None


class _PodReview(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: PodRequest | None = None


class _Response(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    uid: str
    allowed: Literal[True] | None = None
    patch_type: str | None = None
    patch: bytes | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: tuple[str, ...] = ()


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    response: _Response
    api_version: str = API_VERSION
    kind: str = KIND


_decode: Final = msgspec.json.Decoder(_PodReview).decode
_decode_any: Final = msgspec.json.Decoder(_Review).decode
_encode: Final = msgspec.json.Encoder().encode


def read(body: bytes) -> Request:
    """The request of a review; a PodRequest wherever it concerns pods. Raises NoReview."""
    review = _read(body)
    if review.api_version != API_VERSION or review.kind != KIND:
        raise NoReview(f"this is no {KIND} of {API_VERSION}")
    if review.request is None or not review.request.uid:
        raise NoReview("the review has no request, or its request no uid")
    return review.request


def _read(body: bytes) -> _PodReview | _Review:
    """All of it at once as the review of a pod, which it is unless somebody else registered this server for more."""
    try:
        return _decode(body)
    except msgspec.ValidationError as error:
        review = _read_any(body)
        if review.request is not None and review.request.concerns_pods:
            raise NoReview(f"the object is no pod: {error}") from None
        return review
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise NoReview("the body is not JSON") from None


def _read_any(body: bytes) -> _Review:
    try:
        return _decode_any(body)
    except msgspec.ValidationError as error:
        raise NoReview(f"this is no AdmissionReview: {error}") from None


def decide(request: Request, labels: Mapping[str, str], egress: PodEgress) -> Patch | None:
    """What is to be done; None for what is no pod. Raises NoReview."""
    if not isinstance(request, PodRequest) or not request.concerns_pods:
        return None
    pod = request.object
    if pod is None:
        raise NoReview("request.object is missing")
    before = request.old_object if request.ephemeral else None
    if before is None and request.ephemeral:
        raise NoReview("request.oldObject is missing")
    namespace = request.namespace or pod.metadata.namespace or ""
    return patch(pod, namespace, labels, egress, before=before)


def answer(request: Request, made: Patch | None, warnings: tuple[str, ...] = ()) -> bytes:
    """The review with its response: always allowed."""
    if made is None:
        return _encode(_Answer(_Response(request.uid, True)))
    annotations = {"proxy": proxy_text(made)[:_MAX_TEXT], "ca": ca_text(made)[:_MAX_TEXT]}
    operations: tuple[Operation, ...] = made.operations
    return _encode(
        _Answer(
            _Response(
                request.uid,
                True,
                "JSONPatch" if operations else None,
                _encode(operations) if operations else None,
                annotations,
                tuple(f"transom: {one}" for one in made.warnings + warnings),
            )
        )
    )
