"""When requests for certificates are judged anew, without a server."""

from typing import cast

from transom.controllers.certificates import CachedRequest, CertificatesController
from transom.controllers.instance.node_identities import NodeIdentities
from transom.controllers.join import Members
from transom.controllers.join.bootstrap_tokens import LABEL
from transom.controllers.runtime.cached import CachedInstance, HostNode, NodeCondition, NodeMeta, NodeState
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.settings import CurrentSettings
from transom.kube.client import Client
from transom.kube.objects import ObjectMeta, Whole
from transom.proxy.status import StatusCondition
from transom.windows.nodes import WindowsInstanceStatus


async def test_a_request_that_was_left_is_judged_anew_for_what_it_is_judged_by_and_for_nothing_else() -> None:
    informers = Informers(cast(Client, None), "transom-system")
    settings = CurrentSettings(informers, "https://api.example")
    controller = CertificatesController(informers, settings, Members(informers, NodeIdentities(informers, settings, None)))
    request = CachedRequest(ObjectMeta("late", resource_version="1"))
    versions = iter(range(2, 100))
    controller.begin()
    controller._stores[0].put(request)

    async def judged_anew() -> bool:
        asked = len(controller.queue) > 0
        if asked:
            controller.queue.done(await controller.queue.take())
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
        informers.secrets.put(Whole(meta, {}))
        assert await judged_anew()
    informers.windows_instances.clear()
    assert await judged_anew()
