"""Whether an operator runs in a cluster: what a command asks before it lets a person wait for one."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from transom.cli.observation import LEASES, RENEWED, ListQuery, build_observed, run_queries
from transom.diagnosis.overview import find_leader, needs_lease_recheck
from transom.diagnosis.snapshot import ClusterSnapshot
from transom.kube.client import Client
from transom.kube.errors import ApiError

_RENEWED: Final = RENEWED


class OperatorPresence(msgspec.Struct, frozen=True):
    """Who holds the lease, and whether it is renewed. `working` is None where that could not be read, and `why` says why."""

    namespace: str
    holder: str = ""
    renewed: str | None = None
    working: bool | None = None
    why: str = ""

    @property
    def problem(self) -> str:
        """A sentence where no operator is known to run; else empty."""
        if self.working is None:
            return f"whether an operator runs could not be read: {self.why}"
        if self.working:
            return ""
        last = f" (last: {self.holder}, renewed {self.renewed})" if self.holder else ""
        return f"no operator runs in namespace {self.namespace}: Lease/transom has no holder{last}"


async def find_operator(
    client: Client, namespace: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> OperatorPresence:
    """Return whether an operator runs; a lease that looks old by this machine's clock is looked at twice."""
    try:
        seen = await _observe(client, namespace, now)
        first = find_leader(seen)
        if first is None:
            return OperatorPresence(namespace, why="; ".join(item.why for item in seen.unread))
        if needs_lease_recheck(seen):
            # the clocks of two machines may differ: a lease that is renewed meanwhile is held
            await asyncio.sleep(_RENEWED)
            second = find_leader(await _observe(client, namespace, now))
            if second is not None:
                working = bool(second.holder) and second.renewed != first.renewed
                return OperatorPresence(namespace, second.holder, second.renewed, working)
    except ApiError as error:
        return OperatorPresence(namespace, why=str(error))
    return OperatorPresence(namespace, first.holder, first.renewed, first.working)


async def _observe(client: Client, namespace: str, now: Callable[[], datetime]) -> ClusterSnapshot:
    """Read the lease. Raises ApiError."""
    queries = (ListQuery(LEASES, namespace, fields="metadata.name=transom"),)
    return build_observed(await run_queries(client, queries, required=False), "", namespace, now())
