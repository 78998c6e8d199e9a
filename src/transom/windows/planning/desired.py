"""What a Windows host should look like, from the egress settings: a DesiredState of what is ours, and nothing else."""

from transom.proxy.settings import Egress
from transom.windows.host.state import DesiredState
from transom.windows.ledger.ledger import SETTINGS
from transom.windows.registry.registry import Registry


def desired(egress: Egress) -> DesiredState:
    """The registry values that the settings ask for, part by part."""
    return DesiredState(Registry().apply(edit for part in SETTINGS.values() for edit in part.wish(egress)))
