"""`transom restart`: restart the services whose restart waits for you."""

from transom.cli.host_selection import HostSelection
from transom.cli.options import Output, with_option_groups
from transom.cli.output import Format
from transom.cli.wait_options import WaitOptions


@with_option_groups
def restart(selection: HostSelection, waiting: WaitOptions, output: Output = Format.TEXT) -> None:
    """Restart services with pending restarts.

    With `spec.windows.restart: Manual`, services use their previous settings until you restart them. Hosts without pending
    restarts do not change. The command sets the annotation `transom.dev/restart` of the WindowsInstance.
    """
    from transom.cli.host_requests import request_host_action
    from transom.diagnosis.host_requests import HostAction

    request_host_action(HostAction.RESTART, selection, waiting, output)
