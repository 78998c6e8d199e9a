"""How an operator works, as `transom run` is told."""

import msgspec

from transom.hosts.connection import Timeouts
from transom.hosts.script import Patience
from transom.kube.lease import TERMS, Terms
from transom.kube.reflector import PACE
from transom.kube.reflector import Pace as ReflectorPace


class Pace(msgspec.Struct, frozen=True):
    """How hosts are worked on: seconds between two checks of one, and how long things on it may take."""

    check_interval: float = 1800.0
    timeouts: Timeouts = Timeouts()
    patience: Patience = Patience()


class Options(msgspec.Struct, frozen=True):
    """How an operator works. `controllers` are names; None is all of them."""

    namespace: str = "transom-system"
    workers: int = 32
    leader_elect: bool = True
    controllers: tuple[str, ...] | None = None
    pace: Pace = Pace()
    reflector: ReflectorPace = PACE
    terms: Terms = TERMS
