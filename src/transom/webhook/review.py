"""Admission reviews (admission.k8s.io/v1): what the API server asks, and what it is answered."""

from collections.abc import Mapping
from typing import Final, Generic, Literal, TypeVar

import msgspec

from transom.kube.nesting import shortened
from transom.pods import Pod
from transom.pods.patch import Patch, PodPatcher, ca_text, proxy_text

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
MAX_POD: Final = (3 << 19) - (16 << 10)
"""Bytes. etcd takes requests of 1.5 MiB (etcd documentation, "System limits"), what else is in them included.

Pods are stored in Protobuf, which is shorter than the JSON that is measured here.
"""
_MAX_TEXT: Final = 2000
_TOO_LARGE: Final = "it would be larger than the API server takes"


class NoReview(ValueError):
    """A body that is no AdmissionReview; the text says what is wrong and shows nothing of it."""


class _GroupVersionKind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
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


class PodRequest(AdmissionRequest, frozen=True, rename="camel"):
    """A request whose objects can be read as pods."""

    object: Pod | None = None
    old_object: Pod | None = None


class _RawRequest(AdmissionRequest, frozen=True, rename="camel"):
    object: msgspec.Raw = msgspec.Raw()


_R = TypeVar("_R", bound=AdmissionRequest)


class _Review(msgspec.Struct, Generic[_R], frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _R | None = None


class _Response(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    uid: str
    allowed: Literal[True] | None = None
    patch_type: str | None = None
    patch: msgspec.Raw | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: tuple[str, ...] = ()


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    response: _Response
    api_version: str = API_VERSION
    kind: str = KIND


_decode: Final = msgspec.json.Decoder(_Review[PodRequest]).decode
_decode_raw: Final = msgspec.json.Decoder(_Review[_RawRequest]).decode
_decode_any: Final = msgspec.json.Decoder(_Review[AdmissionRequest]).decode
_encode: Final = msgspec.json.Encoder().encode


def read(body: bytes) -> AdmissionRequest:
    """The request of a review; a PodRequest wherever it concerns pods. Raises NoReview."""
    try:
        review = _read(body)
    except RecursionError:
        # nothing of a pod that is read here lies so deep
        review = _read(shortened(body))
    if review.api_version != API_VERSION or review.kind != KIND:
        raise NoReview(f"this is no {KIND} of {API_VERSION}")
    if review.request is None or not review.request.uid:
        raise NoReview("the review has no request, or its request no uid")
    return review.request


def _read(body: bytes) -> _Review[PodRequest] | _Review[AdmissionRequest]:
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


def fitting(made: Patch, body: bytes) -> Patch:
    """What is to be done to the pod of a review, or nothing where it would be larger than the API server takes."""
    added = made.operations.encoded.size if made.operations else 0
    if not added or len(body) + added <= MAX_POD or _pod_size(body) + added <= MAX_POD:
        return made
    return Patch(proxy=_TOO_LARGE, ca=_TOO_LARGE, warnings=(*made.warnings, f"no settings for this pod: {_TOO_LARGE}"))


def _pod_size(body: bytes) -> int:
    try:
        review = _decode_raw(body)
    except RecursionError:
        review = _decode_raw(shortened(body))
    return len(bytes(review.request.object)) if review.request is not None else 0


def _read_any(body: bytes) -> _Review[AdmissionRequest]:
    try:
        return _decode_any(body)
    except msgspec.ValidationError as error:
        raise NoReview(f"this is no AdmissionReview: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise NoReview("the body is not JSON") from None


def decide(request: AdmissionRequest, labels: Mapping[str, str], patcher: PodPatcher) -> Patch | None:
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
    return patcher.patch(pod, namespace, labels, before=before)


def answer(request: AdmissionRequest, made: Patch | None, warnings: tuple[str, ...] = ()) -> bytes:
    """The review with its response: always allowed."""
    if made is None:
        return _encode(_Answer(_Response(request.uid, True)))
    annotations = {"proxy": proxy_text(made)[:_MAX_TEXT], "ca": ca_text(made)[:_MAX_TEXT]}
    operations = made.operations
    return _encode(
        _Answer(
            _Response(
                request.uid,
                True,
                "JSONPatch" if operations else None,
                operations.encoded.base64 if operations else None,
                annotations,
                tuple(f"transom: {one}" for one in made.warnings + warnings),
            )
        )
    )
