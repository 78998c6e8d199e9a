"""How soon a right that is granted again has an effect, at the operator's own pace: in virtual time, on no machine's clock."""

import asyncio
from typing import Any, cast

import msgspec
import pytest
from tests.kube.virtual_time import run

from transom.controllers.operator import Operator
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.options import Options
from transom.controllers.runtime.rights_watch import RightsWatch
from transom.kube.client import Client
from transom.kube.errors import StatusError
from transom.kube.events import EventRecorder
from transom.kube.refusals import Refusals

PROMISE = 15.0
"""Seconds: CHANGELOG and the runbook of TransomRequestsRefused say so."""


class Server(Client):
    """Answers reviews of rights."""

    def __init__(self) -> None:
        super().__init__(cast(Any, _Nowhere()), refusals=Refusals(lambda: asyncio.get_running_loop().time()))
        self.denied: set[str] = set()
        """Plurals of kinds."""
        self.reviews = 0

    async def request(self, *arguments: Any, **_: Any) -> bytes:
        self.reviews += 1
        resource = arguments[3]["spec"]["resourceAttributes"]["resource"]
        return msgspec.json.encode({"status": {"allowed": resource not in self.denied}})

    def refuse(self, plural: str) -> None:
        message = f'{plural} is forbidden: User "x" cannot patch resource "{plural}" in API group "example.com"'
        self.refusals.note_refusal("PATCH", f"/apis/example.com/v1/{plural}/a", message)


class _Nowhere:
    server = "https://api.example"


async def measure(rights: int, again_after: float) -> tuple[float, bool]:
    """Return the seconds from the grant of one of these rights to the retry, and whether all were reported before."""
    server, retried = Server(), asyncio.Event()
    plurals = [f"kind{number:03}s" for number in range(rights)]
    watch = RightsWatch(server, Informers(server, "transom-system"), Options(), ConditionAggregator(), retried.set)
    watching = asyncio.create_task(watch.run(EventRecorder(server)))
    loop = asyncio.get_running_loop()
    # in between two looks
    await asyncio.sleep(2.5)
    server.denied = set(plurals)
    for plural in plurals:
        server.refuse(plural)
    await asyncio.sleep(again_after)
    reported = len(watch.missing) == rights
    server.denied.discard(plurals[-1])
    began = loop.time()
    retried.clear()
    await retried.wait()
    watching.cancel()
    return loop.time() - began, reported


@pytest.mark.parametrize("rights", [1, 3, 120])
@pytest.mark.parametrize("again_after", [0.1, 4.0, 29.0, 41.0, 600.0])
def test_what_was_refused_is_retried_within_the_promise(rights: int, again_after: float) -> None:
    """No matter whether the right was missing for long enough to be reported, or how many others stay missing."""
    seconds, reported = run(measure(rights, again_after))
    assert seconds <= PROMISE
    assert reported == (again_after > 40)


def test_every_kind_is_retried_then() -> None:
    """Also those that count as absent while they may not be read."""
    operator = Operator(cast(Client, Server()), Options())
    for reflector in operator.informers.reflectors:
        reflector.refusal = "cannot list"
    operator._retry_refused()
    assert all(reflector._retry_now.is_set() for reflector in operator.informers.reflectors)


def test_an_optional_kind_is_a_missing_right_unless_its_group_is_absent() -> None:
    operator = Operator(cast(Client, Server()), Options())
    optional = {
        (reflector.resource.plural, reflector._namespace): reflector._granted_with
        for reflector in operator.informers.reflectors
        if reflector._optional
    }
    assert optional["awsclusters", None] == optional["kubeadmcontrolplanes", None] == ""
    assert optional["secrets", "openshift-machine-api"] == optional["secrets", "openshift-config"] == "config.openshift.io"


def test_a_refusal_of_a_watch_names_no_other_kind() -> None:
    server = Server()

    async def look() -> None:
        server.watch_failures.note_failure("Secret", StatusError(500, "InternalError", "unable to transform"), 1)
        server.watch_failures.note_failure(
            "Pod", StatusError(403, "Forbidden", 'pods is forbidden: cannot list resource "pods" in API group ""'), 1
        )
        await asyncio.sleep(31)
        assert [item.kind for item in server.watch_failures.list_lasting(30)] == ["Secret"]
        server.watch_failures.note_success("Secret")
        assert server.watch_failures.list_lasting(0) == ()

    run(look())
