"""`transom forget`: what the operator has recorded of a host."""

from typing import Annotated

import typer

from transom.cli.host_selection import HostSelection
from transom.cli.options import Output, with_option_groups
from transom.cli.output import Format, fail
from transom.cli.wait_options import WaitOptions


@with_option_groups
def forget(
    selection: HostSelection,
    waiting: WaitOptions,
    host_key: Annotated[
        bool, typer.Option("--host-key", help="Forget the host key. The next connection records the host's current key.")
    ] = False,
    node: Annotated[bool, typer.Option("--node", help="Forget the host's Node. The operator determines it again.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Forget the recorded host key or Node of hosts.

    Use --host-key if a machine was replaced and its key has changed (HostKeyChanged), after you have checked which machine
    answers. Use --node if the name of the host's Node has changed (NodeNameChanged). With --wait, the command returns after
    the operator has recorded the new value.
    """
    if host_key == node:
        fail("forget what? --host-key, or --node")
    from transom.cli.host_requests import request_host_action
    from transom.diagnosis.host_requests import HostAction

    request_host_action(HostAction.FORGET_HOST_KEY if host_key else HostAction.FORGET_NODE, selection, waiting, output)
