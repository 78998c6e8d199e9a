"""What a host can do to a pass: it is said for that host, in a sentence. The simulated host alone can do these."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.hosts.egress import BOB, ENVIRONMENT, QUESTIONS, VALUE, apply, settings, wants
from tests.hosts.machines import BASE, FIRST, SECOND
from tests.hosts.simulated import SERVICES, SimulatedHost
from tests.support.waiting import until

from transom.apply.roll_out import run_concurrently
from transom.hosts.errors import (
    DirectoryNotOurs,
    FilesInUse,
    Held,
    HostError,
    HostKeyChanged,
    ImportFailed,
    PingBlocked,
    RestartsFailed,
    ScriptFailed,
    Unreadable,
)
from transom.hosts.passes.base_pass import PassResult
from transom.hosts.passes.converge import Convergence
from transom.hosts.ssh.known_hosts import KnownHostsFile, NoHostKeys
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.planning.planner import Plan
from transom.windows.registry.values import build_multi_sz
from winsim import Simulator
from winsim.filesystem import READ, WRITE, Handle, SimulatedFile


@pytest.fixture
async def host(simulator: Simulator) -> SimulatedHost:
    return SimulatedHost(simulator, await simulator.add_host(services=SERVICES))


@pytest.mark.parametrize("free", range(0, 24000, 750))
async def test_a_full_disk_is_said_and_the_next_pass_converges(host: SimulatedHost, free: int) -> None:
    host.simulated.files.free = free
    full = await apply(host, VALUE)
    host.simulated.files.free = None
    assert full.error is None or "disk" in str(full.error)
    assert [await host.state(FIRST), await host.state(SECOND)] == ["RUNNING", "RUNNING"]
    assert (await apply(host, VALUE)).error is None
    assert (await apply(host, None)).error is None
    assert not host.has_base()


async def test_a_default_shell_that_reads_paths_otherwise_is_named(simulator: Simulator) -> None:
    host = SimulatedHost(simulator, await simulator.add_host(services=SERVICES, shell="bash"))
    refused = await apply(host, VALUE)
    assert isinstance(refused.error, ScriptFailed) and "DefaultShell" in str(refused.error)
    assert await host.starts(FIRST) == 1


async def test_where_windows_counts_no_boots_a_value_that_is_gone_after_one_does(host: SimulatedHost) -> None:
    host.simulated.counts_boots = False
    await host.reboot()
    assert (await apply(host, VALUE)).error is None
    first = await booted_as(host)
    assert await booted_as(host) == first
    host.put("lock/owner.txt", "somebody@else")
    host.put(f"lock/boot-{first:#x}", "x")
    held = await apply(host, None, settings(BOB))
    assert isinstance(held.error, Held), "in this boot"
    await host.reboot()
    assert await booted_as(host) != first
    assert (await apply(host, None, settings(BOB))).error is None, "its hold was void"


async def booted_as(host: SimulatedHost) -> int:
    read = await apply(host, VALUE, dry_run=True)
    assert read.before is not None and read.before.boot is not None
    return read.before.boot


@pytest.mark.parametrize("key", [ENVIRONMENT, LEDGER])
async def test_a_key_without_permission_is_said(host: SimulatedHost, key: str) -> None:
    await apply(host, VALUE)
    host.simulated.faults.denied = {key}
    refused = await apply(host, VALUE + "0")
    assert isinstance(refused.error, Unreadable | ImportFailed)
    assert key in str(refused.error) or isinstance(refused.error, ImportFailed)
    assert not refused.restarted
    host.simulated.faults.denied = set()
    assert (await apply(host, VALUE + "0")).error is None


async def test_a_service_that_does_not_stop_is_named_and_the_others_run(simulator: Simulator) -> None:
    host = SimulatedHost(simulator, await simulator.add_host(services={FIRST: (), SECOND: ()}))
    service = host.simulated.services.get(FIRST)
    service.stops = False
    stuck = await apply(host, VALUE, settings(stop=3))
    assert isinstance(stuck.error, RestartsFailed)
    assert f"{FIRST} did not stop within 3 s" in str(stuck.error)
    assert (await host.state(SECOND), stuck.restarted) == ("RUNNING", (SECOND,))
    assert "lock" not in host.files()
    service.stops = True
    host.simulated.services.kill(FIRST)
    assert (await apply(host, VALUE)).error is None
    assert [await host.state(FIRST), await host.state(SECOND)] == ["RUNNING", "RUNNING"]


async def test_a_service_that_does_not_start_is_named_and_owed(host: SimulatedHost) -> None:
    service = host.simulated.services.get(SECOND)
    service.starts_well = False
    down = await apply(host, VALUE)
    assert isinstance(down.error, RestartsFailed)
    assert SECOND in str(down.error)
    assert down.restarted == (FIRST,)
    service.starts_well = True
    again = await apply(host, VALUE)
    assert (again.error, again.restarted) == (None, (SECOND,))
    assert (await apply(host, VALUE)).result == "unchanged"


async def test_slow_services_and_a_slow_disk_are_waited_for(host: SimulatedHost) -> None:
    host.simulated.faults.disk_delay = 0.005
    for name in (FIRST, SECOND):
        service = host.simulated.services.get(name)
        service.stop_seconds = service.start_seconds = 5
    assert (await apply(host, VALUE)).restarted == (FIRST, SECOND)


@pytest.mark.parametrize("seconds", [4, 9, 12, 20, 60])
async def test_a_virus_scanner_that_holds_new_files_is_waited_for(simulator: Simulator, seconds: float) -> None:
    """Defender holds a suspicious file for 10 s by default, and for up to 60 s by policy."""
    host = SimulatedHost(simulator, await simulator.add_host(services=SERVICES, time_scale=0.05))
    host.simulated.scan(seconds)
    first = await apply(host, VALUE)
    assert (first.error, first.result) == (None, "changed")
    starts = [await host.starts(FIRST), await host.starts(SECOND)]
    assert (await apply(host, VALUE)).result == "unchanged"
    assert [await host.starts(FIRST), await host.starts(SECOND)] == starts


async def test_a_program_that_never_closes_new_files_is_not_taken_for_another_pass(host: SimulatedHost) -> None:
    """The files of the lock alone: each pass writes new ones."""
    files, handles = host.simulated.files, list[Handle]()

    def keep_open(file: SimulatedFile) -> None:
        if file.name == "owner.txt":
            handles.append(Handle(files, file, READ, READ | WRITE))

    files.scanner = keep_open
    for _ in range(2):
        refused = await apply(host, VALUE)
        assert isinstance(refused.error, FilesInUse)
    assert await host.starts(FIRST) == 1
    host.simulated.scan(0)
    for handle in handles:
        handle.close()
    assert (await apply(host, VALUE)).result == "changed"


async def test_a_ping_that_is_blocked_is_named_before_anything_changes(host: SimulatedHost) -> None:
    host.simulated.blocked = {"ping.exe"}
    for _ in range(2):
        refused = await apply(host, VALUE)
        assert isinstance(refused.error, PingBlocked)
        assert "ping.exe" in str(refused.error)
    assert await host.starts(FIRST) == 1
    host.simulated.blocked = set()
    assert (await apply(host, VALUE)).result == "changed"


async def test_things_of_others_in_a_directory_that_was_just_made_are_refused(host: SimulatedHost) -> None:
    def plant(line: str) -> None:
        if "icacls" in line:
            host.put("planted.cmd", "@echo off")

    host.simulated.watchers.add(plant)
    with_foreign = await apply(host, VALUE)
    assert isinstance(with_foreign.error, DirectoryNotOurs)
    assert with_foreign.before is None


async def test_a_changed_script_is_not_run(host: SimulatedHost) -> None:
    await apply(host, VALUE)
    name = next(name for name in host.files() if name.startswith("gather-"))
    host.put(name, "@echo off")
    changed = await apply(host, VALUE)
    assert changed.error is not None
    assert rf"{BASE}\{name} was changed by another user or program" in str(changed.error)


async def test_a_host_that_was_installed_anew_is_refused_until_a_person_says_so(
    simulator: Simulator, host: SimulatedHost, tmp_path: Path
) -> None:
    known = tmp_path / "known_hosts"
    access = type(host.access)(host.access.address, host.access.port, host.access.username, host.access.keys)

    async def once() -> PassResult:
        known_hosts = KnownHostsFile(known)
        return await Convergence(settings(), QUESTIONS, wants(None)).run(access, known_hosts)

    assert (await once()).error is None
    await simulator.change_host_key(host.simulated)
    assert isinstance((await once()).error, HostKeyChanged)
    known.unlink()
    assert (await once()).error is None


async def test_two_commands_of_one_person_do_not_meet_on_a_host(host: SimulatedHost, tmp_path: Path) -> None:
    made = settings(claims=tmp_path)
    results = await asyncio.gather(*(apply(host, VALUE, made) for _ in range(3)), apply(host, VALUE, made, dry_run=True))
    assert sorted(type(result.error).__name__ for result in results[:3]) == ["Held", "Held", "NoneType"]
    assert results[3].error is None
    assert (await apply(host, None, made)).error is None


async def test_what_was_not_asked_first_is_asked_and_then_known_at_the_end(host: SimulatedHost) -> None:
    reads, first = Queries(services=(FIRST, SECOND), environment=True), Queries(services=(FIRST,))

    def planner(actual: ObservedState) -> Plan:
        return msgspec.structs.replace(wants(VALUE)(actual), reads=reads)

    done = await Convergence(settings(), first, planner).run(host.access, NoHostKeys())
    assert (done.error, done.channels) == (None, 4)
    assert done.before is not None
    assert done.after is not None
    for state in (done.before, done.after):
        assert {service.name for service in state.services} == {FIRST, SECOND}
    assert done.after.registry.find_value(ENVIRONMENT, "Environment") == build_multi_sz([VALUE])


async def test_the_trouble_of_one_host_is_its_own(simulator: Simulator) -> None:
    hosts = [SimulatedHost(simulator, await simulator.add_host(services=SERVICES)) for _ in range(12)]
    hosts[2].fail(4, action="hang")
    hosts[3].simulated.faults.refuses = True
    hosts[4].simulated.cut_power()
    hosts[5].simulated.faults.denied = {ENVIRONMENT}
    results: dict[SimulatedHost, PassResult] = {}
    async for host, result in run_concurrently(
        hosts,
        lambda host: apply(host, VALUE, settings(progress=3)),
        max_concurrent=4,
        build_default=lambda _, error: PassResult(error=error),
    ):
        results[host] = result
    failed = [number for number, host in enumerate(hosts) if isinstance(results[host].error, HostError)]
    assert failed == [2, 3, 4, 5]
    assert {results[host].result for number, host in enumerate(hosts) if number not in failed} == {"changed"}


async def test_calling_off_calls_every_host_off(simulator: Simulator) -> None:
    hosts = [SimulatedHost(simulator, await simulator.add_host(services=SERVICES)) for _ in range(6)]
    for host in hosts:
        host.fail(3, action="hang")

    async def work() -> None:
        async for _ in run_concurrently(
            hosts, lambda host: apply(host, VALUE), max_concurrent=3, build_default=lambda _, error: error
        ):
            pytest.fail("a host that hangs is done")

    task = asyncio.create_task(work())

    await until(lambda: not any(host.simulated.faults.ordered for host in hosts[:3]))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(host.simulated.faults.ordered for host in hosts[3:])


@pytest.mark.parametrize("secret", ["hunter2"])
async def test_no_secret_is_in_commands_processes_or_errors(host: SimulatedHost, secret: str) -> None:
    await apply(host, VALUE)
    host.simulated.faults.denied = {ENVIRONMENT}
    failed = await apply(host, VALUE + "0")
    told = [*host.simulated.traffic.requests, *host.simulated.processes, str(failed.error), repr(failed), repr(failed.error)]
    assert not [line for line in told if secret in line]
    assert host.simulated.unknown == []
    left = [path for path in host.files() if secret.encode() in read(host, path)]
    assert left == []


def read(host: SimulatedHost, name: str) -> bytes:
    return host.simulated.files.read(rf"{BASE}\{name}")
