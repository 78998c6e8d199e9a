"""CertificateSigningRequests of kubelets: those of hosts that Transom joins are approved, and no others."""

import binascii
from typing import Any, Final

import structlog

from transom.controllers.controller import Outcome
from transom.controllers.kept import INSTANCES
from transom.controllers.term import Term
from transom.controllers.watched import Watched
from transom.controllers.windows.members import Members
from transom.kube.errors import Conflict, NotFound
from transom.kube.events import Regarding
from transom.kube.objects import Metadata, ObjectMeta, Projected
from transom.kube.queue import KeyQueue
from transom.kube.resources import Resource
from transom.kube.store import Name
from transom.windows.node_certificates import Judgement, KnownNode, Request, judge, requested_node
from transom.windows.signers import CLIENT, SERVING

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


class HeldRequest(Projected, frozen=True):
    """A CertificateSigningRequest, as far as it is judged."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RequestSpec = RequestSpec()
    status: RequestStatus | None = None

    @property
    def decided(self) -> bool:
        """Whether somebody has decided."""
        return bool(self.status and self.status.conditions)


REQUESTS: Final = Resource(
    "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", False, HeldRequest
)
_APPROVED: Final = Resource(REQUESTS.group, "v1", REQUESTS.kind, REQUESTS.plural, False, Metadata)


class CertificatesController:
    """Keys are names of requests that nobody has decided."""

    def __init__(self, watched: Watched, members: Members) -> None:
        self._watched = watched
        self.members = members
        self._stores = [watched.watch(REQUESTS, fields=f"spec.signerName={signer}") for signer in (CLIENT, SERVING)]
        self._told: dict[str, str] = {}
        self.queue: KeyQueue[Name] = KeyQueue()

    def begin(self) -> None:
        """Follow the stores, which have been filled. A request that was left is judged anew when a host becomes known."""
        for store in self._stores:
            store.subscribe(self._request_changed)
        self.members.subscribe(self._ask_all)
        self._watched.windows_instances.subscribe(lambda *_: self._ask_all())
        self._watched.nodes.subscribe(
            lambda _, before, after: self._ask_all() if _readiness(before) != _readiness(after) else None
        )

    def _request_changed(self, name: Name, _: HeldRequest | None, after: HeldRequest | None) -> None:
        if after is None or after.decided:
            self.queue.forget(name)
            self._told.pop(name[1], None)
        else:
            self.queue.add(name)

    def _ask_all(self) -> None:
        for store in self._stores:
            for held in store.snapshot():
                if not held.decided:
                    self.queue.add((None, held.metadata.name))

    async def reconcile(self, key: Name, term: Term) -> Outcome:
        """Judge one request. Raises ApiError."""
        held = next((found for store in self._stores if (found := store.snapshot().get(key[1])) is not None), None)
        if held is None or held.decided:
            return Outcome()
        request = _request(held)
        node_name = requested_node(request)
        names = {request.username.removeprefix("system:node:")} | ({node_name} if node_name else set())
        members = await self.members.candidates(request.username, names)
        judgement = judge(request, members, self._nodes({one.node_name for one in members} | names))
        match judgement.verdict:
            case "Approve":
                await self._approve(held, judgement, term)
            case "Leave":
                self._tell(held, judgement, term)
        return Outcome()

    def _nodes(self, names: set[str]) -> dict[str, KnownNode]:
        snapshot = self._watched.nodes.snapshot()
        found = {name: node for name in names if (node := snapshot.get(name)) is not None}
        return {name: KnownNode(_readiness(node), node.windows) for name, node in found.items()}

    async def _approve(self, held: HeldRequest, judgement: Judgement, term: Term) -> None:
        instance = judgement.member.instance if judgement.member else ""
        condition = {
            "type": "Approved",
            "status": "True",
            "reason": "TransomApproved",
            "message": f"WindowsInstance {instance} asked for its own certificate",
        }
        metadata = {"resourceVersion": held.metadata.resource_version}
        path = _APPROVED.path(None, held.metadata.name, "approval")
        try:
            await term.client.request(
                "PATCH",
                path,
                {"fieldManager": "transom"},
                {"metadata": metadata, "status": {"conditions": [condition]}},
                content_type="application/merge-patch+json",
            )
        except (NotFound, Conflict):
            # decided by somebody else, or gone: the store will say so
            return
        _log.info("certificate approved", request=held.metadata.name, signer=held.spec.signer_name, instance=instance)
        kind = "client" if held.spec.signer_name == CLIENT else "serving"
        term.recorder.normal(
            self._regarding(held, judgement), "CertificateApproved", f"request {held.metadata.name} for a {kind} certificate"
        )

    def _tell(self, held: HeldRequest, judgement: Judgement, term: Term) -> None:
        if self._told.get(held.metadata.name) == judgement.reason:
            return
        self._told[held.metadata.name] = judgement.reason
        message = f"request {held.metadata.name} ({held.spec.signer_name}) is not approved: {judgement.reason}"
        term.recorder.warning(self._regarding(held, judgement), "CertificateRefused", message)
        _log.warning("certificate not approved", request=held.metadata.name, reason=judgement.reason)

    def _regarding(self, held: HeldRequest, judgement: Judgement) -> Regarding:
        """The instance that it concerns, else the request itself."""
        if judgement.member is not None:
            namespace, _, name = judgement.member.instance.partition("/")
            found = self._watched.windows_instances.snapshot().get(name, namespace)
            if found is not None:
                return Regarding(INSTANCES.api_version, INSTANCES.kind, name, namespace, found.metadata.uid)
        return Regarding(REQUESTS.api_version, REQUESTS.kind, held.metadata.name, None, held.metadata.uid)


def _request(held: HeldRequest) -> Request:
    spec = held.spec
    try:
        pem = binascii.a2b_base64(spec.request, strict_mode=True)
    except ValueError:
        pem = b""
    return Request(spec.signer_name, spec.username, tuple(spec.groups or ()), tuple(spec.usages or ()), pem)


def _readiness(node: Any) -> bool:
    return node is not None and node.ready is not None and node.ready.status == "True"
