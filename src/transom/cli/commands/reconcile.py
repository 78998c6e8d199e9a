"""`transom reconcile`: reconcile hosts now instead of at their next check."""

from transom.cli.host_selection import HostSelection
from transom.cli.options import Output, with_option_groups
from transom.cli.output import Format
from transom.cli.wait_options import WaitOptions


@with_option_groups
def reconcile(selection: HostSelection, waiting: WaitOptions, output: Output = Format.TEXT) -> None:
    """Reconcile hosts now instead of at their next check.

    The operator reads the host, corrects differences, and retries a failed host at once. In a rollout, the host still waits
    for its turn. The command sets the annotation `transom.dev/reconcile` of the WindowsInstance.
    """
    from transom.cli.host_requests import request_host_action
    from transom.diagnosis.host_requests import HostAction

    request_host_action(HostAction.RECONCILE, selection, waiting, output)
