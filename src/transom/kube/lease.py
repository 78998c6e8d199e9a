"""One of several processes works; the others wait. A Lease (coordination.k8s.io/v1) says which.

The holder knows by its own monotonic clock until when it may work, counted from before the renewal was sent. No other process
can take the Lease over earlier, whatever the clocks of the machines say. A process that was frozen sees on its first look that
the time is up.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import structlog

from transom.kube.client import Client
from transom.kube.errors import ApiError, Conflict, NotFound
from transom.kube.objects import LeaseObject, LeaseSpec
from transom.kube.resources import LEASES

_log: Final = structlog.get_logger("transom.kube.lease")

_FIRST_GENERATION: Final = 1_577_836_800
"""2020, in Unix time: leaseTransitions is an int32."""


class LeaseLost(Exception):
    """The lease has expired: its former holder must not write any more."""


class LeaseTimings(msgspec.Struct, frozen=True):
    """Seconds: others take a lease over after `duration` without a renewal, its holder stops after `renew` without one."""

    duration: int = 15
    renew: float = 10.0
    retry: float = 2.0
    request: float = 3.0
    """One renewal may take so long; `renew` and a request together must end before `duration`."""

    def __post_init__(self) -> None:
        if not self.retry + self.request <= self.renew < self.renew + self.request < self.duration:
            raise ValueError(f"these terms do not keep two holders apart: {self}")


TERMS: Final = LeaseTimings()


class LeaseTerm:
    """What the holder of a lease knows: which term it is (`generation` grows with each new holder), and until when."""

    def __init__(self, generation: int, until: float) -> None:
        self.generation = generation
        self._until = until

    def get_remaining(self) -> float:
        """Seconds that are left. Raises LeaseLost. Ask right before each write: it is a permit for `Client.guarded`."""
        left = self._until - asyncio.get_running_loop().time()
        if left <= 0:
            raise LeaseLost("the lease was not renewed in time")
        return left

    def extend(self, until: float) -> None:
        """Extend the term after a renewal."""
        self._until = until

    def end(self) -> None:
        """End the term: the lease is not held any more."""
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
        timings: LeaseTimings = TERMS,
        draw: Callable[[], float] = random.random,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        annotate: Callable[[], Mapping[str, str]] = dict,
        on_renewal_by_other: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the election.

        `annotate` returns the annotations that each write of the holder gives the Lease. `on_renewal_by_other` is called
        when another process is seen to have written it.
        """
        self._annotate = annotate
        self._on_renewal_by_other = on_renewal_by_other
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._terms = timings
        self._draw = draw
        self._now = now
        self._seen: tuple[str, float] | None = None
        self._generation = 0
        """The highest one of this Lease: hosts refuse a lower one, also after a restore of etcd."""
        self._renew_times: set[str] = set()
        """Of the last write that this process knows to be in the Lease, and of those that it sent since."""
        self.holding: LeaseTerm | None = None
        """Set while this process holds the lease."""
        self.holder: str | None = None
        """Who was last seen to hold it."""

    async def run(self, work: Callable[[LeaseTerm], Awaitable[None]]) -> None:
        """Work whenever the lease is held, until cancelled; `work` is cancelled on loss, before others hold it.

        Ends when `work` ends, and raises what it raises. The lease is released then, and on cancellation.
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
                still_held = _get_remaining_or_zero(holding) > 0
                holding.end()
                if still_held:
                    await self._release()
            _log.warning("lease lost", lease=self._name, identity=self._identity)

    async def _work_while_held(self, term: LeaseTerm, work: Callable[[LeaseTerm], Awaitable[None]]) -> bool:
        """Run the work while the lease is held; return True if the work ended first."""
        worker = asyncio.ensure_future(work(term))
        renewer = asyncio.ensure_future(self._renew(term))
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

    async def _acquire(self) -> LeaseTerm:
        while True:
            try:
                holding = await self._try_acquire()
            except ApiError as error:
                _log.warning("lease cannot be read", lease=self._name, error=str(error))
                holding = None
            if holding is not None:
                return holding
            await asyncio.sleep(self._terms.retry * (1 + 0.2 * self._draw()))

    async def _renew(self, term: LeaseTerm) -> None:
        """Renew until the lease is lost. Whatever goes wrong counts as one renewal that failed."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(self._terms.retry, _get_remaining_or_zero(term)))
            began = loop.time()
            try:
                async with asyncio.timeout(min(self._terms.request, _get_remaining_or_zero(term))):
                    renewed = await self._try_acquire()
            except Exception as error:  # noqa: BLE001  # any failure at all, also a fault of ours, must not keep the lease alive
                _log.warning("lease not renewed", lease=self._name, error=str(error) or type(error).__name__)
            else:
                if renewed is None or renewed.generation != term.generation:
                    return
                term.extend(began + self._terms.renew)
            if _get_remaining_or_zero(term) <= 0:
                return

    async def _try_acquire(self) -> LeaseTerm | None:
        """Take or renew the lease; None while another process holds it."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            # not 0: were the Lease deleted, a generation must not come back that a host's lock has seen
            first = max(0, int(self._now().timestamp()) - _FIRST_GENERATION)
            return await self._write(None, max(first, self._generation + 1), began)
        spec = lease.spec or LeaseSpec()
        self._compare_with_history(lease)
        self.holder = spec.holder_identity or None
        transitions = spec.lease_transitions or 0
        if spec.holder_identity == self._identity:
            return await self._write(lease, max(transitions, self._generation), began)
        if spec.holder_identity:
            version = lease.metadata.resource_version or ""
            if self._seen is None or self._seen[0] != version:
                if self._seen is not None:
                    self._on_renewal_by_other()
                self._seen = (version, loop.time())
            held_for = max(spec.lease_duration_seconds or 0, self._terms.duration)
            if loop.time() < self._seen[1] + held_for:
                return None
        return await self._write(lease, max(transitions, self._generation) + 1, began)

    def _compare_with_history(self, lease: LeaseObject) -> None:
        """Compare the Lease with what was read and written before: no other object is read from etcd as often."""
        history, subject = self._client.history, f"Lease {self._namespace}/{self._name}"
        history.observe_version(subject, lease.metadata.resource_version)
        history.observe_identity(subject, lease.metadata.uid)
        spec = lease.spec or LeaseSpec()
        self._generation = max(self._generation, spec.lease_transitions or 0)
        if spec.holder_identity != self._identity:
            self._renew_times.clear()
        elif self._renew_times and spec.renew_time not in self._renew_times:
            history.report_cluster_restore(f"{subject} was renewed at {spec.renew_time}, which this process did not write")
        if history.replaced.is_set():
            # what was written before the restore is compared no more
            self._renew_times.clear()

    async def _write(self, lease: LeaseObject | None, transitions: int, began: float) -> LeaseTerm | None:
        now = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        same = lease is not None and lease.spec is not None and lease.spec.holder_identity == self._identity
        metadata: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
        if annotations := dict(self._annotate()):
            metadata["annotations"] = annotations
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._terms.duration,
            "acquireTime": (lease.spec.acquire_time if same and lease and lease.spec else None) or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        value = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
        if same:
            # an answer that is late or lost says nothing about what the server did
            self._renew_times.add(now)
        try:
            if lease is None:
                written = await self._client.create(LEASES, value, self._namespace)
            else:
                metadata["resourceVersion"] = lease.metadata.resource_version
                seconds = self._terms.request
                written = await self._client.replace(LEASES, value, self._name, self._namespace, seconds)
        except Conflict:
            # another replica was faster; the next read shows which
            return None
        self._renew_times = {now}
        self._compare_with_history(written)
        self.holder = self._identity
        return LeaseTerm(transitions, began + self._terms.renew)

    async def _release(self) -> None:
        """Release the lease, so that the next holder need not wait until it expires. Best effort."""
        try:
            async with asyncio.timeout(self._terms.request):
                lease = await self._client.get(LEASES, self._name, self._namespace)
                if lease.spec is None or lease.spec.holder_identity != self._identity:
                    return
                spec = msgspec.to_builtins(lease.spec) | {"holderIdentity": "", "leaseDurationSeconds": 1}
                version = {"resourceVersion": lease.metadata.resource_version}
                metadata = {"name": self._name, "namespace": self._namespace} | version
                value = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
                await self._client.replace(LEASES, value, self._name, self._namespace, self._terms.request)
        except (ApiError, TimeoutError) as error:
            _log.info("lease release failed", lease=self._name, error=str(error))


def _get_remaining_or_zero(term: LeaseTerm) -> float:
    try:
        return term.get_remaining()
    except LeaseLost:
        return 0.0
