"""One of several processes works; the others wait. A Lease (coordination.k8s.io/v1) says which.

The holder knows by its own monotonic clock until when it may work, counted from before the renewal was sent. No other process
can take the Lease over earlier, whatever the clocks of the machines say. A process that was frozen sees on its first look that
the time is up.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import structlog

from transom.kube import ApiError, Conflict, NotFound
from transom.kube.client import Client
from transom.kube.objects import LeaseObject, LeaseSpec
from transom.kube.resources import LEASES

_log: Final = structlog.get_logger("transom.kube.lease")

_FIRST_GENERATION: Final = 1_577_836_800
"""2020, in Unix time: leaseTransitions is an int32."""


class LeaseLost(Exception):
    """The time of the lease is up: whoever held it may not write any more."""


class Terms(msgspec.Struct, frozen=True):
    """Seconds: others take a lease over after `duration` without a renewal, its holder stops after `renew` without one."""

    duration: int = 15
    renew: float = 10.0
    retry: float = 2.0
    request: float = 3.0
    """One renewal may take so long; `renew` and a request together must end before `duration`."""

    def __post_init__(self) -> None:
        if not self.retry + self.request <= self.renew < self.renew + self.request < self.duration:
            raise ValueError(f"these terms do not keep two holders apart: {self}")


TERMS: Final = Terms()


class Holding:
    """What the holder of a lease knows: which term it is (`generation` grows with each new holder), and until when."""

    def __init__(self, generation: int, until: float) -> None:
        self.generation = generation
        self._until = until

    def remaining(self) -> float:
        """Seconds that are left. Raises LeaseLost. Ask right before each write: it is a permit for `Client.guarded`."""
        left = self._until - asyncio.get_running_loop().time()
        if left <= 0:
            raise LeaseLost("the lease was not renewed in time")
        return left

    def extend(self, until: float) -> None:
        """The lease was renewed."""
        self._until = until

    def end(self) -> None:
        """The lease is not held any more."""
        self._until = float("-inf")


class LeaseElection:
    """Waits for a lease, works while it is held, and waits again."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        identity: str,
        *,
        name: str = "transom",
        terms: Terms = TERMS,
        draw: Callable[[], float] = random.random,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._terms = terms
        self._draw = draw
        self._now = now
        self._seen: tuple[str, float] | None = None
        self.holding: Holding | None = None
        """Set while this process holds the lease."""
        self.holder: str | None = None
        """Who was last seen to hold it."""

    async def run(self, work: Callable[[Holding], Awaitable[None]]) -> None:
        """Work whenever the lease is held, until cancelled; `work` is cancelled when the lease is lost, before others have it.

        Ends when `work` ends by itself, and raises what it raises. The lease is given back then, and on cancellation.
        """
        while True:
            holding = await self._acquire()
            _log.info("lease acquired", lease=self._name, identity=self._identity, generation=holding.generation)
            self.holding = holding
            try:
                if await self._work_while_held(holding, work):
                    return
            finally:
                self.holding = None
                still_held = _left(holding) > 0
                holding.end()
                if still_held:
                    await self._release()
            _log.warning("lease lost", lease=self._name, identity=self._identity)

    async def _work_while_held(self, holding: Holding, work: Callable[[Holding], Awaitable[None]]) -> bool:
        """Whether the work came to its own end."""
        worker = asyncio.ensure_future(work(holding))
        renewer = asyncio.ensure_future(self._renew(holding))
        try:
            await asyncio.wait((worker, renewer), return_when=asyncio.FIRST_COMPLETED)
            if worker.done() and not isinstance(worker.exception(), LeaseLost):
                worker.result()
                return True
            return False
        finally:
            for task in (worker, renewer):
                task.cancel()
            results = await asyncio.gather(worker, renewer, return_exceptions=True)
            failure = results[0]
            if isinstance(failure, Exception) and not isinstance(failure, LeaseLost):
                _log.error("work ended with an error", error=repr(failure))

    async def _acquire(self) -> Holding:
        while True:
            try:
                holding = await self._try()
            except ApiError as error:
                _log.warning("lease cannot be read", lease=self._name, error=str(error))
                holding = None
            if holding is not None:
                return holding
            await asyncio.sleep(self._terms.retry * (1 + 0.2 * self._draw()))

    async def _renew(self, holding: Holding) -> None:
        """Renew until the lease is lost. Whatever goes wrong counts as one renewal that failed."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(self._terms.retry, _left(holding)))
            began = loop.time()
            try:
                async with asyncio.timeout(min(self._terms.request, _left(holding))):
                    renewed = await self._try()
            except Exception as error:  # noqa: BLE001  # any failure at all, also a fault of ours, must not keep the lease alive
                _log.warning("lease not renewed", lease=self._name, error=str(error) or type(error).__name__)
            else:
                if renewed is None or renewed.generation != holding.generation:
                    return
                holding.extend(began + self._terms.renew)
            if _left(holding) <= 0:
                return

    async def _try(self) -> Holding | None:
        """Take or renew the lease; None while somebody else has it."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            found = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            # not 0: were the Lease deleted, a generation must not come back that a host's lock has seen
            return await self._write(None, max(0, int(self._now().timestamp()) - _FIRST_GENERATION), began)
        spec = found.spec or LeaseSpec()
        self.holder = spec.holder_identity or None
        transitions = spec.lease_transitions or 0
        if spec.holder_identity == self._identity:
            return await self._write(found, transitions, began)
        if spec.holder_identity:
            version = found.metadata.resource_version or ""
            if self._seen is None or self._seen[0] != version:
                self._seen = (version, loop.time())
            held_for = max(spec.lease_duration_seconds or 0, self._terms.duration)
            if loop.time() < self._seen[1] + held_for:
                return None
        return await self._write(found, transitions + 1, began)

    async def _write(self, found: LeaseObject | None, transitions: int, began: float) -> Holding | None:
        now = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        same = found is not None and found.spec is not None and found.spec.holder_identity == self._identity
        metadata: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._terms.duration,
            "acquireTime": (found.spec.acquire_time if same and found and found.spec else None) or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        value = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
        try:
            if found is None:
                await self._client.create(LEASES, value, self._namespace)
            else:
                metadata["resourceVersion"] = found.metadata.resource_version
                seconds = self._terms.request
                await self._client.replace(LEASES, value, self._name, self._namespace, seconds)
        except Conflict:
            # somebody else was faster; the next look says who
            return None
        self.holder = self._identity
        return Holding(transitions, began + self._terms.renew)

    async def _release(self) -> None:
        """Give the lease back, so that the next one need not wait for its end. Best effort: it ends by itself."""
        try:
            async with asyncio.timeout(self._terms.request):
                found = await self._client.get(LEASES, self._name, self._namespace)
                if found.spec is None or found.spec.holder_identity != self._identity:
                    return
                spec = msgspec.to_builtins(found.spec) | {"holderIdentity": "", "leaseDurationSeconds": 1}
                version = {"resourceVersion": found.metadata.resource_version}
                metadata = {"name": self._name, "namespace": self._namespace} | version
                value = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
                await self._client.replace(LEASES, value, self._name, self._namespace, self._terms.request)
        except (ApiError, TimeoutError) as error:
            _log.info("lease not given back", lease=self._name, error=str(error))


def _left(holding: Holding) -> float:
    try:
        return holding.remaining()
    except LeaseLost:
        return 0.0
