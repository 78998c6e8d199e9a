"""Whether the Windows nodes of a cluster work from end to end: `transom verify cluster`. The checks do no I/O.

One namespace, objects in it, questions, and the namespace goes, however it ends.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import aiohttp
import msgspec

from transom.checked import Checked, Told, Verdict
from transom.kube import ApiError, ConnectionFailed, NotFound, StatusError
from transom.kube.client import Client
from transom.kube.objects import Whole
from transom.kube.resources import NAMESPACES, NODES, PODS, SERVICES, Resource
from transom.verification.checks import ACCEPTED, CHECKS, CLEAN, ClusterCheck
from transom.verification.objects import BALANCED, LABEL, SEEN, Node, Wanted, namespace, objects
from transom.verification.standing import Answer, Exec, Fetch, Log, Question, Standing, StandingPod, StandingService

_T = TypeVar("_T")
Say = Callable[[str], object]
"""Takes a line for whoever waits."""
PREFIX: Final = "transom-verify-"
_KINDS: Final[dict[str, Resource[Whole]]] = {"Pod": PODS, "Service": SERVICES}
_MORE: Final = 30.0
"""Seconds that an answer may come later than a program in the pod gives up."""
_SHOWN: Final = 400
"""Letters of what a check saw."""
_NAMED: Final = 3
"""Pods that are named while they are waited for."""


class Waits(msgspec.Struct, frozen=True):
    """Seconds. What is not there after `starting` (pods, a load balancer's address) does not come."""

    starting: float = 600.0
    every: float = 1.0
    beat: float = 5.0
    """Between two signs of life in the namespace."""
    silent: float = 20.0
    """Without one nobody works in a namespace."""
    ending: float = 90.0
    """In which kubelets end their pods; after that these are taken away without them."""
    gone: float = 300.0


DEFAULT: Final = Waits()


def new_name() -> str:
    """A name for the namespace of one verification."""
    return f"{PREFIX}{secrets.token_hex(4)}"


async def verify(
    client: Client, wanted: Wanted, told: Told = lambda _: None, pace: Waits = DEFAULT, say: Say = lambda _: None
) -> tuple[Checked, ...]:
    """Every check, in order; each is `told` as soon as it is known, and what is waited for is said. Raises ApiError.

    What a verification left that was killed goes first. The namespace goes however this ends, also when it is called off.
    """
    if gone := await clean(client, pace):
        say(f"what an earlier run has left is gone: {', '.join(gone)}")
    say(f"all is made in namespace {wanted.namespace}, which goes at the end, also after Ctrl-C")
    run = _Run(client, wanted, told, pace, say)
    try:
        await run.checks()
    finally:
        await _unbroken(run.clean())
    return tuple(run.found)


async def rehearse(client: Client, wanted: Wanted, place: str, told: Told = lambda _: None) -> tuple[Checked, ...]:
    """Nothing is made: the API server says whether it would take each object, pods and Services in namespace `place`.

    What it says of them is its answer to everything but the namespace's own rules. The checks are not made. Raises ApiError.
    """
    run = _Run(client, wanted, told, DEFAULT)
    nodes = await _nodes(client)
    await run.accepted(nodes, place, {"dryRun": "All"})
    for check in CHECKS:
        run.note(Checked.of(check, "not applicable", "not made: --dry-run", 0))
    run.note(Checked.of(CLEAN, "not applicable", "nothing was made: --dry-run", 0))
    return tuple(run.found)


async def clean(client: Client, pace: Waits = DEFAULT, *, insist: bool = False) -> list[str]:
    """Take away the namespaces of verifications that nobody works in any more, and give their names. Raises ApiError.

    With `insist` those, too, in which somebody works.
    """
    before = await _left(client)
    if before and not insist:
        await asyncio.sleep(pace.silent)
        now = await _left(client)
        before = {name: sign for name, sign in before.items() if name in now and now[name] == sign}
    await asyncio.gather(*(_remove(client, name, pace) for name in before))
    return sorted(before)


async def _left(client: Client) -> dict[str, str]:
    """The namespaces of verifications, each with its last sign of life."""
    found = await client.list_objects(NAMESPACES, labels=f"{LABEL}=cluster")
    return {one.metadata.name: (one.metadata.annotations or {}).get(SEEN, "") for one in found.items}


async def _remove(client: Client, name: str, pace: Waits) -> None:
    """Raises ApiError, also where it is still there after `pace.gone`."""
    begun, forced = time.monotonic(), False
    while True:
        try:
            if not await _is_going(client, name):
                await client.delete(NAMESPACES, name)
        except NotFound:
            return
        taken = time.monotonic() - begun
        if taken > pace.gone:
            raise ConnectionFailed(f"namespace {name} does not go: `kubectl get namespace {name} -o yaml` says what holds it")
        if taken > pace.ending and not forced:
            forced = True
            # of a node that does not answer nobody says that a pod has ended
            await client.request("DELETE", PODS.path(name), None, {"gracePeriodSeconds": 0})
        await asyncio.sleep(pace.every)


async def _is_going(client: Client, name: str) -> bool:
    return (await client.get(NAMESPACES, name)).metadata.deletion_timestamp is not None


class _Run:
    def __init__(self, client: Client, wanted: Wanted, told: Told, pace: Waits, say: Say = lambda _: None) -> None:
        self._client, self._wanted, self._told, self._pace, self._say = client, wanted, told, pace, say
        self.found: list[Checked] = []

    async def checks(self) -> None:
        nodes = await _nodes(self._client)
        async with self._alive():
            if not await self.accepted(nodes, self._wanted.namespace, {}):
                for check in CHECKS:
                    self.note(Checked.of(check, "not applicable", "not made: the objects were not all taken", 0))
                return
            standing = await self._standing(nodes)
            for check in CHECKS:
                await self._ask(check, standing)

    async def accepted(self, nodes: tuple[Node, ...], place: str, query: dict[str, str]) -> bool:
        """Make everything, or have it looked at; whether all of it was taken."""
        begun, refused, count = time.monotonic(), "", 0
        for value in (namespace(self._wanted), *objects(self._wanted, nodes, place)):
            resource: Resource[Any] = _KINDS.get(value["kind"], NAMESPACES)
            path = resource.path(place if resource.namespaced else None)
            try:
                await _unbroken(self._client.request("POST", path, query, value))
            except StatusError as error:
                refused = f"{value['kind']}/{value['metadata']['name']}: {error}"
                break
            count += 1
        verdict: Verdict = "fail" if refused else "pass"
        seen = refused or f"{count} objects"
        self.note(Checked.of(ACCEPTED, verdict, seen[:_SHOWN], time.monotonic() - begun))
        return not refused

    @asynccontextmanager
    async def _alive(self) -> AsyncIterator[None]:
        """Whoever looks for namespaces that were left sees that this one is in use."""

        async def beat() -> None:
            for number in range(1, 1 << 30):
                await asyncio.sleep(self._pace.beat)
                sign = {"metadata": {"annotations": {SEEN: str(number)}}}
                with suppress(ApiError):
                    await self._client.patch(NAMESPACES, sign, self._wanted.namespace)

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def _standing(self, nodes: tuple[Node, ...]) -> Standing:
        """Once all pods and the load balancer have what they wait for, or the time is over."""
        end, said = time.monotonic() + self._pace.starting, ""
        while True:
            standing = await self._look(nodes)
            waits = _awaited(standing)
            if not waits or time.monotonic() > end:
                return standing
            if waits != said:
                self._say(f"waits for {waits} ({self._pace.starting:.0f} s at most)")
                said = waits
            await asyncio.sleep(self._pace.every)

    async def _look(self, nodes: tuple[Node, ...]) -> Standing:
        place, wanted = self._wanted.namespace, self._wanted
        pods = await self._client.list_objects(PODS, place)
        services = await self._client.list_objects(SERVICES, place)
        return Standing(
            nodes,
            tuple(sorted((_pod(one.value) for one in pods.items), key=lambda one: one.name)),
            tuple(_service(one.value) for one in services.items),
            wanted.load_balancer,
            wanted.egress,
            wanted.direct,
        )

    async def _ask(self, check: ClusterCheck, standing: Standing) -> None:
        begun = time.monotonic()
        questions = check.ask(standing)
        if isinstance(questions, str):
            self.note(Checked.of(check, "not applicable", questions, 0))
            return
        answers = await asyncio.gather(*(self._answer(one) for one in questions))
        verdict, seen = check.judge(standing, answers)
        self.note(Checked.of(check, verdict, seen[:_SHOWN], time.monotonic() - begun))

    async def _answer(self, question: Question) -> Answer:
        place = self._wanted.namespace
        try:
            if isinstance(question, Exec):
                done = await self._client.execute(place, question.pod, question.command, seconds=2 * _MORE)
                return Answer(question, done.code, f"{done.out}{done.err}" or done.said)
            if isinstance(question, Log):
                body = await self._client.request("GET", PODS.path(place, question.pod, "log"), {"tailLines": "50"})
                return Answer(question, 0, body.decode(errors="replace"))
            return await _fetched(question)
        except ApiError as error:
            return Answer(question, -1, str(error))

    def note(self, checked: Checked) -> None:
        """One more is known."""
        self.found.append(checked)
        self._told(checked)

    async def clean(self) -> None:
        begun = time.monotonic()
        self._say(f"takes namespace {self._wanted.namespace} away; kubelets have {self._pace.ending:.0f} s to end their pods")
        try:
            await _remove(self._client, self._wanted.namespace, self._pace)
        except ApiError as error:
            told = f"namespace {self._wanted.namespace} is still there: {error}; transom verify cluster --clean takes it away"
            self.note(Checked.of(CLEAN, "fail", told, time.monotonic() - begun))
            return
        self.note(Checked.of(CLEAN, "pass", self._wanted.namespace, time.monotonic() - begun))


async def _unbroken(work: Coroutine[Any, Any, _T]) -> _T:
    """Who is called off meanwhile is so once it has ended: no object comes after the clearing up, which goes to its end."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(ApiError):
            await task
        raise


async def _fetched(question: Fetch) -> Answer:
    """By this machine, with no proxy: the environment is not asked."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_MORE)) as session,
            session.get(question.url) as answer,
        ):
            return Answer(question, 0 if answer.status == 200 else answer.status, f"HTTP {answer.status}")
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return Answer(question, -1, str(error) or "no answer in time")


def _awaited(standing: Standing) -> str:
    """What has not come yet; empty where all is there."""
    pods = [
        f"the pod of {one.node}" + (f" ({one.waiting[:_SHOWN]})" if one.waiting else "")
        for one in standing.pods
        if not one.ready
    ]
    more = [f"{len(pods) - _NAMED} more pods"] if len(pods) > _NAMED else []
    balancer = ["the load balancer's address"] if standing.load_balancer and not standing.service(BALANCED).public else []
    return ", ".join((*pods[:_NAMED], *more, *balancer))


async def _nodes(client: Client) -> tuple[Node, ...]:
    found = await client.list_objects(NODES)
    return tuple(sorted((_node(one.value) for one in found.items), key=lambda one: one.name))


def _node(value: dict[str, Any]) -> Node:
    metadata, spec, status = (value.get(part) or {} for part in ("metadata", "spec", "status"))
    return Node(
        metadata["name"],
        str((metadata.get("labels") or {}).get("kubernetes.io/os", "")),
        _is_ready(status),
        str((status.get("nodeInfo") or {}).get("kernelVersion", "")),
        not spec.get("unschedulable"),
    )


def _is_ready(status: dict[str, Any]) -> bool:
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ())


def _pod(value: dict[str, Any]) -> StandingPod:
    spec, status = value.get("spec") or {}, value.get("status") or {}
    containers = status.get("containerStatuses") or [{}]
    waiting = (containers[0].get("state") or {}).get("waiting") or {}
    ended = (containers[0].get("state") or {}).get("terminated") or {}
    said = waiting or ended or ({} if containers[0].get("state") else status)
    return StandingPod(
        value["metadata"]["name"],
        spec.get("nodeName") or "",
        (spec.get("os") or {}).get("name") or "",
        status.get("podIP") or "",
        _is_ready(status),
        containers[0].get("imageID") or "",
        ": ".join(str(said[part]) for part in ("reason", "message") if said.get(part)),
    )


def _service(value: dict[str, Any]) -> StandingService:
    spec, status = value.get("spec") or {}, value.get("status") or {}
    given = next(_addresses((status.get("loadBalancer") or {}).get("ingress") or ()), "")
    return StandingService(value["metadata"]["name"], spec.get("clusterIP") or "", given)


def _addresses(given: Any) -> Iterator[str]:
    for one in given:
        yield one.get("ip") or one.get("hostname") or ""
