"""`transom resume`: resumes paused hosts or halted rollouts."""

from typing import Annotated

import typer

from transom.cli.host_selection import HostSelection
from transom.cli.options import Output, with_option_groups
from transom.cli.output import Format, fail
from transom.cli.wait_options import WaitOptions


@with_option_groups
def resume(
    selection: HostSelection,
    waiting: WaitOptions,
    rollout: Annotated[bool, typer.Option("--rollout", help="Resume halted rollouts instead of hosts.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Resume paused hosts, or with --rollout a halted rollout.

    `transom resume HOST` removes `spec.paused`, and the operator applies the current settings to the host. `transom resume
    --rollout` resumes a rollout that halted after failures (RolloutHalted). Fix the cause first. The operator retries the
    first host, then the others. The command sets the annotation `transom.dev/resume` of EgressProxy/cluster, or of Transom's
    namespace.
    """
    if rollout:
        if not selection.is_empty:
            fail("--rollout resumes rollouts, which are of no single host: leave out hosts, --all and -l")
        from transom.cli.rollout_resumption import resume_rollout

        resume_rollout(selection, waiting, output)
        return
    if selection.is_empty:
        fail(
            "resume what? A paused host: transom resume win-1 (or --all, -l LABELS). A halted rollout: transom resume --rollout"
        )
    from transom.cli.host_requests import request_host_action
    from transom.diagnosis.host_requests import HostAction

    request_host_action(HostAction.RESUME, selection, waiting, output)
