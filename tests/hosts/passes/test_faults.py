"""What goes wrong at any point of a pass: the next one converges, removal is exact, and every service runs that should."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Literal

import pytest
from tests.hosts.egress import ALICE, BOB, QUESTIONS, VALUE, apply, settings, wants
from tests.hosts.machines import FIRST, SECOND, Host
from tests.hosts.simulated import SimulatedHost
from tests.support.cuts import Cuts
from tests.support.waiting import until

from transom.hosts.errors import ConnectionLost, Held, NotConverged
from transom.hosts.passes.converge import Convergence
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import LEDGER, SERVICES
from transom.windows.planning.planner import Plan
from transom.windows.registry.values import build_multi_sz

SLACK = 4
SCRIPT = re.compile(r"exec .*change\.cmd")


async def exported(host: Host) -> str:
    return await host.export(rf"{SERVICES}\{FIRST}") + await host.export(LEDGER)


async def requests_of(host: Host, work: Callable[[], Awaitable[object]]) -> list[str]:
    host.mark()
    await work()
    return host.requests()


async def both_run(host: Host) -> bool:
    return [await host.state(FIRST), await host.state(SECOND)] == ["RUNNING", "RUNNING"]


async def cuts_of(host: Host, monkeypatch: pytest.MonkeyPatch) -> Cuts:
    return await Cuts.of(monkeypatch, host.simulated if isinstance(host, SimulatedHost) else None)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_cut_at_every_request_of_an_apply(
    host: Host, monkeypatch: pytest.MonkeyPatch, when: Literal["before", "after"]
) -> None:
    before = await exported(host)
    requests = await requests_of(host, lambda: apply(host, VALUE))
    await apply(host, None)
    cuts = await cuts_of(host, monkeypatch)
    for at in host.sample(requests):
        cuts.begin()
        host.fail(at, when)
        await apply(host, VALUE)
        if not host.came():
            # how often left-overs are looked at depends on the speed of the job
            assert at > len(requests) - SLACK
            break
        if await cuts.met():
            continue
        done = await apply(host, VALUE)
        assert done.error is None, (at, requests[at - 1])
        assert done.before is not None
        settled = done.after or done.before
        assert settled.registry.find_value(rf"{SERVICES}\{FIRST}", "Environment") == build_multi_sz([VALUE]), at
        assert await both_run(host), at
        if await cuts.met():
            continue
        assert (await apply(host, VALUE)).result == "unchanged", at
        removed = await apply(host, None)
        assert removed.error is None, at
        assert await exported(host) == before, at
        assert not host.has_base(), (at, requests[at - 1])


@pytest.mark.parametrize("when", ["before", "after"])
async def test_cut_at_every_request_of_a_removal(
    host: Host, monkeypatch: pytest.MonkeyPatch, when: Literal["before", "after"]
) -> None:
    before = await exported(host)
    await apply(host, VALUE)
    requests = await requests_of(host, lambda: apply(host, None))
    await apply(host, VALUE)
    cuts = await cuts_of(host, monkeypatch)
    for at in host.sample(requests):
        if not cuts.begin():
            await apply(host, VALUE)
        host.fail(at, when)
        await apply(host, None)
        if not host.came():
            assert at > len(requests) - SLACK
            break
        if await cuts.met():
            continue
        removed = await apply(host, None)
        assert removed.error is None, (at, requests[at - 1])
        assert await exported(host) == before, at
        assert not host.has_base(), (at, requests[at - 1])
        assert await both_run(host), at


async def test_cut_during_the_restarts_and_nobody_comes_back(host: Host) -> None:
    await apply(host, VALUE + "1")
    requests = await requests_of(host, lambda: apply(host, VALUE))
    starts = [await host.starts(FIRST), await host.starts(SECOND)]
    script = next(number for number, request in enumerate(requests, 1) if SCRIPT.match(request))
    _, cut = await asyncio.gather(host.cut_in_restarts(script), apply(host, VALUE + "0"))
    assert host.came()
    assert isinstance(cut.error, ConnectionLost)

    async def over() -> bool:
        return "lock" not in host.files()

    await until(over)
    assert await both_run(host)
    assert [await host.starts(FIRST), await host.starts(SECOND)] == [count + 1 for count in starts]
    assert (await apply(host, VALUE + "0")).result == "unchanged"


@pytest.mark.parametrize("kind", [r"exec .*gather", r"exec .*change", r"open", r"mkdir", r"channel"])
async def test_a_host_that_hangs_is_left_in_time(host: Host, kind: str) -> None:
    requests = await requests_of(host, lambda: apply(host, VALUE))
    await apply(host, None)
    at = next(number for number, request in enumerate(requests, 1) if re.match(kind, request))
    host.fail(at, action="hang")
    hung = await apply(host, VALUE, settings(progress=5))
    assert host.came()
    assert isinstance(hung.error, ConnectionLost)
    assert "no progress for 5 s" in str(hung.error)
    assert (await apply(host, VALUE)).error is None


async def test_called_off_before_the_change_nothing_is_changed(host: Host) -> None:
    await apply(host, VALUE)
    before = await exported(host)

    def plan(state: ObservedState) -> Plan:
        task = asyncio.current_task()
        assert task
        task.cancel()
        return wants(None)(state)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(called_off(host, plan))
    assert await exported(host) == before
    assert all(re.fullmatch(r"gather-[0-9a-f]{12}\.cmd", name) for name in host.files())


async def test_called_off_during_the_change_it_is_finished(host: Host) -> None:
    await apply(host, VALUE)
    before = await exported(host)
    task = asyncio.create_task(called_off(host, wants(VALUE + "0")))

    async def begun() -> bool:
        return "lock" in host.files()

    await until(begun, every=0.002)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "lock" not in host.files()
    assert not [name for name in host.files() if name.startswith("p-")]
    assert await exported(host) != before
    assert await both_run(host)
    assert (await apply(host, VALUE + "0")).result == "unchanged"


async def called_off(host: Host, planner: Callable[[ObservedState], Plan]) -> None:
    await Convergence(settings(), QUESTIONS, planner).run(host.access, NoHostKeys())


async def test_two_owners_at_once(host: Host) -> None:
    await apply(host, VALUE)
    results = await asyncio.gather(apply(host, VALUE + "1", settings(ALICE)), apply(host, VALUE + "2", settings(BOB)))
    errors = [result.error for result in results]
    assert None in errors
    for result, other in zip(results, (BOB, ALICE), strict=True):
        # the other's change may come between a change and its check: they want different things
        if result.error is not None and not isinstance(result.error, NotConverged):
            assert isinstance(result.error, Held)
            assert result.error.holder == other.lock_text
    assert await both_run(host)
    assert (await apply(host, VALUE)).error is None
    assert "lock" not in host.files()
