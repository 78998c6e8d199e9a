"""CertificateSigningRequests of kubelets: those of hosts that Transom joins are approved, and no others."""

import binascii
from collections.abc import Callable
from typing import Any, Final

import structlog

from transom.controllers.join import Members
from transom.controllers.join.bootstrap_tokens import LABEL
from transom.controllers.join.reserved_names import ReservedNames
from transom.controllers.runtime.cached import INSTANCES, CachedInstance, HostNode
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.settings import CurrentSettings
from transom.kube import Conflict, NotFound
from transom.kube.events import Regarding
from transom.kube.objects import Metadata, ObjectMeta, Projected, T, Whole
from transom.kube.queue import KeyQueue
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey, Store
from transom.windows.nodes import CLIENT, SERVING
from transom.windows.nodes.node_certificates import CertificateRequest, Judgement, KnownNode, Member, judge, requested_node

_log: Final = structlog.get_logger("transom.certificates")


class RequestSpec(Projected, frozen=True):
    """`spec` of a CertificateSigningRequest (certificates.k8s.io/v1)."""

    request: str = ""
    signer_name: str = ""
    username: str = ""
    groups: list[str] | None = None
    usages: list[str] | None = None


class RequestCondition(Projected, frozen=True):
    """What was decided: Approved, Denied or Failed."""

    type: str = ""


class RequestStatus(Projected, frozen=True):
    """`status`, without the certificate."""

    conditions: list[RequestCondition] | None = None


class CachedRequest(Projected, frozen=True):
    """A CertificateSigningRequest, as far as it is judged."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RequestSpec = RequestSpec()
    status: RequestStatus | None = None

    @property
    def decided(self) -> bool:
        """Whether somebody has decided."""
        return bool(self.status and self.status.conditions)


REQUESTS: Final = Resource(
    "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", False, CachedRequest
)
_APPROVED: Final = Resource(REQUESTS.group, "v1", REQUESTS.kind, REQUESTS.plural, False, Metadata)


class CertificatesController:
    """Keys are names of requests that nobody has decided."""

    def __init__(self, informers: Informers, settings: CurrentSettings, members: Members) -> None:
        self._informers = informers
        self.members = members
        self._reserved = ReservedNames(informers, settings)
        self._stores = [informers.watch(REQUESTS, fields=f"spec.signerName={signer}") for signer in (CLIENT, SERVING)]
        self._told: dict[str, str] = {}
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def begin(self) -> None:
        """Follow the stores, which have been filled. A request that was left is judged anew when a host becomes known."""
        for store in self._stores:
            store.subscribe(self._request_changed)
        self._follow(self._informers.windows_instances, _concern)
        self._follow(self._informers.secrets, _token_id)
        self._follow(self._informers.nodes, _readiness)

    def _follow(self, store: Store[T], concern: Callable[[T | None], object]) -> None:
        store.subscribe(lambda _, before, after: self._ask_all() if concern(before) != concern(after) else None)

    def _request_changed(self, name: ObjectKey, _: CachedRequest | None, after: CachedRequest | None) -> None:
        if after is None or after.decided:
            self.queue.forget(name)
            self._told.pop(name.name, None)
        else:
            self.queue.add(name)

    def _ask_all(self) -> None:
        for store in self._stores:
            for cached in store.snapshot():
                if not cached.decided:
                    self.queue.add(ObjectKey(None, cached.metadata.name))

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Judge one request. Raises ApiError."""
        cached = next((found for store in self._stores if (found := store.snapshot().named(key.name)) is not None), None)
        if cached is None or cached.decided:
            return Result()
        request = _request(cached)
        node_name = requested_node(request)
        names = {request.username.removeprefix("system:node:")} | ({node_name} if node_name else set())
        members = self.members.candidates(request.username, names)
        nodes = self._nodes(names)
        judgement = judge(request, members, nodes)
        if judgement.verdict == "Approve" and judgement.member is not None:
            # what is asked of the API server is asked last
            judgement = judge(request, members, nodes, await self._reserved.of(judgement.member, leadership.client))
        if judgement.verdict == "Approve" and judgement.member is not None and request.signer == CLIENT:
            judgement = await self._recorded(judgement.member, judgement, leadership)
        match judgement.verdict:
            case "Approve":
                await self._approve(cached, judgement, leadership)
            case "Leave":
                self._tell(cached, judgement, leadership)
        return Result()

    def _nodes(self, names: set[str]) -> dict[str, KnownNode]:
        snapshot = self._informers.nodes.snapshot()
        found = {name: node for name in names if (node := snapshot.named(name)) is not None}
        return {name: KnownNode(_readiness(node), node.metadata.uid or "") for name, node in found.items()}

    async def _recorded(self, member: Member, judgement: Judgement, leadership: Leadership) -> Judgement:
        """The judgement, once the instance says which Node it will be: an approval cannot be taken back. Raises ApiError."""
        namespace, _, name = member.instance.partition("/")
        cached = self._informers.windows_instances.snapshot().named(name, namespace)
        if cached is None:
            return Judgement("Ignore")
        certified = "" if member.shared else member.node_name
        identity, _ = await self.members.identities.settle(cached, leadership, certified=certified)
        if identity.refusal or identity.name != member.node_name or identity.uid != member.node_uid:
            return Judgement("Leave", member, identity.message or "which Node the instance is was decided again meanwhile")
        return judgement

    async def _approve(self, cached: CachedRequest, judgement: Judgement, leadership: Leadership) -> None:
        instance = judgement.member.instance if judgement.member else ""
        condition = {
            "type": "Approved",
            "status": "True",
            "reason": "TransomApproved",
            "message": f"WindowsInstance {instance} asked for its own certificate",
        }
        metadata = {"resourceVersion": cached.metadata.resource_version}
        path = _APPROVED.path(None, cached.metadata.name, "approval")
        try:
            await leadership.client.request(
                "PATCH",
                path,
                {"fieldManager": "transom"},
                {"metadata": metadata, "status": {"conditions": [condition]}},
                content_type="application/merge-patch+json",
            )
        except (NotFound, Conflict):
            # decided by somebody else, or gone: the store will say so
            return
        _log.info("certificate approved", request=cached.metadata.name, signer=cached.spec.signer_name, instance=instance)
        kind = "client" if cached.spec.signer_name == CLIENT else "serving"
        leadership.recorder.normal(
            self._regarding(cached, judgement),
            "CertificateApproved",
            f"request {cached.metadata.name} for a {kind} certificate",
        )

    def _tell(self, cached: CachedRequest, judgement: Judgement, leadership: Leadership) -> None:
        if self._told.get(cached.metadata.name) == judgement.reason:
            return
        self._told[cached.metadata.name] = judgement.reason
        message = f"request {cached.metadata.name} ({cached.spec.signer_name}) is not approved: {judgement.reason}"
        leadership.recorder.warning(self._regarding(cached, judgement), "CertificateRefused", message)
        _log.warning("certificate not approved", request=cached.metadata.name, reason=judgement.reason)

    def _regarding(self, cached: CachedRequest, judgement: Judgement) -> Regarding:
        """The instance that it concerns, else the request itself."""
        if judgement.member is not None:
            namespace, _, name = judgement.member.instance.partition("/")
            found = self._informers.windows_instances.snapshot().named(name, namespace)
            if found is not None:
                return Regarding(INSTANCES.api_version, INSTANCES.kind, name, namespace, found.metadata.uid)
        return Regarding(REQUESTS.api_version, REQUESTS.kind, cached.metadata.name, None, cached.metadata.uid)


def _request(cached: CachedRequest) -> CertificateRequest:
    spec = cached.spec
    try:
        pem = binascii.a2b_base64(spec.request, strict_mode=True)
    except ValueError:
        pem = b""
    return CertificateRequest(spec.signer_name, spec.username, tuple(spec.groups or ()), tuple(spec.usages or ()), pem)


def _concern(cached: CachedInstance | None) -> tuple[Any, ...] | None:
    """What of an instance certificates are judged by: how its host is changes all the time, and nothing of that."""
    if cached is None:
        return None
    meta, live = cached.metadata, cached.live
    said = meta.uid, meta.generation, meta.deletion_timestamp, meta.labels, meta.annotations
    return *said, live.node_name, live.node_uid, live.node_proof, live.host_address


def _token_id(cached: Whole | None) -> str | None:
    return (cached.metadata.labels or {}).get(LABEL) if cached is not None else None


def _readiness(node: HostNode | None) -> bool:
    return node is not None and node.ready is not None and node.ready.status == "True"
