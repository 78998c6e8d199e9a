"""CertificateSigningRequests of kubelets: those of hosts that Transom joins are approved, and no others."""

import asyncio
import binascii
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from transom.controllers.join.bootstrap_tokens import LABEL
from transom.controllers.join.members import Members
from transom.controllers.join.reserved_names import ReservedNameFinder
from transom.controllers.runtime.cached_objects import INSTANCES, CachedInstance, HostNode
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.informers import Informers
from transom.kube.errors import Conflict, NotFound
from transom.kube.events import Regarding
from transom.kube.objects import Metadata, Projected, T, UnstructuredObject
from transom.kube.queue import KeyQueue
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey, Store
from transom.windows.nodes.node_certificates import (
    ApprovalDecision,
    CertificateRequest,
    KnownNode,
    Member,
    decide_approval,
    parse_requested_node,
)
from transom.windows.nodes.windows_instance import CLIENT, SERVING

_MAX_REQUEST: Final = 16 << 10
"""Characters of the PKCS #10 request in base64; that of a kubelet has under 1,000."""
_log: Final = structlog.get_logger("transom.certificates")


class RequestSpec(Projected, frozen=True):
    """`spec` of a CertificateSigningRequest (certificates.k8s.io/v1). A `request` that is too large is not kept."""

    request: str = ""
    is_too_large: bool = False
    signer_name: str = ""
    username: str = ""
    groups: list[str] | None = None
    usages: list[str] | None = None

    def __post_init__(self) -> None:
        is_too_large = len(self.request) > _MAX_REQUEST
        msgspec.structs.force_setattr(self, "is_too_large", is_too_large)
        if is_too_large:
            msgspec.structs.force_setattr(self, "request", "")


class RequestMeta(Projected, frozen=True):
    """The fields of a CertificateSigningRequest's `metadata` that Transom reads."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class RequestCondition(Projected, frozen=True):
    """What was decided: Approved, Denied or Failed."""

    type: str = ""


class RequestStatus(Projected, frozen=True):
    """`status`, without the certificate."""

    conditions: list[RequestCondition] | None = None


class CachedRequest(Projected, frozen=True):
    """The fields of a CertificateSigningRequest that Transom reads to judge it."""

    metadata: RequestMeta = RequestMeta()
    spec: RequestSpec = RequestSpec()
    status: RequestStatus | None = None

    @property
    def is_decided(self) -> bool:
        """Whether the request is approved or denied."""
        return bool(self.status and self.status.conditions)


REQUESTS: Final = Resource(
    "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", False, CachedRequest
)
_APPROVED: Final = Resource(REQUESTS.group, "v1", REQUESTS.kind, REQUESTS.plural, False, Metadata)


class CertificatesController:
    """Approve or leave certificate requests. Keys are names of requests that are neither approved nor denied."""

    def __init__(self, informers: Informers, settings: CurrentSettings, members: Members) -> None:
        self._informers = informers
        self.members = members
        self._reserved = ReservedNameFinder(informers, settings)
        self._stores = [informers.watch(REQUESTS, fields=f"spec.signerName={signer}") for signer in (CLIENT, SERVING)]
        self._told: dict[str, str] = {}
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def subscribe(self) -> None:
        """Subscribe to the stores, which have been filled. A host that becomes known enqueues the requests that were left."""
        for store in self._stores:
            store.subscribe(self._request_changed)
        self._enqueue_all_on_change(self._informers.windows_instances, _get_relevant_fields)
        self._enqueue_all_on_change(self._informers.secrets, _get_token_id)
        self._enqueue_all_on_change(self._informers.nodes, _is_node_ready)

    def _enqueue_all_on_change(self, store: Store[T], get_fields: Callable[[T | None], object]) -> None:
        store.subscribe(lambda _, before, after: self._enqueue_undecided() if get_fields(before) != get_fields(after) else None)

    def _request_changed(self, name: ObjectKey, _: CachedRequest | None, after: CachedRequest | None) -> None:
        if after is None or after.is_decided:
            self.queue.forget(name)
            self._told.pop(name.name, None)
        else:
            self.queue.add(name)

    def _enqueue_undecided(self) -> None:
        for store in self._stores:
            for cached in store.take_snapshot():
                if not cached.is_decided:
                    self.queue.add(ObjectKey(None, cached.metadata.name))

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Judge one request. Raises ApiError."""
        cached = next(
            (
                cached_request
                for store in self._stores
                if (cached_request := store.take_snapshot().find_named(key.name)) is not None
            ),
            None,
        )
        if cached is None or cached.is_decided:
            return Result()
        request = _to_certificate_request(cached)
        # a stranger's text is read by a library in C, which keeps the event loop for as long as it takes
        node_name = await asyncio.to_thread(parse_requested_node, request)
        names = {request.username.removeprefix("system:node:")} | ({node_name} if node_name else set())
        members = self.members.find_candidates(request.username, names)
        nodes = self._find_nodes(names)
        judgement = await asyncio.to_thread(decide_approval, request, members, nodes)
        if judgement.verdict == "Approve" and judgement.member is not None:
            # what is asked of the API server is asked last
            reserved = await self._reserved.find_reserved(judgement.member, leadership.client)
            judgement = await asyncio.to_thread(decide_approval, request, members, nodes, reserved)
        if judgement.verdict == "Approve" and judgement.member is not None and request.signer == CLIENT:
            judgement = await self._record_node(judgement.member, judgement, leadership)
        match judgement.verdict:
            case "Approve":
                await self._approve(cached, judgement, leadership)
            case "Leave":
                self._tell(cached, judgement, leadership)
        return Result()

    def _find_nodes(self, names: set[str]) -> dict[str, KnownNode]:
        snapshot = self._informers.nodes.take_snapshot()
        cached_nodes = {name: node for name in names if (node := snapshot.find_named(name)) is not None}
        return {name: KnownNode(_is_node_ready(node), node.metadata.uid or "") for name, node in cached_nodes.items()}

    async def _record_node(self, member: Member, judgement: ApprovalDecision, leadership: Leadership) -> ApprovalDecision:
        """Return the judgement after the instance's status names the Node, since an approval cannot be revoked. Raises
        ApiError.
        """
        namespace, _, name = member.instance.partition("/")
        cached = self._informers.windows_instances.take_snapshot().find_named(name, namespace)
        if cached is None:
            return ApprovalDecision("Ignore")
        certified = "" if member.shared else member.node_name
        identity, _ = await self.members.identities.resolve_and_record(cached, leadership, certified=certified)
        if identity.refusal or identity.name != member.node_name or identity.uid != member.node_uid:
            return ApprovalDecision(
                "Leave", member, identity.message or "which Node the instance is was decided again meanwhile"
            )
        return judgement

    async def _approve(self, cached: CachedRequest, judgement: ApprovalDecision, leadership: Leadership) -> None:
        instance = judgement.member.instance if judgement.member else ""
        condition = {
            "type": "Approved",
            "status": "True",
            "reason": "TransomApproved",
            "message": f"WindowsInstance {instance} asked for its own certificate",
        }
        metadata = {"resourceVersion": cached.metadata.resource_version}
        path = _APPROVED.build_path(None, cached.metadata.name, "approval")
        try:
            await leadership.client.request(
                "PATCH",
                path,
                {"fieldManager": "transom"},
                {"metadata": metadata, "status": {"conditions": [condition]}},
                content_type="application/merge-patch+json",
            )
        except (NotFound, Conflict):
            # another approver decided it, or it is deleted: the store will show it
            return
        _log.info("certificate approved", request=cached.metadata.name, signer=cached.spec.signer_name, instance=instance)
        kind = "client" if cached.spec.signer_name == CLIENT else "serving"
        leadership.recorder.record_normal(
            self._find_event_object(cached, judgement),
            "CertificateApproved",
            f"request {cached.metadata.name} for a {kind} certificate",
        )

    def _tell(self, cached: CachedRequest, judgement: ApprovalDecision, leadership: Leadership) -> None:
        if self._told.get(cached.metadata.name) == judgement.reason:
            return
        self._told[cached.metadata.name] = judgement.reason
        message = f"request {cached.metadata.name} ({cached.spec.signer_name}) is not approved: {judgement.reason}"
        leadership.recorder.record_warning(self._find_event_object(cached, judgement), "CertificateRefused", message)
        _log.warning("certificate not approved", request=cached.metadata.name, reason=judgement.reason)

    def _find_event_object(self, cached: CachedRequest, judgement: ApprovalDecision) -> Regarding:
        """Return the instance that the request concerns, or the request itself."""
        if judgement.member is not None:
            namespace, _, name = judgement.member.instance.partition("/")
            cached_instance = self._informers.windows_instances.take_snapshot().find_named(name, namespace)
            if cached_instance is not None:
                return Regarding(INSTANCES.api_version, INSTANCES.kind, name, namespace, cached_instance.metadata.uid)
        return Regarding(REQUESTS.api_version, REQUESTS.kind, cached.metadata.name, None, cached.metadata.uid)


def _to_certificate_request(cached: CachedRequest) -> CertificateRequest:
    spec = cached.spec
    try:
        pem = binascii.a2b_base64(spec.request, strict_mode=True)
    except ValueError:
        pem = b""
    return CertificateRequest(
        spec.signer_name, spec.username, tuple(spec.groups or ()), tuple(spec.usages or ()), pem, spec.is_too_large
    )


def _get_relevant_fields(cached: CachedInstance | None) -> tuple[Any, ...] | None:
    """Return the fields of an instance on which judgements depend.

    The state of its host changes often and is not among them.
    """
    if cached is None:
        return None
    meta, live = cached.metadata, cached.live
    metadata_fields = meta.uid, meta.generation, meta.deletion_timestamp, meta.labels, meta.annotations
    return *metadata_fields, live.node_name, live.node_uid, live.node_proof, live.host_address


def _get_token_id(cached: UnstructuredObject | None) -> str | None:
    return (cached.metadata.labels or {}).get(LABEL) if cached is not None else None


def _is_node_ready(node: HostNode | None) -> bool:
    return node is not None and node.ready is not None and node.ready.status == "True"
