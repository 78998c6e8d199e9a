"""The profile of Windows PowerShell on a host: its access list, a removal, and passes that end at any line of a script."""

from collections.abc import AsyncIterator
from functools import partial

import pytest
from tests.hosts.egress import settings
from tests.hosts.simulated import SimulatedHost

from transom.hosts.errors import ProfileNotWritten
from transom.hosts.passes.base_pass import PassResult
from transom.hosts.passes.converge import Convergence
from transom.hosts.passes.removal import restore_host_state
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress, WindowsSettings
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import LEDGER
from transom.windows.parts.powershell import PROFILE
from transom.windows.planning.planner import Plan, build_desired_settings, plan
from transom.windows.planning.queries import build_initial_queries
from winsim import Simulator
from winsim.machine import ORDINARY

SALT = b"0123456789abcdef"
ASKED = Egress(None, Secret("http://proxy:3128"), ".svc", windows=WindowsSettings(services=(), power_shell=True))
CHANGED = Egress(None, Secret("http://proxy:3128"), ".a.example", windows=WindowsSettings(services=(), power_shell=True))
NOTHING = Egress(windows=WindowsSettings(services=()))
THEIRS = b"Set-Alias ll Get-ChildItem"


@pytest.fixture
async def host() -> AsyncIterator[SimulatedHost]:
    async with Simulator() as simulator:
        yield SimulatedHost(simulator, await simulator.add_host("win"))


async def apply(host: SimulatedHost, egress: Egress) -> PassResult:
    desired = build_desired_settings(egress)

    def make_plan(state: ObservedState) -> Plan:
        return plan(desired, state, SALT)

    return await Convergence(settings(), build_initial_queries(desired), make_plan).run(host.access, NoHostKeys())


def profile(host: SimulatedHost) -> bytes | None:
    files = host.simulated.files
    return files.read(PROFILE) if files.find(PROFILE) is not None else None


def has_ledger(host: SimulatedHost) -> bool:
    return host.simulated.registry.find_key(LEDGER) is not None


async def test_every_user_can_read_it_and_an_existing_file_keeps_its_access_list(host: SimulatedHost) -> None:
    files = host.simulated.files
    assert (await apply(host, ASKED)).error is None
    with files.act_as(ORDINARY):
        assert b"DefaultWebProxy" in files.read(PROFILE)
    await restore_host_state(host.access, NoHostKeys(), settings())
    before = files.write(PROFILE, THEIRS).acl
    assert (await apply(host, ASKED)).error is None
    assert files.get_file(PROFILE).acl == before


@pytest.mark.parametrize("before", [None, THEIRS])
async def test_a_removal_restores_it(host: SimulatedHost, before: bytes | None) -> None:
    if before is not None:
        host.simulated.files.write(PROFILE, before)
    assert (await apply(host, ASKED)).error is None
    removed = await restore_host_state(host.access, NoHostKeys(), settings())
    assert (removed.error, removed.remains) == (None, ())
    assert (profile(host), has_ledger(host), host.has_base()) == (before, False, False)


async def test_a_removal_waits_for_a_profile_that_cannot_be_changed(host: SimulatedHost) -> None:
    assert (await apply(host, ASKED)).error is None
    written = profile(host)
    assert written is not None
    signed = written + b"# SIG # Begin signature block\r\n"
    host.simulated.files.write(PROFILE, signed)
    removed = await restore_host_state(host.access, NoHostKeys(), settings())
    assert isinstance(removed.error, ProfileNotWritten)
    assert (profile(host), has_ledger(host)) == (signed, True)
    host.simulated.files.write(PROFILE, written)
    assert (await restore_host_state(host.access, NoHostKeys(), settings())).error is None
    assert (profile(host), has_ledger(host)) == (None, False)


@pytest.mark.parametrize("size", [2**20 + 1, 2**20, 2**20 - 10])
async def test_a_file_that_is_larger_than_profiles_are_is_left(host: SimulatedHost, size: int) -> None:
    """Also one that would be too large to be read with the block in it."""
    large = b"#" * size
    host.simulated.files.write(PROFILE, large)
    for _ in range(2):
        assert isinstance((await apply(host, ASKED)).error, ProfileNotWritten)
    assert profile(host) == large
    host.simulated.files.write(PROFILE, large[: 2**19])
    assert (await apply(host, ASKED)).error is None
    assert (await restore_host_state(host.access, NoHostKeys(), settings())).error is None
    assert profile(host) == large[: 2**19]


async def test_a_directory_of_that_name_is_left(host: SimulatedHost) -> None:
    host.simulated.files.write(rf"{PROFILE}\a.ps1", THEIRS)
    assert isinstance((await apply(host, ASKED)).error, ProfileNotWritten)
    assert (await apply(host, NOTHING)).error is None
    assert host.simulated.files.read(rf"{PROFILE}\a.ps1") == THEIRS


@pytest.mark.parametrize(("first", "then"), [(NOTHING, ASKED), (ASKED, CHANGED), (ASKED, NOTHING)])
async def test_power_that_fails_at_a_line(first: Egress, then: Egress) -> None:
    """The next passes converge, and a removal gives the file back."""
    lines = await _count_lines(first, then)
    for at in range(1, lines + 1, max(lines // 24, 1)):
        async with Simulator() as simulator:
            host = SimulatedHost(simulator, await simulator.add_host("win"))
            host.simulated.files.write(PROFILE, THEIRS)
            assert (await apply(host, first)).error is None
            host.simulated.interlopers.add(partial(_cut_power, host, [at]))
            await apply(host, then)
            host.simulated.interlopers.clear()
            await host.reboot()
            assert (await apply(host, then)).error is None, at
            assert not (await apply(host, then)).plan, at
            assert (profile(host) == THEIRS) == (then is NOTHING), at
            assert (await restore_host_state(host.access, NoHostKeys(), settings())).error is None, at
            assert (profile(host), has_ledger(host)) == (THEIRS, False), at


def _cut_power(host: SimulatedHost, left: list[int]) -> None:
    left[0] -= 1
    if left[0] == 0:
        host.simulated.cut_power()


async def _count_lines(first: Egress, then: Egress) -> int:
    count = 0

    def count_line() -> None:
        nonlocal count
        count += 1

    async with Simulator() as simulator:
        host = SimulatedHost(simulator, await simulator.add_host("win"))
        host.simulated.files.write(PROFILE, THEIRS)
        assert (await apply(host, first)).error is None
        host.simulated.interlopers.add(count_line)
        assert (await apply(host, then)).error is None
    return count
