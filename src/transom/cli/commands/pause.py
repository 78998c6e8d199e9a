"""`transom pause`: pause hosts: the operator leaves them alone."""

from transom.cli.host_selection import HostSelection
from transom.cli.options import Output, with_option_groups
from transom.cli.output import Format
from transom.cli.wait_options import WaitOptions


@with_option_groups
def pause(selection: HostSelection, waiting: WaitOptions, output: Output = Format.TEXT) -> None:
    """Pause hosts, so that the operator does not change them.

    The operator finishes the current change of a host, and does not connect to the host again until you resume it. Paused
    hosts do not count in rollouts. The command sets `spec.paused` of the WindowsInstance. With --wait, it returns when the
    operator has disconnected from the host.
    """
    from transom.cli.host_requests import request_host_action
    from transom.diagnosis.host_requests import HostAction

    request_host_action(HostAction.PAUSE, selection, waiting, output)
