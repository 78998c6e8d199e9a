"""Admission reviews (admission.k8s.io/v1): what the API server asks, and what it is answered."""

import re
from collections.abc import Mapping
from typing import Final, Generic, Literal, TypeVar

import msgspec

from transom.kube.nesting import has_more_values, truncate_nesting
from transom.pods.patch import Patch, PodPatcher, build_empty_patch, format_ca_result, format_proxy_result
from transom.pods.pod_size import TOO_LONG_ANNOTATIONS, TOO_MANY_CONTAINERS, TOO_MANY_ITEMS
from transom.pods.pod_types import Pod

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
MAX_POD: Final = (3 << 19) - (16 << 10)
"""Bytes. etcd takes requests of 1.5 MiB (etcd documentation, "System limits"), what else is in them included.

Pods are stored in Protobuf, which is shorter than the JSON that is measured here.
"""
_MAX_TEXT: Final = 2000
_TOO_LARGE: Final = "it would be larger than the API server takes"
MAX_VALUES: Final = 200_000
"""Objects, lists and fields of a review: of one with more, nothing but the request is read. A pod that may be patched
(`pod_size.MAX_ITEMS`) has some 18 for each item, `managedFields` included, and an UPDATE has the pod twice."""
_TOO_MANY: Final = f"the review has more than {MAX_VALUES:,} values"
MAX_WARNING: Final = 1000
"""Characters. API servers may truncate warnings of more than 256 (admission.k8s.io/v1, `AdmissionResponse.warnings`)."""
TOO_LARGE: Final = frozenset((_TOO_LARGE, _TOO_MANY, TOO_MANY_CONTAINERS, TOO_MANY_ITEMS, TOO_LONG_ANNOTATIONS))
"""The reasons by which a pod gets nothing for its size."""
_MAX_UID: Final = 128
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
"""A DNS-1123 label (kubernetes.io, "Object Names and IDs")."""


class InvalidReview(ValueError):
    """A body that is not an AdmissionReview; the message has the problem but nothing of the body."""


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
    def is_about_pods(self) -> bool:
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


class OversizedRequest(AdmissionRequest, frozen=True, rename="camel"):
    """A request of whose objects nothing is read: they have too many values."""


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
_decode_oversized: Final = msgspec.json.Decoder(_Review[OversizedRequest]).decode
_decode_any: Final = msgspec.json.Decoder(_Review[AdmissionRequest]).decode
_encode: Final = msgspec.json.Encoder().encode


def parse_review_request(body: bytes) -> AdmissionRequest:
    """Return the request of a review: a PodRequest or an OversizedRequest wherever it concerns pods. Raises InvalidReview."""
    review: _Review[PodRequest] | _Review[OversizedRequest] | _Review[AdmissionRequest]
    if has_more_values(body, MAX_VALUES):
        review = _read_oversized(body)
    else:
        try:
            review = _parse_review(body)
        except RecursionError:
            # nothing of a pod that is read here lies so deep
            review = _parse_review(truncate_nesting(body))
    if review.api_version != API_VERSION or review.kind != KIND:
        raise InvalidReview(f"this is no {KIND} of {API_VERSION}")
    if review.request is None or not review.request.uid:
        raise InvalidReview("the review has no request, or its request no uid")
    _check_names(review.request)
    return review.request


def _check_names(request: AdmissionRequest) -> None:
    """Raise InvalidReview for what no API server sends, and what would become part of events, logs and requests."""
    if len(request.uid) > _MAX_UID:
        raise InvalidReview(f"request.uid has more than {_MAX_UID} characters")
    pod = request.object if isinstance(request, PodRequest) else None
    for field, namespace in (
        ("request.namespace", request.namespace),
        ("request.object.metadata.namespace", pod.metadata.namespace if pod is not None else None),
    ):
        if namespace and not _NAMESPACE.match(namespace):
            raise InvalidReview(f"{field} is not a valid name of a namespace")


def _parse_review(body: bytes) -> _Review[PodRequest] | _Review[AdmissionRequest]:
    """Parse the review of a pod at once; another kind only if someone registered this server for more."""
    try:
        return _decode(body)
    except msgspec.ValidationError as error:
        review = _decode_other_review(body)
        if review.request is not None and review.request.is_about_pods:
            raise InvalidReview(f"the object is not a valid pod: {error}") from None
        return review
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidReview("the body is not JSON") from None


def limit_patch(patch: Patch, body: bytes) -> Patch:
    """Return the patch, or an empty one if the pod would exceed the API server's limit."""
    added = patch.operations.encoded.size if patch.operations else 0
    if not added or len(body) + added <= MAX_POD or _measure_pod(body) + added <= MAX_POD:
        return patch
    return build_empty_patch(_TOO_LARGE, patch.warnings)


def _measure_pod(body: bytes) -> int:
    try:
        review = _decode_raw(body)
    except RecursionError:
        review = _decode_raw(truncate_nesting(body))
    return len(bytes(review.request.object)) if review.request is not None else 0


def _read_oversized(body: bytes) -> _Review[OversizedRequest]:
    try:
        return _decode_oversized(body)
    except msgspec.ValidationError as error:
        raise InvalidReview(f"not a valid AdmissionReview: {error}") from None
    except RecursionError:
        raise InvalidReview(f"{_TOO_MANY}, and is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidReview("the body is not JSON") from None


def _decode_other_review(body: bytes) -> _Review[AdmissionRequest]:
    try:
        return _decode_any(body)
    except msgspec.ValidationError as error:
        raise InvalidReview(f"not a valid AdmissionReview: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidReview("the body is not JSON") from None


def build_request_patch(request: AdmissionRequest, labels: Mapping[str, str], patcher: PodPatcher) -> Patch | None:
    """Return the patch of the pod; None for an object that is not a pod. Raises InvalidReview."""
    if isinstance(request, OversizedRequest) and request.is_about_pods:
        return build_empty_patch(_TOO_MANY)
    if not isinstance(request, PodRequest) or not request.is_about_pods:
        return None
    pod = request.object
    if pod is None:
        raise InvalidReview("request.object is missing")
    before = request.old_object if request.ephemeral else None
    if before is None and request.ephemeral:
        raise InvalidReview("request.oldObject is missing")
    namespace = request.namespace or pod.metadata.namespace or ""
    return patcher.build_patch(pod, namespace, labels, before=before)


SETTINGS: Final = "settings"
"""The audit annotation with the fingerprint of the settings, in answers about objects that are not pods: the operator asks."""


def build_answer(
    request: AdmissionRequest, patch: Patch | None, warnings: tuple[str, ...] = (), *, fingerprint: str = ""
) -> bytes:
    """Build the review with its response, which always allows the object."""
    if patch is None:
        settings = {SETTINGS: fingerprint} if fingerprint else None
        return _encode(_Answer(_Response(request.uid, True, audit_annotations=settings)))
    annotations = {"proxy": format_proxy_result(patch)[:_MAX_TEXT], "ca": format_ca_result(patch)[:_MAX_TEXT]}
    operations = patch.operations
    return _encode(
        _Answer(
            _Response(
                request.uid,
                True,
                "JSONPatch" if operations else None,
                operations.encoded.base64 if operations else None,
                annotations,
                tuple(f"transom: {_cut(warning, MAX_WARNING)}" for warning in patch.warnings + warnings),
            )
        )
    )


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
