"""When it is looked at what a changed key leaves to be done, without a server."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

from tests.support.waiting import until

from transom.controllers.keys.controller import KeysController
from transom.controllers.keys.key_rotation import KeyRotation
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.options import HostTimings
from transom.kube.client import Client
from transom.kube.objects import ObjectMeta
from transom.windows.nodes.windows_instance import WindowsInstanceStatus


async def test_a_key_that_comes_to_many_hosts_has_them_looked_through_once() -> None:
    informers = Informers(cast(Client, None), "transom-system")
    keys = cast(KeyRotation, SimpleNamespace(kept=None))
    controller = KeysController(informers, keys, pace=HostTimings(), now=lambda: datetime.now(UTC))
    controller.subscribe()
    controller.queue.finish(await controller.queue.take())

    def has(number: int, key: str, version: int) -> None:
        meta = ObjectMeta(f"win-{number}", "transom-system", resource_version=str(version))
        informers.windows_instances.put(CachedInstance(meta, {}, WindowsInstanceStatus(key_hash=key)))

    for number in range(100):
        has(number, "before", number)
    assert not len(controller.queue)
    for number in range(100):
        has(number, "now", 100 + number)
        assert not len(controller.queue)
    await until(lambda: len(controller.queue))
    controller.queue.finish(await controller.queue.take())
    assert not controller.queue._states
