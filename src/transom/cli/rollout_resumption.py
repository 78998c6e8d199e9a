"""`transom resume --rollout`: resumes halted rollouts."""

import asyncio
from typing import Final

import msgspec

from transom.cli.cluster import describe_server, run_with_client
from transom.cli.host_requests import (
    HostRequestResult,
    RequestReport,
    create_request_id,
    describe_refusal,
    poll_progress,
    print_report_and_exit,
    warn_of_missing_operator,
)
from transom.cli.host_selection import HostSelection, list_instances
from transom.cli.messages import print_to_stderr
from transom.cli.operator_presence import find_operator
from transom.cli.output import Format, exit_when_stopped, print_lines
from transom.cli.wait_options import WaitOptions
from transom.controllers.rollout.resume_annotation import RESUME
from transom.diagnosis.field_owners import CLI_MANAGER
from transom.diagnosis.host_requests import HostProgress
from transom.diagnosis.rollout_requests import RolloutState, get_rollout_progress
from transom.kube.client import Client
from transom.kube.errors import ApiError, NotFound
from transom.kube.resources import EGRESS_PROXIES, NAMESPACES
from transom.proxy.layers import BASE

_NAME: Final = "rollout"


def resume_rollout(selection: HostSelection, waiting: WaitOptions, output: Format) -> None:
    """Ask the operator to resume halted rollouts, and with --wait wait until every host has the change; ends the command."""
    seconds = waiting.seconds

    async def run(client: Client) -> RequestReport:
        return await _resume_rollouts(client, selection.effective_namespace, seconds, output)

    with exit_when_stopped("before anything was requested"):
        report = run_with_client(selection, run, reports=True)
    print_report_and_exit(report, output)


async def _resume_rollouts(client: Client, namespace: str, seconds: float | None, output: Format) -> RequestReport:
    server = describe_server(client.connection)
    before = await _read_state(client, namespace)
    print_to_stderr(f"transom: on {server}, namespace {namespace}")
    if not before.halted:
        _print(output, f"{_NAME}: unchanged: no rollout is halted")
        return RequestReport(server, rollout=HostRequestResult(_NAME, "unchanged", "no rollout is halted"))
    patch = {"metadata": {"annotations": {RESUME: create_request_id()}}}
    try:
        if before.base is not None:
            await client.patch(EGRESS_PROXIES, patch, BASE, manager=CLI_MANAGER)
        else:
            # with OpenShift's Proxy alone there is no object of Transom's that a rollout is of
            await client.patch(NAMESPACES, patch, namespace, manager=CLI_MANAGER)
    except ApiError as error:
        request = HostRequestResult(_NAME, "failed", describe_refusal(error))
        _print(output, f"{_NAME}: failed: {request.message}")
        return RequestReport(server, rollout=request)
    request, stopped = HostRequestResult(_NAME, "changed", "resumption requested"), False
    if seconds is None:
        _print(output, f"{_NAME}: {request.message}")
    operator = await find_operator(client, namespace)
    warn_of_missing_operator(operator)
    if seconds is not None:
        print_to_stderr(f"{_NAME}: {request.message}, waiting for the operator")
        request = msgspec.structs.replace(request, outcome="waiting")

        async def look() -> dict[str, HostProgress]:
            return {_NAME: get_rollout_progress(before, await _read_state(client, namespace))}

        def note(_: str, progress: HostProgress) -> None:
            nonlocal request
            request = msgspec.structs.replace(request, outcome=progress.outcome, message=progress.message)

        def print_outcome(name: str, progress: HostProgress) -> None:
            _print(output, f"{name}: {'' if progress.outcome == 'done' else 'failed: '}{progress.message}")

        try:
            await poll_progress(look, note, seconds, print_outcome)
        except asyncio.CancelledError:
            stopped = True
    return RequestReport(server, operator, rollout=request, stopped=stopped)


async def _read_state(client: Client, namespace: str) -> RolloutState:
    try:
        base = (await client.get(EGRESS_PROXIES, BASE)).value
    except NotFound:
        base = None
    return RolloutState(base, tuple(await list_instances(client, namespace)))


def _print(output: Format, line: str) -> None:
    if output is Format.TEXT:
        print_lines(line)
    else:
        print_to_stderr(line)
