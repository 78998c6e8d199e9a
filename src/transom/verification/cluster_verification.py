"""Whether the Windows nodes of a cluster work from end to end: `transom verify cluster`. The checks do no I/O.

One namespace, objects in it, questions, and the namespace goes, however it ends.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import aiohttp
import msgspec

from transom.common.check_results import CheckResult, Told, Verdict
from transom.common.clean_up import run_to_end
from transom.common.tls_clients import create_client_context
from transom.kube.client import Client
from transom.kube.errors import ApiError, ConnectionFailed, NotFound, StatusError
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import NAMESPACES, NODES, PODS, SERVICES, Resource
from transom.verification import reboot
from transom.verification.checks import ACCEPTED, CHECKS, CLEAN, REBOOTED, ClusterCheck
from transom.verification.objects import (
    APP,
    BALANCED,
    LABEL,
    REBOOT,
    SEEN,
    Node,
    VerificationRequest,
    build_namespace,
    iter_objects,
)
from transom.verification.probe_state import Answer, Exec, Fetch, Log, ProbePod, ProbeService, ProbeState, Question

Say = Callable[[str], object]
"""Prints a line of progress."""
Rebooting = Callable[[str], object]
"""Notes the node that reboots now; empty once none does."""
PREFIX: Final = "transom-verify-"
_KINDS: Final[dict[str, Resource[UnstructuredObject]]] = {"Pod": PODS, "Service": SERVICES}
_MORE: Final = 30.0
"""Seconds that an answer may come later than a program in the pod gives up."""
_REQUEST_SECONDS: Final = 10.0
"""In which a request is answered that was under way when the verification was called off."""
_SLACK_SECONDS: Final = 5.0
_SHOWN: Final = 400
"""Letters of what a check saw."""
_LOG: Final = 1 << 20
"""Bytes of a log that are read: a node sends it, and its lines have any length."""
_NAMED: Final = 3
"""Pods that are named while they are waited for."""


class VerificationTimeouts(msgspec.Struct, frozen=True):
    """Seconds. Pods and a load balancer's address that are missing after `starting` count as failed."""

    starting: float = 600.0
    rebooting: float = 900.0
    """In which a node that reboots is Ready again."""
    every: float = 1.0
    beat: float = 5.0
    """Between two signs of life in the namespace."""
    silent: float = 20.0
    """Without one, no verification runs in a namespace."""
    ending: float = 90.0
    """Seconds in which kubelets end their pods; after that, the pods are force-deleted."""
    gone: float = 300.0
    stopping: float = 120.0
    """In which the namespace goes where the verification was called off."""


DEFAULT: Final = VerificationTimeouts()


def create_namespace_name() -> str:
    """Create a name for the namespace of one verification."""
    return f"{PREFIX}{secrets.token_hex(4)}"


async def verify_cluster(
    client: Client,
    wanted: VerificationRequest,
    report: Told = lambda _: None,
    timeouts: VerificationTimeouts = DEFAULT,
    print_progress: Say = lambda _: None,
    rebooting: Rebooting = lambda _: None,
) -> tuple[CheckResult, ...]:
    """Every check, in order; each result is reported once it is known, and so is progress. Raises ApiError.

    What a verification left that was killed goes first. The namespace goes however this ends, also when it is called off.
    """
    if problems := await delete_old_namespaces(client, timeouts):
        print_progress(f"what an earlier run has left is gone: {', '.join(problems)}")
    print_progress(f"all is made in namespace {wanted.namespace}, which goes at the end, also after Ctrl-C")
    run = _ClusterVerification(client, wanted, report, timeouts, print_progress, rebooting)
    try:
        await run.run_checks()
    except asyncio.CancelledError:
        if run.rebooting:
            print_progress(describe_reboot(run.rebooting))
        await run.delete_namespace(timeouts.stopping)
        raise
    except Exception:
        await run.delete_namespace()
        raise
    await run.delete_namespace()
    return tuple(run.found)


def describe_reboot(node: str) -> str:
    """Return what a node does of which the reboot is no longer waited for."""
    return f"{node} reboots also without this command: `kubectl get node {node}` shows when it is Ready again"


def estimate_stop_seconds(timeouts: VerificationTimeouts = DEFAULT) -> float:
    """Return within how many seconds a verification that is called off has ended."""
    return timeouts.stopping + _REQUEST_SECONDS + _SLACK_SECONDS


async def validate_with_server(
    client: Client, wanted: VerificationRequest, namespace: str, report: Told = lambda _: None
) -> tuple[CheckResult, ...]:
    """Nothing is made: the API server says whether it would take each object, pods and Services in namespace `namespace`.

    What it says of them is its answer to everything but the namespace's own rules. The checks are not made. Raises ApiError.
    """
    run = _ClusterVerification(client, wanted, report, DEFAULT)
    nodes = await _list_nodes(client)
    await run.create_objects(nodes, namespace, {"dryRun": "All"})
    for check in CHECKS:
        run.record_result(CheckResult.from_claim(check, "not applicable", "not made: --dry-run", 0))
    run.record_result(_describe_dry_reboot(wanted, nodes))
    run.record_result(CheckResult.from_claim(CLEAN, "not applicable", "nothing was made: --dry-run", 0))
    return tuple(run.found)


def _describe_dry_reboot(wanted: VerificationRequest, nodes: tuple[Node, ...]) -> CheckResult:
    if not wanted.reboot:
        return CheckResult.from_claim(REBOOTED, "not applicable", "not made: --dry-run", 0)
    if problem := reboot.find_node_problem(nodes, wanted.reboot):
        return CheckResult.from_claim(REBOOTED, "fail", problem, 0)
    command = " ".join(reboot.COMMAND[:4])
    return CheckResult.from_claim(
        REBOOTED, "not applicable", f"not made: --dry-run; it would run `{command}` on {wanted.reboot}", 0
    )


async def delete_old_namespaces(
    client: Client, timeouts: VerificationTimeouts = DEFAULT, *, include_running: bool = False
) -> list[str]:
    """Delete the namespaces of verifications that no longer run, and return their names. Raises ApiError.

    With `include_running`, also those of running verifications.
    """
    before = await _list_namespaces(client)
    if before and not include_running:
        await asyncio.sleep(timeouts.silent)
        now = await _list_namespaces(client)
        before = {name: sign for name, sign in before.items() if name in now and now[name] == sign}
    await asyncio.gather(*(_delete_namespace(client, name, timeouts) for name in before))
    return sorted(before)


async def _list_namespaces(client: Client) -> dict[str, str]:
    """Return the namespaces of verifications, each with the time at which its verification last reported."""
    namespaces = await client.list_objects(NAMESPACES, labels=f"{LABEL}=cluster")
    return {item.metadata.name: (item.metadata.annotations or {}).get(SEEN, "") for item in namespaces.items}


async def _delete_namespace(client: Client, name: str, timeouts: VerificationTimeouts) -> None:
    """Delete a namespace. Raises ApiError, also if it still exists after `pace.gone`."""
    start, forced = time.monotonic(), False
    while True:
        try:
            if not await _is_being_deleted(client, name):
                await client.delete(NAMESPACES, name)
        except NotFound:
            return
        taken = time.monotonic() - start
        if taken > timeouts.gone:
            raise ConnectionFailed(f"namespace {name} is not deleted: `kubectl get namespace {name} -o yaml` shows why")
        if taken > timeouts.ending and not forced:
            forced = True
            # no kubelet reports that a pod of an unreachable node has ended
            await client.request("DELETE", PODS.build_path(name), None, {"gracePeriodSeconds": 0})
        await asyncio.sleep(timeouts.every)


async def _is_being_deleted(client: Client, name: str) -> bool:
    return (await client.get(NAMESPACES, name)).metadata.deletion_timestamp is not None


class _ClusterVerification:
    def __init__(
        self,
        client: Client,
        wanted: VerificationRequest,
        report: Told,
        pace: VerificationTimeouts,
        say: Say = lambda _: None,
        rebooting: Rebooting = lambda _: None,
    ) -> None:
        self._client, self._wanted, self._told, self._pace, self._say = client, wanted, report, pace, say
        self._on_rebooting = rebooting
        self.found: list[CheckResult] = []
        self.rebooting = ""
        """The node that reboots now."""

    async def run_checks(self) -> None:
        nodes = await _list_nodes(self._client)
        async with self._keep_namespace_alive():
            if not await self.create_objects(nodes, self._wanted.namespace, {}):
                for claim in (*CHECKS, REBOOTED):
                    self.record_result(
                        CheckResult.from_claim(claim, "not applicable", "not made: the objects were not all taken", 0)
                    )
                return
            standing = await self._await_objects(nodes)
            for check in CHECKS:
                self.record_result(await self._run_check(check, standing))
            self.record_result(await self._check_reboot(standing))

    async def _check_reboot(self, standing: ProbeState) -> CheckResult:
        """Reboot the node, and make the checks that passed once more."""
        name, start = self._wanted.reboot, time.monotonic()
        if not name:
            return CheckResult.from_claim(REBOOTED, "not applicable", "not asked for: --reboot", 0)
        if problem := reboot.find_node_problem(standing.nodes, name) or reboot.find_pod_problem(standing):
            return CheckResult.from_claim(REBOOTED, "fail", f"nothing was rebooted: {problem}"[:_SHOWN], 0)
        before = next(node for node in standing.nodes if node.name == name)
        passed = {result.id for result in self.found if result.verdict == "pass"}

        def build_result(verdict: Verdict, seen: str) -> CheckResult:
            return CheckResult.from_claim(REBOOTED, verdict, seen[:_SHOWN], time.monotonic() - start)

        self._note_rebooting(name)
        if problem := await self._run_shutdown():
            self._note_rebooting("")
            return build_result("fail", f"{name} was not rebooted: {problem}")
        self._say(f"{name} reboots, and all of its pods with it ({self._pace.rebooting:.0f} s at most until it is Ready)")
        if waits := await self._await_node(before):
            return build_result("fail", f"{waits} after {self._pace.rebooting:.0f} s")
        self._note_rebooting("")
        seconds = time.monotonic() - start
        after = await self._await_objects(await _list_nodes(self._client), standing)
        results = [await self._run_check(check, after) for check in CHECKS if check.id in passed]
        return build_result(*reboot.judge_reboot(name, seconds, reboot.list_old_pods(standing, after, name), results))

    def _note_rebooting(self, node: str) -> None:
        self.rebooting = node
        self._on_rebooting(node)

    async def _run_shutdown(self) -> str:
        """Have the node reboot, and return why it does not; empty also where its answer was lost."""
        try:
            done = await self._client.execute(self._wanted.namespace, REBOOT, reboot.COMMAND, seconds=_MORE)
        except StatusError as error:
            return str(error)
        except ApiError as error:
            self._say(f"the answer to the command was lost: {error}")
            return ""
        return "" if done.code == 0 else f"{done.out}{done.err}".strip() or done.message or f"exit code {done.code}"

    async def _await_node(self, before: Node) -> str:
        """Wait until a node has booted and is Ready, and return what it lacks when the time is over."""
        end, last_reason = time.monotonic() + self._pace.rebooting, ""
        while True:
            try:
                now = next(iter(await _list_nodes(self._client, before.name)), None)
            except ApiError as error:
                waits = f"the API server does not answer: {error}"
            else:
                if reboot.has_rebooted(before, now):
                    return ""
                waits = reboot.describe_wait(before, now)
            if time.monotonic() > end:
                return waits
            if waits != last_reason:
                self._say(waits)
                last_reason = waits
            await asyncio.sleep(self._pace.every)

    async def create_objects(self, nodes: tuple[Node, ...], namespace: str, query: dict[str, str]) -> bool:
        """Make everything, or have it looked at; whether all of it was taken."""
        start, refused, count = time.monotonic(), "", 0
        for value in (build_namespace(self._wanted), *iter_objects(self._wanted, nodes, namespace)):
            resource: Resource[Any] = _KINDS.get(value["kind"], NAMESPACES)
            path = resource.build_path(namespace if resource.namespaced else None)
            try:
                # no object comes after the clearing up
                await run_to_end(self._client.request("POST", path, query, value), None, _REQUEST_SECONDS)
            except StatusError as error:
                refused = f"{value['kind']}/{value['metadata']['name']}: {error}"
                break
            count += 1
        verdict: Verdict = "fail" if refused else "pass"
        seen = refused or f"{count} objects"
        self.record_result(CheckResult.from_claim(ACCEPTED, verdict, seen[:_SHOWN], time.monotonic() - start))
        return not refused

    @asynccontextmanager
    async def _keep_namespace_alive(self) -> AsyncIterator[None]:
        """Mark the namespace as used for the time of the block."""

        async def update_mark() -> None:
            for number in range(1, 1 << 30):
                await asyncio.sleep(self._pace.beat)
                sign = {"metadata": {"annotations": {SEEN: str(number)}}}
                with suppress(ApiError):
                    await self._client.patch(NAMESPACES, sign, self._wanted.namespace)

        beating = asyncio.create_task(update_mark())
        try:
            yield
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def _await_objects(self, nodes: tuple[Node, ...], earlier: ProbeState | None = None) -> ProbeState:
        """Once all pods and the load balancer have what they wait for, or the time is over.

        `earlier` is from before the reboot: containers of that time do not count.
        """
        end, last_reason = time.monotonic() + self._pace.starting, ""
        while True:
            standing = await self._read_state(nodes)
            old_pods = reboot.list_old_pods(earlier, standing, self._wanted.reboot) if earlier is not None else ()
            waits = _describe_missing(standing) or (f"{', '.join(old_pods)} to start again" if old_pods else "")
            if not waits or time.monotonic() > end:
                return standing
            if waits != last_reason:
                self._say(f"waits for {waits} ({self._pace.starting:.0f} s at most)")
                last_reason = waits
            await asyncio.sleep(self._pace.every)

    async def _read_state(self, nodes: tuple[Node, ...]) -> ProbeState:
        place, wanted = self._wanted.namespace, self._wanted
        pods = await self._client.list_objects(PODS, place)
        services = await self._client.list_objects(SERVICES, place)
        return ProbeState(
            nodes,
            tuple(sorted((_parse_pod(item.value) for item in pods.items), key=lambda item: item.name)),
            tuple(_parse_service(item.value) for item in services.items),
            wanted.load_balancer,
            wanted.egress,
            wanted.direct,
            wanted.node_port,
            wanted.host_process,
        )

    async def _run_check(self, check: ClusterCheck, standing: ProbeState) -> CheckResult:
        start = time.monotonic()
        questions = check.ask(standing)
        if isinstance(questions, str):
            return CheckResult.from_claim(check, "not applicable", questions, 0)
        answers = await asyncio.gather(*(self._answer_question(question) for question in questions))
        verdict, seen = check.judge(standing, answers)
        return CheckResult.from_claim(check, verdict, seen[:_SHOWN], time.monotonic() - start)

    async def _answer_question(self, question: Question) -> Answer:
        place = self._wanted.namespace
        try:
            if isinstance(question, Exec):
                done = await self._client.execute(place, question.pod, question.command, seconds=2 * _MORE)
                return Answer(question, done.code, f"{done.out}{done.err}" or done.message)
            if isinstance(question, Log):
                body = await self._client.request(
                    "GET", PODS.build_path(place, question.pod, "log"), {"tailLines": "50"}, limit=_LOG
                )
                return Answer(question, 0, body.decode(errors="replace"))
            return await _fetch_directly(question)
        except ApiError as error:
            return Answer(question, -1, str(error))

    def record_result(self, checked: CheckResult) -> None:
        """One more is known."""
        self.found.append(checked)
        self._told(checked)

    async def delete_namespace(self, seconds: float | None = None) -> None:
        """Take the namespace away, within so many seconds; that it stays is noted. A cancellation meanwhile is raised then."""
        start = time.monotonic()
        self._say(f"takes namespace {self._wanted.namespace} away; kubelets have {self._pace.ending:.0f} s to end their pods")
        try:
            await run_to_end(_delete_namespace(self._client, self._wanted.namespace, self._pace), seconds, self._pace.stopping)
        except (ApiError, TimeoutError) as error:
            why = str(error) if isinstance(error, ApiError) else f"it did not go within {seconds:g} s"
            message = f"namespace {self._wanted.namespace} still exists: {why}; transom verify cluster --clean deletes it"
            self.record_result(CheckResult.from_claim(CLEAN, "fail", message, time.monotonic() - start))
            return
        self.record_result(CheckResult.from_claim(CLEAN, "pass", self._wanted.namespace, time.monotonic() - start))


async def _fetch_directly(question: Fetch) -> Answer:
    """By this machine, with no proxy: the environment is not asked."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_MORE)) as session,
            session.get(question.url, ssl=create_client_context()) as answer,
        ):
            return Answer(question, 0 if answer.status == 200 else answer.status, f"HTTP {answer.status}")
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return Answer(question, -1, str(error) or "no answer in time")


def _describe_missing(standing: ProbeState) -> str:
    """Return what is still missing; empty if everything exists."""
    pods = [
        f"the pod of {pod.node}" + (f" ({pod.waiting[:_SHOWN]})" if pod.waiting else "")
        for pod in standing.pods
        if not pod.ready
    ]
    more = [f"{len(pods) - _NAMED} more pods"] if len(pods) > _NAMED else []
    balancer = ["the load balancer's address"] if standing.load_balancer and not standing.get_service(BALANCED).public else []
    return ", ".join((*pods[:_NAMED], *more, *balancer))


async def _list_nodes(client: Client, name: str = "") -> tuple[Node, ...]:
    """List the nodes, or the one of that name. Raises ApiError."""
    node_list = await client.list_objects(NODES, fields=f"metadata.name={name}" if name else "")
    return tuple(sorted((_parse_node(item.value) for item in node_list.items), key=lambda item: item.name))


def _parse_node(value: dict[str, Any]) -> Node:
    metadata, spec, status = (value.get(part) or {} for part in ("metadata", "spec", "status"))
    return Node(
        metadata["name"],
        str((metadata.get("labels") or {}).get("kubernetes.io/os", "")),
        _is_ready(status),
        str((status.get("nodeInfo") or {}).get("kernelVersion", "")),
        not spec.get("unschedulable"),
        next(
            (str(address.get("address")) for address in status.get("addresses") or () if address.get("type") == "InternalIP"),
            "",
        ),
        str((status.get("nodeInfo") or {}).get("bootID", "")),
    )


def _is_ready(status: dict[str, Any]) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in status.get("conditions") or ()
    )


def _parse_pod(value: dict[str, Any]) -> ProbePod:
    spec, status = value.get("spec") or {}, value.get("status") or {}
    containers = status.get("containerStatuses") or [{}]
    waiting = (containers[0].get("state") or {}).get("waiting") or {}
    ended = (containers[0].get("state") or {}).get("terminated") or {}
    container_state = waiting or ended or ({} if containers[0].get("state") else status)
    return ProbePod(
        value["metadata"]["name"],
        spec.get("nodeName") or "",
        (spec.get("os") or {}).get("name") or "",
        status.get("podIP") or "",
        _is_ready(status),
        containers[0].get("imageID") or "",
        ": ".join(str(container_state[part]) for part in ("reason", "message") if container_state.get(part)),
        str((value["metadata"].get("labels") or {}).get(APP, "")),
        containers[0].get("containerID") or "",
    )


def _parse_service(value: dict[str, Any]) -> ProbeService:
    spec, status = value.get("spec") or {}, value.get("status") or {}
    load_balancer_address = next(_iter_addresses((status.get("loadBalancer") or {}).get("ingress") or ()), "")
    port = next((port.get("nodePort") for port in spec.get("ports") or () if port.get("nodePort")), 0)
    return ProbeService(value["metadata"]["name"], spec.get("clusterIP") or "", load_balancer_address, port)


def _iter_addresses(entries: Any) -> Iterator[str]:
    for item in entries:
        yield item.get("ip") or item.get("hostname") or ""
