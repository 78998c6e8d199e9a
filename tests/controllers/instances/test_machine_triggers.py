"""When the Machines of a cluster are looked through, without a server."""

from typing import cast

from tests.support.waiting import until

from transom.controllers.inventory.controller import InstancesController
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.informers import CachedApiMachine, Informers, watch_machines
from transom.kube.client import Client
from transom.kube.objects import ObjectMeta


async def test_many_machines_that_change_are_looked_through_once() -> None:
    informers = Informers(cast(Client, None), "transom-system")
    controller = InstancesController(informers, CurrentSettings(informers, None))
    controller.subscribe()
    controller.queue.finish(await controller.queue.take())
    for version in range(2):
        for number in range(500):
            meta = ObjectMeta(f"m-{number}", "machines", resource_version=f"{version}{number}")
            watch_machines(informers).put(CachedApiMachine(meta))
            assert not len(controller.queue)
        await until(lambda: len(controller.queue))
        controller.queue.finish(await controller.queue.take())
    assert not controller.queue._states
