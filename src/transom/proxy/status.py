"""The status of Transom's own objects, as values: the only list of its fields. Their schema is generated from it."""

import msgspec

from transom.proxy.objects import Base


class StatusCondition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition as written (metav1.Condition). All fields are written, except an unknown generation."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int | msgspec.UnsetType = msgspec.UNSET


class Status(Base, frozen=True):
    """What every status has. A field that is empty is not written."""

    observed_generation: int | None = None
    conditions: tuple[StatusCondition, ...] = ()

    def get_condition(self, type_: str) -> StatusCondition:
        """Return the condition of a type; an empty one if it does not exist."""
        return next((item for item in self.conditions if item.type == type_), _ABSENT)


_ABSENT = StatusCondition()


class TrustBundleStatus(Base, frozen=True):
    """`status.trustBundle`."""

    sha256: str = ""
    certificates: int = 0
    earliest_expiry: str = ""


class HostsStatus(Base, frozen=True, omit_defaults=False):
    """`status.hosts`: how many hosts are how far. Also those are said of which there is none."""

    total: int = 0
    updated: int = 0
    waiting: int = 0
    failed: int = 0


class EgressProxyStatus(Status, frozen=True):
    """`status` of an EgressProxy."""

    http_proxy: str = ""
    https_proxy: str = ""
    no_proxy: str = ""
    trust_bundle: TrustBundleStatus | None = None
    settings: str = ""
    hosts: HostsStatus | None = None
