"""Leadership: what a controller works with while its process has the lease."""

from dataclasses import dataclass

from transom.hosts.owner import Owner
from transom.kube.client import Client, Permit
from transom.kube.events import EventRecorder


@dataclass(frozen=True)
class Leadership:
    """`client` and `recorder` write only while the lease is held; `permit` raises LeaseLost from then on.

    `owner` is who takes hosts; its generation is the lease's, so that a host refuses whoever held it before.
    """

    client: Client
    recorder: EventRecorder
    permit: Permit
    owner: Owner
