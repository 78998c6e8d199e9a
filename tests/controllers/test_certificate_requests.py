"""When requests for certificates are judged anew, without a server."""

import threading
from typing import cast

import pytest

from transom.controllers.certificates.controller import CachedRequest, CertificatesController, RequestMeta
from transom.controllers.instance_state.node_identities import NodeIdentities
from transom.controllers.join.bootstrap_tokens import LABEL
from transom.controllers.join.members import Members
from transom.controllers.runtime.cached_objects import CachedInstance, HostNode, NodeCondition, NodeMeta, NodeState
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.informers import Informers
from transom.kube.client import Client
from transom.kube.objects import ObjectMeta, UnstructuredObject
from transom.kube.store import ObjectKey
from transom.proxy.status import StatusCondition
from transom.windows.nodes.node_certificates import ApprovalDecision
from transom.windows.nodes.windows_instance import WindowsInstanceStatus


async def test_a_request_that_was_left_is_judged_anew_for_what_it_is_judged_by_and_for_nothing_else() -> None:
    informers = Informers(cast(Client, None), "transom-system")
    settings = CurrentSettings(informers, "https://api.example")
    controller = CertificatesController(informers, settings, Members(informers, NodeIdentities(informers, settings, None)))
    request = CachedRequest(RequestMeta("late", resource_version="1"))
    versions = iter(range(2, 100))
    controller.subscribe()
    controller._stores[0].put(request)

    async def judged_anew() -> bool:
        asked = len(controller.queue) > 0
        if asked:
            controller.queue.finish(await controller.queue.take())
        return asked

    async def after(status: WindowsInstanceStatus, generation: int = 1) -> bool:
        meta = ObjectMeta("win-1", "transom-system", uid="u", generation=generation, resource_version=str(next(versions)))
        informers.windows_instances.put(CachedInstance(meta, {}, status))
        return await judged_anew()

    async def after_node(status: str, reason: str) -> bool:
        meta = NodeMeta("win-1", uid="n", resource_version=str(next(versions)))
        ready = NodeCondition("Ready", status, reason)
        informers.nodes.put(HostNode(meta, None, NodeState(conditions=[ready])))
        return await judged_anew()

    assert await judged_anew()
    assert await after(WindowsInstanceStatus())
    well = (StatusCondition("Ready", "True", "Ready"),)
    assert not await after(WindowsInstanceStatus(conditions=well))
    assert not await after(WindowsInstanceStatus(conditions=well, settings="other", changes="settings/0:passed"))
    for status in (
        WindowsInstanceStatus(node_name="win-1"),
        WindowsInstanceStatus(node_name="win-1", node_uid="n"),
        WindowsInstanceStatus(node_name="win-1", node_uid="n", node_proof="Spec"),
        WindowsInstanceStatus(node_name="win-1", node_uid="n", node_proof="Spec", host_address="10.0.0.7"),
    ):
        assert await after(status)
    assert await after(status, generation=2)
    assert not await after_node("False", "KubeletNotReady")
    assert await after_node("True", "KubeletReady")
    assert not await after_node("True", "KubeletReady")
    tokens: tuple[dict[str, str], ...] = ({LABEL: "abcdef"}, {LABEL: "fedcba"}, {})
    for labels in tokens:
        meta = ObjectMeta("token", "transom-system", resource_version=str(next(versions)), labels=labels)
        informers.secrets.put(UnstructuredObject(meta, {}))
        assert await judged_anew()
    informers.windows_instances.clear()
    assert await judged_anew()


async def test_requests_are_judged_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    informers = Informers(cast(Client, None), "transom-system")
    settings = CurrentSettings(informers, "https://api.example")
    controller = CertificatesController(informers, settings, Members(informers, NodeIdentities(informers, settings, None)))
    controller._stores[0].put(CachedRequest(RequestMeta("csr", resource_version="1")))
    threads: list[int] = []

    def decide_approval(*_: object) -> ApprovalDecision:
        threads.append(threading.get_ident())
        return ApprovalDecision("Ignore")

    monkeypatch.setattr("transom.controllers.certificates.controller.decide_approval", decide_approval)
    await controller.reconcile(ObjectKey(None, "csr"), cast(Leadership, None))
    assert threads
    assert threading.get_ident() not in threads
