"""What the commands share that ask something of hosts: the requests, and the wait for the operator."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, Literal

import msgspec

from transom.cli.cluster import describe_server, run_with_client
from transom.cli.host_selection import HostSelection, list_instances
from transom.cli.messages import print_to_stderr
from transom.cli.operator_presence import OperatorPresence, find_operator
from transom.cli.output import ExitCode, Format, exit_when_stopped, fail, print_data, print_lines
from transom.cli.stopping import mark_stop_reported
from transom.cli.tables import format_names
from transom.cli.wait_options import WaitOptions
from transom.common.counting import format_count
from transom.common.mappings import get_nested_value
from transom.controllers.runtime.cached_objects import ADOPT
from transom.diagnosis.field_owners import CLI_MANAGER
from transom.diagnosis.fields import get_name
from transom.diagnosis.host_requests import HostAction, HostPlan, HostProgress, get_progress, plan_request
from transom.diagnosis.snapshot import Value
from transom.kube.client import Client
from transom.kube.errors import ApiError, StatusError
from transom.kube.resources import WINDOWS_INSTANCES

STOPPED: Final = "stopped waiting: the request remains, and the operator continues; `transom status` shows the progress"
_CUT: Final = "stopped: whether hosts that are not listed were changed is not known; run the command again"
_AT_ONCE: Final = 16
"""Requests that are under way together."""
_STEP: Final = 1.0
"""Seconds between two looks at the hosts."""
_SUMMARY: Final = 15.0
"""Seconds after which it is said again what is waited for."""


class HostRequestResult(msgspec.Struct, frozen=True):
    """The result of the request for one host. `outcome` is None if the command did not wait."""

    name: str
    result: Literal["changed", "unchanged", "failed"]
    message: str
    warnings: tuple[str, ...] = ()
    outcome: Literal["done", "failed", "waiting"] | None = None


class RequestReport(msgspec.Struct, frozen=True):
    """What a command asked of a cluster. `rollout` is the request to resume halted rollouts; `stopped`: Ctrl-C ended it."""

    server: str
    operator: OperatorPresence | None = None
    hosts: tuple[HostRequestResult, ...] = ()
    rollout: HostRequestResult | None = None
    stopped: bool = False

    @property
    def requests(self) -> tuple[HostRequestResult, ...]:
        """All of them."""
        return (*self.hosts, *([self.rollout] if self.rollout is not None else []))


def create_request_id() -> str:
    """Return a value that no earlier request has: the time."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def request_host_action(verb: HostAction, selection: HostSelection, waiting: WaitOptions, output: Format) -> None:
    """Ask `verb` of the selected hosts, and with --wait wait for the operator; ends the command."""
    selection.require_selection(verb.value)
    seconds = waiting.seconds
    _run_requests(verb, selection, seconds, output)


def adopt_hosts(selection: HostSelection, seconds: float, output: Format) -> None:
    """Take the selected hosts over from another operator, wait for that, and take the annotation off; ends the command.

    As long as the annotation exists, Transom would take the host back from a later owner.
    """
    _run_requests(HostAction.ADOPT, selection, seconds, output)


def print_plans(verb: HostAction, selection: HostSelection, output: Format) -> None:
    """Print what would be asked of the selected hosts, and ask nothing; ends the command."""

    async def run(client: Client) -> RequestReport:
        plans = [plan_request(verb, item, create_request_id()) for item in await selection.read_instances(client)]
        hosts = tuple(HostRequestResult(plan.name, plan.result, plan.message, plan.warnings) for plan in plans)
        return RequestReport(describe_server(client.connection), hosts=hosts)

    report = run_with_client(selection, run)
    if output is Format.TEXT:
        print_lines(*(_format_line(host) for host in report.hosts))
    print_report_and_exit(report, output)


def _format_line(made: HostRequestResult) -> str:
    word = "" if made.result == "changed" else f"{made.result}: "
    return f"{made.name}: {word}{made.message}"


def _run_requests(verb: HostAction, selection: HostSelection, seconds: float | None, output: Format) -> None:
    async def run(client: Client) -> RequestReport:
        return await HostRequests(client, selection.effective_namespace, output).run(verb, selection, seconds)

    with exit_when_stopped("before anything was requested"):
        report = run_with_client(selection, run, reports=True)
    print_report_and_exit(report, output)


def print_report_and_exit(report: RequestReport, output: Format) -> None:
    """Print the report where it is data, and end the command with its exit code."""
    if output is not Format.TEXT:
        print_data(report, output)
    if report.stopped:
        mark_stop_reported()
        fail(STOPPED if any(request.outcome for request in report.requests) else _CUT, ExitCode.INTERRUPTED)
    if any("failed" in (request.result, request.outcome) or request.outcome == "waiting" for request in report.requests):
        raise SystemExit(ExitCode.NOT_DONE)


class HostRequests:
    """The requests of one command to one cluster."""

    def __init__(self, client: Client, namespace: str, output: Format) -> None:
        self._client, self._namespace, self._output = client, namespace, output
        self._request = create_request_id()

    async def run(self, verb: HostAction, selection: HostSelection, seconds: float | None) -> RequestReport:
        """Make the requests; wait for them where `seconds` say for how long. Raises ApiError."""
        selected = await selection.read_instances(self._client)
        server = describe_server(self._client.connection)
        print_to_stderr(f"transom: on {server}, namespace {self._namespace}")
        requests: dict[str, HostRequestResult] = {}
        operator: OperatorPresence | None = None
        stopped = False
        try:
            for start in range(0, len(selected), _AT_ONCE):
                batch = selected[start : start + _AT_ONCE]
                for made in await asyncio.gather(*(self._request_host(verb, item) for item in batch)):
                    requests[made.name] = made
                    self.print_request(made, waits=seconds is not None)
            self.print_warnings(requests.values())
            changed = [request.name for request in requests.values() if request.result == "changed"]
            if changed:
                operator = await find_operator(self._client, self._namespace)
                warn_of_missing_operator(operator, idle=verb is HostAction.PAUSE)
            if seconds is not None and changed:
                await self._wait_for_hosts(verb, changed, requests, seconds)
                if verb is HostAction.ADOPT:
                    await self._end_adoption({name: requests[name].outcome == "done" for name in changed})
        except asyncio.CancelledError:
            stopped = True
        return RequestReport(server, operator, tuple(requests.values()), stopped=stopped)

    async def _request_host(self, verb: HostAction, instance: Value) -> HostRequestResult:
        """Return what became of the request for one host; a refusal of the server is in it."""
        plan = plan_request(verb, instance, self._request)
        if plan.result == "changed":
            try:
                await self._patch_instance(plan, str(get_nested_value(instance, "metadata", "uid")))
            except ApiError as error:
                return HostRequestResult(plan.name, "failed", describe_refusal(error))
        return HostRequestResult(plan.name, plan.result, plan.message, plan.warnings)

    async def _patch_instance(self, plan: HostPlan, uid: str) -> None:
        """Change the instance as planned, and no other one that has its name by now. Raises ApiError."""
        client, kind, where = self._client, WINDOWS_INSTANCES, (plan.name, self._namespace)
        if plan.cleared:
            value = {"metadata": {"uid": uid}, "status": dict.fromkeys(plan.cleared)}
            await client.patch(kind, value, *where, CLI_MANAGER, "status")
        if plan.annotations:
            await client.patch(kind, {"metadata": {"uid": uid, "annotations": plan.annotations}}, *where, CLI_MANAGER)
        if plan.paused is None:
            return
        # applied, so that a resumption takes the field back and leaves no owner that a later `kubectl apply` conflicts with
        metadata = {"name": plan.name, "namespace": self._namespace, "uid": uid}
        wanted: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        if plan.paused:
            wanted["spec"] = {"paused": True}
        applied = await client.apply(kind, wanted, *where, manager=CLI_MANAGER)
        if not plan.paused and get_nested_value(applied.value, "spec", "paused") is True:
            # another user paused it, and owns the field
            await client.patch(kind, {"metadata": {"uid": uid}, "spec": {"paused": None}}, *where, CLI_MANAGER)

    async def _wait_for_hosts(
        self, verb: HostAction, names: Sequence[str], requests: dict[str, HostRequestResult], seconds: float
    ) -> None:
        """Wait until the operator has handled the requests for these hosts, and note in `requests` how they came out."""
        for name in names:
            requests[name] = msgspec.structs.replace(requests[name], outcome="waiting")

        async def look() -> dict[str, HostProgress]:
            instances = {get_name(instance): instance for instance in await list_instances(self._client, self._namespace)}
            return {name: get_progress(verb, instances.get(name), self._request) for name in names}

        def note(name: str, progress: HostProgress) -> None:
            requests[name] = msgspec.structs.replace(requests[name], outcome=progress.outcome, message=progress.message)

        await poll_progress(look, note, seconds, self.print_outcome)

    async def _end_adoption(self, hosts: Mapping[str, bool]) -> None:
        """Remove the annotation from `hosts` that were taken over.

        A host that is taken over later keeps it. Raises ApiError.
        """
        value = {"metadata": {"annotations": {ADOPT: None}}}
        for name in (name for name, done in hosts.items() if done):
            await self._client.patch(WINDOWS_INSTANCES, value, name, self._namespace, CLI_MANAGER)
        if left := [name for name, done in hosts.items() if not done]:
            print_to_stderr(
                f"transom: {format_names(left)}: annotation {ADOPT} stays until they are taken over: run the command again"
            )

    def print_request(self, made: HostRequestResult, *, waits: bool) -> None:
        """Print one line about a request; where its outcome is waited for, to stderr."""
        if waits and made.result == "changed":
            print_to_stderr(f"{made.name}: {made.message}, waiting for the operator")
        elif self._output is Format.TEXT:
            print_lines(_format_line(made))

    def print_outcome(self, name: str, progress: HostProgress) -> None:
        """Print one line about what became of a request."""
        line = f"{name}: {'' if progress.outcome == 'done' else 'failed: '}{progress.message}"
        if self._output is Format.TEXT:
            print_lines(line)
        else:
            print_to_stderr(line)

    @staticmethod
    def print_warnings(made: Iterable[HostRequestResult]) -> None:
        """Print each warning once, with the hosts that it is about."""
        about: dict[str, list[str]] = {}
        for item in made:
            for text in item.warnings:
                about.setdefault(text, []).append(item.name)
        for text, names in about.items():
            print_to_stderr(f"transom: warning: {format_names(names)}: {text}")


def warn_of_missing_operator(operator: OperatorPresence, *, idle: bool = False) -> None:
    """Say where no operator is known to run. `idle`: the request asks it to do nothing."""
    if operator.problem:
        then = "" if idle or operator.working is None else "; the request waits until one runs"
        print_to_stderr(f"transom: warning: {operator.problem}{then}")


def describe_refusal(error: ApiError) -> str:
    """Return why the server refused a change, and what to do."""
    if isinstance(error, StatusError) and error.code == HTTPStatus.FORBIDDEN:
        return f"{error}: ask for this right (docs/security.md#what-a-person-needs)"
    if isinstance(error, StatusError) and error.code == HTTPStatus.CONFLICT:
        return f"{error}: it was replaced meanwhile; run the command again"
    return str(error)


async def poll_progress(
    read_progress: Callable[[], Awaitable[dict[str, HostProgress]]],
    record_progress: Callable[[str, HostProgress], None],
    seconds: float,
    print_outcome: Callable[[str, HostProgress], None],
) -> None:
    """Look again and again until every name that `read_progress` gives is done or failed, or the time is up.

    `record_progress` is called with each name that has ended, and with those that have not at the timeout. An API server that
    does not answer for a while is asked again.
    """
    clock = asyncio.get_running_loop().time
    deadline, summary = clock() + seconds, clock() + _SUMMARY
    ended: set[str] = set()
    while True:
        problem = ""
        progress: dict[str, HostProgress] = {}
        try:
            progress = await read_progress()
        except StatusError as error:
            if error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code != HTTPStatus.TOO_MANY_REQUESTS:
                raise
            problem = str(error)
        except ApiError as error:
            problem = str(error)
        for name, element in progress.items():
            if name not in ended and element.outcome != "waiting":
                ended.add(name)
                record_progress(name, element)
                print_outcome(name, element)
        waiting = {name: item for name, item in progress.items() if name not in ended}
        if progress and not waiting:
            return
        if clock() >= deadline:
            for name, entry in waiting.items():
                late = HostProgress("waiting", f"not done after {seconds:g} s: {entry.message}")
                record_progress(name, late)
                print_outcome(name, late)
            if problem:
                print_to_stderr(f"transom: {problem}")
            return
        if clock() >= summary:
            summary = clock() + _SUMMARY
            print_to_stderr(f"transom: {problem}" if problem else f"transom: {describe_waiting_hosts(waiting)}")
        await asyncio.sleep(_STEP)


def describe_waiting_hosts(waiting: dict[str, HostProgress]) -> str:
    """Return for what is waited, those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for name, item in waiting.items():
        reasons.setdefault(item.message, []).append(name)
    parts = [f"{format_names(names, 3)}: {message}" for message, names in reasons.items()]
    return f"waiting for {format_count(len(waiting), 'host')}: {'; '.join(parts[:3])}"
