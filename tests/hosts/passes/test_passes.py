"""Passes on a host from beginning to end."""

import itertools
import re

from tests.hosts.egress import ALICE, BOB, PASSWORD, QUESTIONS, VALUE, apply, settings
from tests.hosts.machines import FIRST, SECOND, WRITES, Bench, Host

from transom.hosts.errors import Held, Overtaken, Superseded
from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import Admit, PassResult, query_host
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.windows.host.queries import LEDGER, SERVICES
from transom.windows.registry.values import build_multi_sz


async def exported(host: Host) -> str:
    return await host.export(rf"{SERVICES}\{FIRST}") + await host.export(LEDGER)


async def test_applied_once_then_nothing_to_do_then_removed(host: Host) -> None:
    before = await exported(host)
    starts = [await host.starts(FIRST), await host.starts(SECOND)]

    host.mark()
    first = await apply(host, VALUE)
    assert (first.result, first.error, first.restarted) == ("changed", None, (FIRST, SECOND))
    assert first.after is not None
    assert first.after.registry.find_value(rf"{SERVICES}\{FIRST}", "Environment") == build_multi_sz([VALUE])
    assert [await host.starts(FIRST), await host.starts(SECOND)] == [count + 1 for count in starts]
    asked = host.requests()
    assert len([request for request in asked if request.startswith("channel")]) == first.channels == 3
    assert all(re.fullmatch(r"exec cmd\.exe /d /c C:[A-Za-z0-9\\._-]+", r) for r in asked if r.startswith("exec"))
    assert PASSWORD not in "".join(asked)
    assert [name for name in host.files() if not re.fullmatch(r"gather-[0-9a-f]{12}\.cmd", name)] == []

    host.mark()
    again = await apply(host, VALUE)
    assert (again.result, again.error, again.channels) == ("unchanged", None, 2)
    assert not again.plan
    asked = host.requests()
    assert len([request for request in asked if request.startswith("channel")]) == 2
    assert [request for request in asked if request.split(" ")[0] in WRITES] == []
    assert [await host.starts(FIRST), await host.starts(SECOND)] == [count + 1 for count in starts]

    removed = await apply(host, None)
    assert (removed.result, removed.error) == ("changed", None)
    assert await exported(host) == before
    assert not host.has_base()
    assert [await host.state(FIRST), await host.state(SECOND)] == ["RUNNING", "RUNNING"]


async def test_no_key_of_the_service_that_restarts_is_there_after_a_pass(host: Host) -> None:
    for value in (VALUE, VALUE + "0", None):
        assert (await apply(host, value)).error is None
        assert await host.export(rf"{SERVICES}\TransomRestart") == ""


async def test_a_host_that_is_only_read_is_left_as_it_was(host: Host) -> None:
    before = await exported(host)
    planned = await apply(host, VALUE, dry_run=True)
    assert (planned.result, planned.error, planned.after, planned.restarted) == ("changed", None, None, ())
    state = await query_host(host.access, NoHostKeys(), settings(), QUESTIONS)
    assert [service.state.name for service in state.services] == ["RUNNING", "RUNNING"]
    assert state.boot == await host.boot_id()
    assert state.registry.find_key(LEDGER) is None
    unconfigured = await apply(host, None)
    assert (unconfigured.result, unconfigured.channels) == ("unchanged", 2)
    assert await exported(host) == before
    assert not host.has_base()


def hold(host: Host, line: str, boot: str, generation: str = "-", **files: str) -> None:
    """A lock as a pass makes it, of a pass that is no more."""
    contents = {"owner.txt": line, "generation.txt": generation, f"boot-{boot}": boot, "p-00000000-00000000": ""}
    for name, content in (contents | files).items():
        host.put(f"lock/{name}", f"{content}\r\n")


async def test_a_host_that_somebody_holds_is_not_worked_on_until_it_has_booted(bench: Bench) -> None:
    before = await exported(bench)
    boot = await bench.boot_id()
    hold(bench, BOB.lock_text, hex(boot))
    refused = await apply(bench, VALUE)
    assert isinstance(refused.error, Held)
    assert (refused.result, refused.error.holder, refused.error.boot) == ("failed", BOB.lock_text, boot)
    assert await exported(bench) == before
    await bench.reboot()
    freed = await apply(bench, VALUE)
    assert (freed.result, freed.error) == ("changed", None)
    assert (await apply(bench, None)).error is None
    assert not bench.has_base()


async def test_a_hold_of_our_own_that_is_dead_is_taken_over(host: Host) -> None:
    hold(host, Owner(ALICE.identity, "pid 7").lock_text, hex(await host.boot_id()))
    assert (await apply(host, VALUE)).error is None
    assert "lock" not in host.files()


async def test_an_older_lease_is_stopped_and_a_newer_one_takes_over(host: Host) -> None:
    hold(host, "operator pid 1", hex(await host.boot_id()), "6")
    newer = await apply(host, VALUE, settings(Owner("operator", "pid 2", 7)))
    assert newer.error is None
    older = await apply(host, None, settings(Owner("operator", "pid 1", 6)))
    assert isinstance(older.error, Superseded)
    assert (older.error.seen, older.error.generation) == (7, 6)
    assert (await apply(host, VALUE, settings(Owner("operator", "pid 3", 7)))).result == "unchanged"
    assert "lock" not in host.files()
    # the leases of another operator are counted apart
    assert (await apply(host, None, settings(Owner("another", "pid 1", 3)))).error is None
    assert (await apply(host, VALUE, settings(Owner("operator", "pid 3", 8)))).error is None
    assert (await apply(host, None, settings(Owner("operator", "pid 3", 8)))).error is None
    assert not host.has_base()


async def test_what_an_earlier_pass_has_done_meanwhile_is_not_done_once_more(host: Host) -> None:
    """Its restarts go on when it is called off: the next pass may read the host before they end, and take it after that."""
    starts = [await host.starts(FIRST), await host.starts(SECOND)]
    earlier: list[PassResult] = []

    async def admit() -> bool:
        if not earlier:
            earlier.append(await apply(host, VALUE))
        return True

    found = await apply(host, VALUE, admit=admit)
    assert (earlier[0].result, earlier[0].error) == ("changed", None)
    assert (found.result, found.error, found.begun) == ("unchanged", None, False)
    assert [await host.starts(FIRST), await host.starts(SECOND)] == [count + 1 for count in starts]

    # and what it took away is put there
    await apply(host, "NO_PROXY=.other.example")
    earlier.clear()
    again = await apply(host, "NO_PROXY=.third.example", admit=admit)
    assert (again.result, again.error, again.begun) == ("changed", None, True)
    assert (await apply(host, "NO_PROXY=.third.example")).result == "unchanged"
    # a host that is never the same is left
    assert isinstance((await apply(host, VALUE, admit=undo_and_do(host))).error, Overtaken)


def undo_and_do(host: Host) -> Admit:
    """Before each change another pass makes another one."""
    values = itertools.cycle(["NO_PROXY=.a.example", "NO_PROXY=.b.example"])

    async def admit() -> bool:
        await apply(host, next(values))
        return True

    return admit


async def test_services_that_owe_a_restart_get_it(host: Host) -> None:
    await apply(host, VALUE)
    starts = [await host.starts(FIRST), await host.starts(SECOND)]
    # as after a power cut between the import and the restarts
    await host.note(FIRST, "running")
    await host.stop(SECOND)
    await host.note(SECOND, "running")
    owed = await apply(host, VALUE)
    assert (owed.error, owed.restarted) == (None, (FIRST, SECOND))
    assert [await host.starts(FIRST), await host.starts(SECOND)] == [count + 1 for count in starts]


async def test_a_service_that_was_stopped_stays_stopped(host: Host) -> None:
    await host.stop(SECOND)
    starts = await host.starts(SECOND)
    done = await apply(host, VALUE)
    assert (done.error, done.restarted) == (None, (FIRST,))
    assert (await host.state(SECOND), await host.starts(SECOND)) == ("STOPPED", starts)
    assert (await apply(host, VALUE)).result == "unchanged"
