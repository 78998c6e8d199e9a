"""However large the objects are that others make, a store keeps a bounded part of them, of every kind that is followed."""

import base64
import gc
import sys
import tracemalloc
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final, cast

import msgspec
import pytest
from tests.kube.hostile_objects import HOSTILE_OBJECTS
from tests.windows.hostile_requests import HOSTILE_REQUESTS

from transom.controllers.operator import Operator
from transom.controllers.runtime.options import Options
from transom.kube.client import Client
from transom.kube.decoding import decode_object
from transom.kube.memory_limits import BOUNDS, MemoryLimit, estimate_memory_size, get_memory_limit
from transom.kube.objects import Metadata, ObjectMeta
from transom.kube.resources import BUNDLE_HOLDERS, Resource
from transom.kube.store import ObjectKey, Store
from transom.webhook.service_name_watcher import NAMED_SERVICES
from transom.webhook.webhook import Webhook, WebhookOptions

_FEW: Final = 3


def list_followed() -> dict[str, Resource[Any]]:
    """Return every kind that the operator or the admission server follows."""
    client = cast(Client, SimpleNamespace(connection=SimpleNamespace(server="https://api.example")))
    informers = Operator(client, Options()).informers, Webhook(client, WebhookOptions())._informers
    resources = [reflector.resource for informer in informers for reflector in informer.reflectors]
    # followed only while the settings need it
    resources.append(NAMED_SERVICES)
    return {f"{resource.plural}.{resource.group} {resource.type.__name__}": resource for resource in resources}


FOLLOWED: Final = list_followed()


def test_every_kind_that_is_followed_has_a_bound_and_no_other() -> None:
    assert {(item.group, item.kind, item.type.__name__) for item in FOLLOWED.values()} == set(BOUNDS)


def test_a_kind_without_a_bound_cannot_be_followed() -> None:
    with pytest.raises(KeyError):
        get_memory_limit(Resource("example.com", "v1", "Gadget", "gadgets", True, Metadata))


@pytest.mark.parametrize("shape", HOSTILE_OBJECTS)
@pytest.mark.parametrize("kind", FOLLOWED)
def test_large_objects_leave_no_more_behind_than_their_bound(kind: str, shape: str) -> None:
    resource = FOLLOWED[kind]
    bound = get_memory_limit(resource)
    text = HOSTILE_OBJECTS[shape](resource.type, "name-0")
    store: Store[Any] = Store(memory_limit=bound)
    for number in range(_FEW):
        feed(store, resource, text.replace(b"name-0", f"name-{number}".encode()))
    retained = measure_memory(store)
    assert len(store) + len(store.malformed) == _FEW
    assert retained < _FEW * (bound.object + (20 << 10))


def measure_memory(store: Store[Any]) -> int:
    """Return the bytes of everything that a store's tables refer to, as Python says."""
    waiting: list[Any] = [store._objects, store._malformed, store._indexes]
    sizes: dict[int, int] = {}
    while waiting:
        part = waiting.pop()
        if id(part) not in sizes and not isinstance(part, type | ModuleType | FunctionType):
            sizes[id(part)] = sys.getsizeof(part)
            waiting.extend(gc.get_referents(part))
    return sum(sizes.values())


def feed(store: Store[Any], resource: Resource[Any], text: bytes) -> None:
    """Put an object into a store as a reflector does."""
    read = decode_object(resource, msgspec.Raw(text))
    if read.object is not None:
        store.put(read.object, read.malformed)
    elif read.malformed is not None:
        store.put_malformed(read.malformed)


@pytest.mark.parametrize("text", ["text", "x" * 100 + "é", "x" * 100 + "\u20ac", "x" * 100 + "\U0001f600"], ids=ascii)
def test_what_is_measured_is_about_what_python_keeps(text: str) -> None:
    """One character outside ASCII changes how many bytes each of the others takes."""
    value = {"list": [{"a": f"{text} {number}"} for number in range(10_000)]}
    tracemalloc.start()
    try:
        copy = msgspec.json.decode(msgspec.json.encode(value))
        real = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert real / 3 < estimate_memory_size(copy) < real * 3


def put(store: Store[Metadata], name: str, size: int, version: str = "1") -> None:
    """Put an object with an annotation of that size."""
    store.put(Metadata(ObjectMeta(name, "tenant", resource_version=version, annotations={"a": "x" * size})))


def test_a_full_store_refuses_what_is_new_and_takes_it_once_there_is_room() -> None:
    store: Store[Metadata] = Store(memory_limit=MemoryLimit(20_000, 50_000))
    for name in ("a", "b", "c", "d", "e", "f"):
        put(store, name, 10_000)
    assert [name.name for name in store.take_snapshot().iter_keys()] == ["a", "b", "c", "d"]
    assert store.lacks_room
    assert store.retained <= 50_000
    put(store, "a", 10, "2")
    put(store, "e", 5_000, "2")
    assert ObjectKey("tenant", "e") in store.take_snapshot()
    assert ObjectKey("tenant", "e") not in store.malformed
    store.replace((), (), "3")
    assert (store.retained, store.lacks_room) == (0, False)


def test_an_object_that_grew_too_large_stays_as_it_was_and_is_named() -> None:
    store: Store[Metadata] = Store(memory_limit=MemoryLimit(20_000, 50_000))
    put(store, "a", 100)
    put(store, "a", 30_000, "2")
    kept = store.take_snapshot().find_named("a", "tenant")
    assert kept is not None
    assert kept.metadata.resource_version == "1"
    assert "too large" in store.malformed[ObjectKey("tenant", "a")].problem
    put(store, "a", 200, "3")
    assert not store.malformed


def test_notes_of_what_does_not_fit_are_bounded_too() -> None:
    store: Store[Metadata] = Store(memory_limit=MemoryLimit(1_000, 50_000))
    for number in range(1_000):
        put(store, f"name-{number}", 2_000)
    assert 10 < len(store.malformed) < 100
    assert store.retained <= 50_000


def test_a_kubelet_cannot_make_its_node_vanish() -> None:
    """A Node that is not there is one whose name a certificate may have."""
    resource = next(item for item in FOLLOWED.values() if item.kind == "Node")
    addresses = [{"type": "Hostname", "address": f"host-{number}"} for number in range(10_000)]
    addresses.insert(0, {"type": "InternalIP", "address": "x" * 100_000})
    value = {"metadata": {"name": "win-1", "uid": "u"}, "status": {"addresses": addresses}}
    store: Store[Any] = Store(memory_limit=get_memory_limit(resource))
    feed(store, resource, msgspec.json.encode(value))
    assert ObjectKey(None, "win-1") in store.take_snapshot()


def test_a_bundle_that_kubectl_applied_is_kept() -> None:
    """Its annotation has the whole bundle once more."""
    value = {
        "metadata": {"name": "trust", "namespace": "tenant", "annotations": {"last-applied": "x" * 250_000}},
        "data": {"ca-bundle.crt": "x" * 250_000},
    }
    store: Store[Any] = Store(memory_limit=get_memory_limit(BUNDLE_HOLDERS))
    feed(store, BUNDLE_HOLDERS, msgspec.json.encode(value))
    assert ObjectKey("tenant", "trust") in store.take_snapshot()


def test_stores_have_the_bound_of_their_kind() -> None:
    client = cast(Client, SimpleNamespace(connection=SimpleNamespace(server="https://api.example")))
    for reflector in Operator(client, Options()).informers.reflectors:
        assert reflector._store.bound == get_memory_limit(reflector.resource)


async def test_a_list_keeps_no_more_than_its_bound_while_it_is_read() -> None:
    sizes = [10_000, 30_000, 10_000, 10_000, 10_000, 10_000]
    items = [{"metadata": {"name": f"name-{number}", "annotations": {"a": "x" * size}}} for number, size in enumerate(sizes)]

    class Server(Client):
        async def request(self, *_: Any, **__: Any) -> bytes:
            return msgspec.json.encode({"metadata": {"resourceVersion": "7"}, "items": items})

    client = Server(cast(Any, None))
    resource = Resource("", "v1", "Gadget", "gadgets", True, Metadata)
    listing = await client.list_objects(resource, memory_limit=MemoryLimit(20_000, 45_000))
    assert [item.metadata.name for item in listing.items] == ["name-0", "name-2", "name-3", "name-4"]
    problems = {item.metadata.metadata.name: item.problem for item in listing.malformed}
    assert "too large" in problems["name-1"]
    assert "no room" in problems["name-5"]
    assert estimate_memory_size(listing.malformed[-1]) < 2_000
    assert len((await client.list_objects(resource)).items) == len(items)


@pytest.mark.parametrize("name", [name for name in HOSTILE_REQUESTS if name.startswith("large-")])
def test_a_large_certificate_request_is_kept_without_its_text(name: str) -> None:
    resource = next(item for item in FOLLOWED.values() if item.kind == "CertificateSigningRequest")
    text = base64.b64encode(HOSTILE_REQUESTS[name]()).decode()
    value = {"metadata": {"name": "csr", "annotations": {"a": "x" * 200_000}}, "spec": {"request": text, "username": "u"}}
    store: Store[Any] = Store(memory_limit=get_memory_limit(resource))
    feed(store, resource, msgspec.json.encode(value))
    kept = store.take_snapshot().find_named("csr")
    assert (kept.spec.request, kept.spec.is_too_large, kept.spec.username) == ("", True, "u")
    assert measure_memory(store) < 20_000
