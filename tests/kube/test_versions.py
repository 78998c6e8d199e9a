"""Which version of a kind is followed, over an upgrade in place."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from lab.control_plane import ControlPlane
from tests.support.waiting import until

from lab import cluster_api
from transom.controllers.runtime.cached_objects import CLUSTERS, CachedCluster
from transom.kube.backoff import Backoff
from transom.kube.client import Client
from transom.kube.reflector import Reflector, ReflectorTimings
from transom.kube.store import Store

pytestmark = pytest.mark.lab
NAME = "clusters.cluster.x-k8s.io"
QUICK = ReflectorTimings(backoff=Backoff(0.05, 0.4), absent=Backoff(0.1, 0.4), watch=1, inactivity=20.0, least=0.05)


def clusters(*versions: str) -> list[dict[str, Any]]:
    """The definition of Cluster, which serves these versions and keeps the last."""
    return [
        definition
        for definition in cluster_api.read_definitions(versions, versions[-1])
        if definition["metadata"]["name"] == NAME
    ]


@pytest.fixture
def plain(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A server without Cluster API."""
    yield control_plane
    control_plane.forget(clusters("v1beta1"))


async def test_an_upgrade_in_place_changes_the_version_and_loses_no_object(plain: ControlPlane, direct: Client) -> None:
    store: Store[CachedCluster] = Store()
    gone: list[str] = []
    store.subscribe(lambda name, _, after: gone.append(name.name) if after is None else None)
    reflector = Reflector(direct, CLUSTERS, store, timings=QUICK)
    following = asyncio.create_task(reflector.run())

    async def follows(version: str) -> None:
        await until(lambda: any(held.api_version.endswith(f"/{version}") for held in store.take_snapshot()))

    await reflector.synced.wait()
    assert not reflector.present
    await asyncio.to_thread(plain.define, clusters("v1beta1"))
    cluster = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "a", "namespace": "default"}}
    await asyncio.to_thread(plain.apply, [cluster | {"spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}}}])
    await follows("v1beta1")
    await asyncio.to_thread(plain.define, clusters("v1beta1", "v1beta2"))
    await follows("v1beta2")
    assert reflector.present
    assert reflector.resource.version == "v1beta2"
    assert gone == []
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
