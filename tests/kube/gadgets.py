"""A kind for tests whose schema takes anything, and how to follow it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from lab.control_plane import ControlPlane

from transom.kube.backoff import Backoff
from transom.kube.objects import ObjectMeta, Projected, UnstructuredObject
from transom.kube.reflector import Reflector, ReflectorTimings
from transom.kube.resources import Resource
from transom.kube.store import Store

QUICK = ReflectorTimings(backoff=Backoff(0.05, 0.4), absent=Backoff(0.1, 0.4), watch=60, inactivity=20.0, least=0.05)


class GadgetSpec(Projected, frozen=True):
    size: int | None = None
    parts: list[str] | None = None


class Gadget(Projected, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: GadgetSpec | None = None


GADGETS = Resource("test.transom.dev", "v1", "Gadget", "gadgets", True, Gadget)
WHOLE_GADGETS = Resource("test.transom.dev", "v1", "Gadget", "gadgets", True, UnstructuredObject)
GADGET_DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.test.transom.dev"},
    "spec": {
        "group": "test.transom.dev",
        "scope": "Namespaced",
        "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def gadget(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "test.transom.dev/v1",
        "kind": "Gadget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


async def define_gadgets(control_plane: ControlPlane) -> None:
    await asyncio.to_thread(control_plane.define, [GADGET_DEFINITION])


@contextlib.asynccontextmanager
async def following(reflector: Reflector[Any]) -> AsyncIterator[None]:
    """Run a reflector; a fault that it does not wait out fails the test."""
    task = asyncio.create_task(reflector.run())
    try:
        yield
        assert not task.done() or task.exception() is None
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def sizes(store: Store[Gadget]) -> dict[str, int | None]:
    return {item.metadata.name: item.spec and item.spec.size for item in store.take_snapshot()}
