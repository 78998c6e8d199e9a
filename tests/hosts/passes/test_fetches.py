"""After a change a host fetches something itself: with curl.exe, which reads what it needs in files."""

from collections.abc import Callable

import pytest
from tests.hosts.egress import PASSWORD, QUESTIONS, VALUE, settings, wants
from tests.hosts.simulated import SERVICES, SimulatedHost

from transom.hosts.passes.base_pass import PassResult, build_fixed_admit
from transom.hosts.passes.converge import Convergence
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.proxy.secret import Secret
from transom.windows.nodes.fetch import MARK, FetchAttempt
from winsim import Simulator
from winsim.computer import Invocation

FILES = (Secret(f'proxy = "http://alice:{PASSWORD}@proxy:3128"'), Secret("second"), Secret("third"))


@pytest.fixture
async def host(simulator: Simulator) -> SimulatedHost:
    return SimulatedHost(simulator, await simulator.add_host(services=SERVICES))


async def changed(host: SimulatedHost, value: str = VALUE) -> PassResult:
    return await Convergence(settings(), QUESTIONS, wants(value), fetches=lambda: FILES).run(host.access, NoHostKeys())


def curl(host: SimulatedHost, answers: dict[str, tuple[int, str]], read: list[str]) -> Callable[[Invocation], int]:
    def fetch(call: Invocation) -> int:
        quiet, config, path = call.arguments
        assert (quiet, config) == ("-q", "-K")
        read.append(host.simulated.files.read(call.resolve_path(path)).decode())
        code, said = answers[path.rsplit("\\", 1)[1]]
        call.write_output(said)
        return code

    return fetch


async def test_endpoints_are_tried_until_one_answers(host: SimulatedHost) -> None:
    read: list[str] = []
    answers = {"fetch-0.txt": (56, f"{MARK} 000 407\n"), "fetch-1.txt": (0, f"{MARK} 204 200\n")}
    host.simulated.fetch = curl(host, answers, read)
    found = await changed(host)
    assert (found.error, found.begun, found.channels) == (None, True, 3)
    assert found.fetched == (FetchAttempt(0, 56, 0, 407), FetchAttempt(1, 0, 204, 200))
    assert read == [secret.reveal() for secret in FILES[:2]]
    assert not [line for line in host.simulated.processes if "hunter2" in line]
    assert [name for name in host.files() if not name.startswith("gather-")] == []
    assert host.simulated.unknown == []

    again = await changed(host)
    assert (again.result, again.begun, again.fetched) == ("unchanged", False, ())
    assert len(read) == 2


async def test_what_curl_does_not_say_is_no_status(host: SimulatedHost) -> None:
    found = await changed(host)
    assert found.fetched == tuple(FetchAttempt(number, 6) for number in range(3))


async def test_a_host_without_curl_is_changed_all_the_same(host: SimulatedHost) -> None:
    program = host.simulated.files.get_file(r"C:\Windows\System32\curl.exe")
    host.simulated.files.remove(program)
    found = await changed(host)
    assert (found.error, found.fetched) == (None, None)
    assert [name for name in host.files() if not name.startswith("gather-")] == []


async def test_a_host_whose_turn_it_is_not_is_only_read(host: SimulatedHost) -> None:
    found = await Convergence(settings(), QUESTIONS, wants(VALUE), admit=build_fixed_admit(False)).run(
        host.access, NoHostKeys()
    )
    assert (found.waiting, found.begun, found.error, found.after) == (True, False, None, None)
    assert await host.starts("recorder-a") == 1
    assert not host.has_base()
