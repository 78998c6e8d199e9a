"""The election on virtual time, against leases in memory that behave as an API server's: versions, conflicts, faults."""

import asyncio
import itertools
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest
from tests.kube.virtual_time import VirtualLoop, run

from transom.kube.client import Client
from transom.kube.errors import ApiError, Conflict, ConnectionFailed, NotFound, StatusError
from transom.kube.lease import LeaseElection, LeaseLost, LeaseTerm, LeaseTimings
from transom.kube.objects import LeaseObject
from transom.kube.server_history import ServerHistory


class Leases:
    """One namespace of leases. `fault` says for each caller what goes wrong; `delay` how long an answer takes."""

    def __init__(self) -> None:
        self.value: dict[str, Any] | None = None
        self.version = 0
        self.writes: list[tuple[float, str]] = []
        self.fault: dict[str, Exception] = {}
        self.delay: dict[str, float] = {}
        self.lost_answers: set[str] = set()
        """Callers whose writes are carried out and not answered."""
        self.histories: dict[str, ServerHistory] = {}
        """What each caller knows of the server."""

    def client(self, name: str) -> Client:
        return cast("Client", _Caller(self, name))


class _Caller:
    def __init__(self, leases: Leases, name: str) -> None:
        self._leases = leases
        self._name = name
        self.history = leases.histories.setdefault(name, ServerHistory())

    async def _pass(self) -> None:
        await asyncio.sleep(self._leases.delay.get(self._name, 0.01))
        if self._name in self._leases.fault:
            raise self._leases.fault[self._name]

    async def get(self, resource: object, name: str, namespace: str) -> LeaseObject:
        await self._pass()
        if self._leases.value is None:
            raise NotFound(404, "NotFound", "no lease")
        return msgspec.convert(self._leases.value, LeaseObject)

    async def create(self, resource: object, value: Mapping[str, Any], namespace: str) -> LeaseObject:
        await self._pass()
        if self._leases.value is not None:
            raise Conflict(409, "AlreadyExists", "there is one")
        return self._store(value)

    async def replace(
        self, resource: object, value: Mapping[str, Any], name: str, namespace: str, seconds: float
    ) -> LeaseObject:
        await self._pass()
        if value["metadata"]["resourceVersion"] != str(self._leases.version):
            raise Conflict(409, "Conflict", "another version")
        written = self._store(value)
        if self._name in self._leases.lost_answers:
            raise ConnectionFailed("the answer was lost")
        return written

    def _store(self, value: Mapping[str, Any]) -> LeaseObject:
        self._leases.version += 1
        metadata = {**value["metadata"], "resourceVersion": str(self._leases.version)}
        self._leases.value = {**value, "metadata": metadata}
        self._leases.writes.append((asyncio.get_running_loop().time(), value["spec"]["holderIdentity"]))
        return msgspec.convert(self._leases.value, LeaseObject)


class Replica:
    """One process: notes when it worked, and what each of its writes was allowed to."""

    def __init__(self, leases: Leases, name: str, *, now: datetime | None = None) -> None:
        time = asyncio.get_running_loop().time

        def clock() -> datetime:
            return now or datetime.fromtimestamp(1_700_000_000 + time(), UTC)

        self.election = LeaseElection(leases.client(name), "transom-system", name, draw=lambda: 0.5, now=clock)
        self.spans: list[list[float]] = []
        self.generations: list[int] = []
        self.task = asyncio.ensure_future(self.election.run(self.work))

    async def work(self, holding: LeaseTerm) -> None:
        time = asyncio.get_running_loop().time
        self.generations.append(holding.generation)
        span = [time(), time()]
        self.spans.append(span)
        while True:
            holding.get_remaining()
            span[1] = time()
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


def apart(*replicas: Replica) -> bool:
    spans = sorted((span for replica in replicas for span in replica.spans), key=lambda span: span[0])
    return all(earlier[1] < later[0] for earlier, later in itertools.pairwise(spans))


def test_the_holder_notes_on_the_lease_what_is_refused_while_it_is() -> None:
    async def main() -> None:
        leases, notes = Leases(), {"transom.dev/refused-writes": "create configmaps: exceeded quota"}
        now = datetime(2026, 1, 1, tzinfo=UTC)
        election = LeaseElection(leases.client("a"), "transom-system", "a", now=lambda: now, annotate=lambda: notes)

        async def work(_: LeaseTerm) -> None:
            await asyncio.sleep(60)

        running = asyncio.ensure_future(election.run(work))
        await asyncio.sleep(5)
        assert leases.value is not None
        assert leases.value["metadata"]["annotations"] == notes
        notes.clear()
        await asyncio.sleep(5)
        assert "annotations" not in leases.value["metadata"]
        await running

    run(main())


def test_one_works_and_the_other_takes_over_at_once_when_it_stops() -> None:
    async def main() -> None:
        leases = Leases()
        first = Replica(leases, "first")
        await asyncio.sleep(1)
        second = Replica(leases, "second")
        await asyncio.sleep(300)
        assert len(first.spans) == 1
        assert second.spans == []
        assert second.election.holder == "first"
        stopped = asyncio.get_running_loop().time()
        await first.stop()
        await asyncio.sleep(10)
        assert second.spans[0][0] - stopped < 4, "the lease was given back"
        assert second.generations[0] > first.generations[0]
        assert apart(first, second)
        await second.stop()

    run(main())


@pytest.mark.parametrize(
    "fault",
    [
        ConnectionFailed("refused"),
        StatusError(500, "InternalError", "etcd"),
        StatusError(429, "TooManyRequests", "", 1.0),
        StatusError(403, "Forbidden", "the role is gone"),
        RuntimeError("a fault of ours"),
        KeyError("spec"),
    ],
)
def test_a_holder_that_cannot_renew_stops_before_anybody_else_starts(fault: Exception) -> None:
    async def main() -> None:
        leases = Leases()
        first = Replica(leases, "first")
        await asyncio.sleep(1)
        second = Replica(leases, "second")
        await asyncio.sleep(30)
        cut = asyncio.get_running_loop().time()
        leases.fault["first"] = fault
        await asyncio.sleep(40)
        renewed = max(when for when, who in leases.writes if who == "first")
        assert first.spans[0][1] <= renewed + 10
        assert renewed + 15 <= second.spans[0][0] <= cut + 20
        assert apart(first, second)
        assert second.generations[0] == first.generations[0] + 1
        if isinstance(fault, ApiError):
            del leases.fault["first"]
            await second.stop()
            await asyncio.sleep(10)
            assert len(first.spans) == 2, "it works again when it can"
            assert first.generations[1] > second.generations[0]
            await first.stop()
        else:
            await second.stop()
            first.task.cancel()
            await asyncio.gather(first.task, return_exceptions=True)

    run(main())


def test_a_server_that_does_not_answer_is_no_renewal() -> None:
    async def main() -> None:
        leases = Leases()
        first = Replica(leases, "first")
        await asyncio.sleep(20)
        second = Replica(leases, "second")
        leases.delay["first"] = 1e6
        await asyncio.sleep(60)
        assert first.spans[0][1] < second.spans[0][0] - 4
        assert apart(first, second)
        await second.stop()
        first.task.cancel()
        await asyncio.gather(first.task, return_exceptions=True)

    run(main())


def test_answers_that_come_late_count_from_when_they_were_asked_for() -> None:
    async def main() -> None:
        leases = Leases()
        leases.delay["slow"] = 2.0
        slow = Replica(leases, "slow")
        await asyncio.sleep(60)
        held = slow.election.holding
        assert held is None or held.get_remaining() <= 10 - 2
        assert len(leases.writes) >= 1
        slow.task.cancel()
        await asyncio.gather(slow.task, return_exceptions=True)

    run(main())


def test_a_frozen_holder_writes_nothing_when_it_goes_on() -> None:
    async def main() -> None:
        leases = Leases()
        first = Replica(leases, "first")
        await asyncio.sleep(20)
        holding = first.election.holding
        assert holding is not None
        holding.get_remaining()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.advance(60)
        with pytest.raises(LeaseLost):
            holding.get_remaining()
        last = first.spans[0][1]
        await asyncio.sleep(0.05)
        assert first.spans[0][1] == last
        await asyncio.sleep(10)
        assert len(first.spans) == 2
        await first.stop()

    run(main())


def test_clocks_that_disagree_do_not_matter() -> None:
    async def main() -> None:
        leases = Leases()
        past = Replica(leases, "past", now=datetime(1999, 1, 1, tzinfo=UTC))
        await asyncio.sleep(1)
        future = Replica(leases, "future", now=datetime(2099, 1, 1, tzinfo=UTC))
        await asyncio.sleep(300)
        assert len(past.spans) == 1
        assert future.spans == []
        await future.stop()
        await past.stop()

    run(main())


def test_a_lease_that_somebody_deletes_or_takes_ends_the_work() -> None:
    async def main() -> None:
        leases = Leases()
        first = Replica(leases, "first")
        await asyncio.sleep(20)
        leases.value = None
        await asyncio.sleep(20)
        assert len(first.spans) == 2
        assert first.generations[1] > first.generations[0]
        assert leases.value is not None
        leases.version += 1
        taken = {**leases.value["spec"], "holderIdentity": "somebody else"}
        leases.value = {"metadata": {"name": "transom", "resourceVersion": str(leases.version)}, "spec": taken}
        await asyncio.sleep(5)
        assert first.election.holding is None
        assert len(first.spans) == 2
        assert first.election.holder == "somebody else"
        await first.stop()

    run(main())


def test_work_that_ends_or_fails_gives_the_lease_back() -> None:
    async def main() -> None:
        leases = Leases()

        async def end(holding: LeaseTerm) -> None:
            await asyncio.sleep(3)

        async def fail(holding: LeaseTerm) -> None:
            raise ZeroDivisionError

        await LeaseElection(leases.client("a"), "transom-system", "a").run(end)
        assert leases.writes[-1][1] == ""
        with pytest.raises(ZeroDivisionError):
            await LeaseElection(leases.client("b"), "transom-system", "b").run(fail)
        assert leases.writes[-1][1] == ""

    run(main())


def test_three_of_which_any_may_fail_at_any_time_are_never_two() -> None:
    async def main() -> None:
        leases = Leases()
        replicas = [Replica(leases, name) for name in ("a", "b", "c")]
        for step in range(40):
            victim = "abc"[step % 3]
            leases.fault[victim] = ConnectionFailed("cut")
            await asyncio.sleep(7 + step % 11)
            if step % 2:
                leases.fault.clear()
        leases.fault.clear()
        await asyncio.sleep(60)
        assert apart(*replicas)
        assert sum(len(replica.spans) for replica in replicas) > 3
        generations = [g for _, g in sorted((s[0], g) for r in replicas for s, g in zip(r.spans, r.generations, strict=True))]
        assert generations == sorted(generations)
        for replica in replicas:
            await replica.stop()

    run(main())


def test_terms_that_could_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="keep two holders apart"):
        LeaseTimings(duration=15, renew=14.0, request=3.0)


@pytest.mark.parametrize("behind", [1, 5, 40])
def test_a_lease_of_an_earlier_time_is_noticed_and_generations_go_on(behind: int) -> None:
    """etcd was restored while the holder lived: hosts have seen its generation."""

    async def main() -> None:
        leases = Leases()
        first = Replica(leases, "first")
        await asyncio.sleep(5)
        copy = (leases.value, leases.version)
        await first.stop()
        second = Replica(leases, "second")
        await asyncio.sleep(2 * behind)
        assert not any(history.replaced.is_set() for history in leases.histories.values())
        leases.value, leases.version = copy
        await asyncio.sleep(5)
        assert leases.histories["second"].replaced.is_set()
        leases.histories["second"].reset_history()
        await asyncio.sleep(60)
        assert not leases.histories["second"].replaced.is_set()
        assert second.generations == sorted({*second.generations})
        assert second.generations[-1] > first.generations[-1]
        assert leases.value is not None
        assert leases.value["spec"]["leaseTransitions"] >= second.generations[-1]
        await second.stop()

    run(main())


def test_a_standby_notices_it_too() -> None:
    async def main() -> None:
        leases = Leases()
        first = Replica(leases, "first")
        await asyncio.sleep(5)
        second = Replica(leases, "second")
        copy = (leases.value, leases.version)
        await asyncio.sleep(60)
        assert not leases.histories["second"].replaced.is_set()
        leases.fault["first"] = ConnectionFailed("refused")
        leases.value, leases.version = copy
        await asyncio.sleep(3)
        assert leases.histories["second"].replaced.is_set()
        await second.stop()
        await first.stop()

    run(main())


def test_a_lease_of_another_cluster_is_noticed() -> None:
    async def main() -> None:
        leases = Leases()
        first = Replica(leases, "first")
        await asyncio.sleep(5)
        assert leases.value is not None
        metadata = {**leases.value["metadata"], "uid": "of another cluster", "resourceVersion": "9000"}
        leases.version = 9000
        leases.value = {
            **leases.value,
            "metadata": {**metadata},
            "spec": {**leases.value["spec"], "renewTime": "2020-01-01T00:00:00Z"},
        }
        await asyncio.sleep(5)
        assert leases.histories["first"].replaced.is_set()
        await first.stop()

    run(main())


def test_a_renewal_whose_answer_was_lost_is_no_other_history() -> None:
    async def main() -> None:
        leases = Leases()
        first = Replica(leases, "first")
        await asyncio.sleep(5)
        leases.lost_answers.add("first")
        await asyncio.sleep(5)
        leases.lost_answers.clear()
        await asyncio.sleep(60)
        assert not leases.histories["first"].replaced.is_set()
        assert len(first.spans) == 1
        await first.stop()

    run(main())
