"""What a process remembers of instances, which come and go for as long as it runs."""

import msgspec

from transom.controllers.instance_state.instance_writes import InstanceUids
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.kube.store import Store


def instance(uid: int) -> CachedInstance:
    return msgspec.convert({"metadata": {"name": "win-1", "namespace": "transom", "uid": f"u-{uid}"}}, CachedInstance)


def test_those_that_are_gone_are_forgotten() -> None:
    store = Store[CachedInstance]()
    noted = InstanceUids(store)
    for uid in range(100):
        store.put(instance(uid))
        assert instance(uid) not in noted
        noted.add(instance(uid))
        assert instance(uid) in noted
        assert len(noted) <= 2
