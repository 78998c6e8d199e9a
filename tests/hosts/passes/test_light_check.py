"""Services and file times of a host, by one channel, without a file of ours."""

import pytest
from lab.machine import Machine
from tests.hosts.egress import ALICE, VALUE, apply, settings
from tests.hosts.machines import FIRST, SECOND, WRITES, Host, WineHost
from tests.hosts.simulated import SERVICES, SimulatedHost

from transom.hosts.passes.light_check import LightCheckResult, WatchedItems, run_light_check
from transom.hosts.scripts import light_check
from transom.hosts.ssh.known_hosts import NoHostKeys
from winsim import Simulator

FILE = r"C:\Windows\Transom\file.txt"
WATCHED = WatchedItems((FIRST, SECOND), (FILE, r"C:\Windows\System32\no such (file).exe"))


async def seen(host: Host) -> LightCheckResult:
    return await run_light_check(host.access, NoHostKeys(), settings(ALICE), WATCHED)


async def test_what_changed_is_seen_by_one_channel(host: Host) -> None:
    await apply(host, VALUE)
    first = await seen(host)
    host.mark()
    again = await seen(host)
    asked = host.requests()
    assert (again.digest, again.channels) == (first.digest, 1) and first.digest is not None
    assert len([item for item in asked if item.startswith("channel")]) == 1
    assert [item for item in asked if item.split(" ")[0] in WRITES] == []
    assert not any("Transom" in item for item in asked)

    host.put("file.txt", "ours")
    written = await seen(host)
    await host.stop(SECOND)
    stopped = await seen(host)
    await apply(host, None)
    host.put("file.txt", "theirs")
    given_back = await seen(host)
    assert len({first.digest, written.digest, stopped.digest, given_back.digest}) == 4


@pytest.mark.parametrize(("shell", "told"), [("cmd", True), ("powershell", True), ("bash", False)])
async def test_where_the_default_shell_is_another_one(shell: str, told: bool) -> None:
    """Who is told nothing reads the host by the longer way, which has the words for it."""
    async with Simulator() as simulator:
        host = SimulatedHost(simulator, await simulator.add_host(services=SERVICES, shell=shell))  # type: ignore[arg-type]
        assert ((await seen(host)).digest is not None) is told


@pytest.mark.lab
async def test_wine_with_powershell_as_the_default_shell() -> None:
    with Machine(shell="powershell") as machine:
        machine.boot()
        assert (await seen(WineHost(machine))).digest is not None


async def test_what_no_line_holds_is_not_asked() -> None:
    async with Simulator() as simulator:
        host = SimulatedHost(simulator, await simulator.add_host(services=SERVICES))
        for watched in (
            WatchedItems((FIRST,), tuple(rf"C:\k\{number}\{'a' * 100}" for number in range(80))),
            WatchedItems((FIRST,), ("C:\\k\\%TEMP%",)),
            WatchedItems(('a" & b',), ()),
        ):
            assert await run_light_check(host.access, NoHostKeys(), settings(ALICE), watched) == LightCheckResult(None)
        assert host.simulated.traffic.connections == 0


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (b"Microsoft Windows\r\n\r\nC:\\>\r\ntransom-look\r\na \r\nb\r\ntransom-looked\r\nC:\\>", b"a\nb"),
        (b"transom-look\r\na\r\n", None),
        (b"a\r\ntransom-looked\r\n", None),
        (b"transom-looked\r\ntransom-look\r\n", None),
        (b"echo transom-look&echo transom-looked\r\n", None),
        (b"transom-look" + b"\n" * 65_000, None),
    ],
)
def test_what_stands_between_begin_and_end_is_compared(printed: bytes, told: bytes | None) -> None:
    assert light_check.parse_check_output(printed) == told
