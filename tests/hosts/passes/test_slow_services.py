"""Services that need minutes: each is restarted once for a change, and what completes late counts."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest
from lab.machine import Machine
from tests.hosts.egress import settings as egress_settings
from tests.hosts.machines import FIRST, SECOND, WineHost
from tests.hosts.simulated import SimulatedHost
from tests.support.virtual_time import run_in_virtual_time

from transom.hosts.errors import RestartsFailed, ServiceDisabled
from transom.hosts.owner import Owner
from transom.hosts.passes import removal
from transom.hosts.passes.base_pass import PassResult, PassSettings
from transom.hosts.passes.converge import Convergence
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Timeouts
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress, WindowsSettings
from transom.windows.host.queries import LEDGER
from transom.windows.planning.planner import build_desired_settings, plan
from transom.windows.planning.queries import build_initial_queries
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_sz
from winsim import Simulator

SERVICES = {"containerd": (), "kubelet": ("containerd",), "other": ()}
URL = "http://proxy.x:3128"
# the limits of a pass count seconds of the test: 900 are 90,000 of the host
SETTINGS = PassSettings(Owner("transom", "test", 1), timeouts=Timeouts(60, 60, 900))
DURATIONS = (59, 61, 90, 119, 120, 121, 179, 180)

_Result = TypeVar("_Result")


class Cluster:
    """Whoever brings one host to its settings, pass by pass."""

    def __init__(self, host: SimulatedHost, settings: PassSettings = SETTINGS) -> None:
        self.host, self.settings = host, settings

    async def apply(self, url: str | None = URL) -> PassResult:
        desired = build_desired_settings(Egress(Secret(url), Secret(url), ".svc") if url else Egress())
        convergence = Convergence(self.settings, build_initial_queries(desired), lambda state: plan(desired, state, b"0" * 16))
        return await convergence.run(self.host.access, NoHostKeys())

    async def remove(self, url: str | None = None) -> PassResult:
        return await removal.restore_host_state(self.host.access, NoHostKeys(), self.settings)

    def starts(self) -> list[int]:
        return [len(self.host.simulated.starts(name)) for name in ("containerd", "kubelet")]

    def states(self) -> list[str]:
        return [self.host.simulated.services.get(name).state.name for name in ("containerd", "kubelet")]

    def sees_proxy(self) -> list[bool]:
        """Return whether each process has the proxy in its environment."""
        last = [self.host.simulated.starts(name)[-1].environment for name in ("containerd", "kubelet")]
        return ["HTTPS_PROXY" in environment for environment in last]

    def slow(self, service: str, what: str, seconds: float, *, checkpoint: float = 0, hint: float = 0) -> None:
        chosen = self.host.simulated.services.get(service)
        setattr(chosen, f"{what}_seconds", seconds)
        chosen.checkpoint_seconds, chosen.hint_seconds = checkpoint, hint


def run_on_host(work: Callable[[Cluster], Coroutine[Any, Any, _Result]]) -> _Result:
    async def run() -> _Result:
        async with Simulator() as simulator:
            return await work(Cluster(SimulatedHost(simulator, await simulator.add_host(services=SERVICES))))

    return run_in_virtual_time(run())


@pytest.mark.parametrize("removes", [False, True], ids=["apply", "removal"])
@pytest.mark.parametrize("what", ["stop", "start"])
@pytest.mark.parametrize("service", ["containerd", "kubelet"])
@pytest.mark.parametrize("seconds", DURATIONS)
def test_a_slow_service_is_restarted_once(service: str, what: str, seconds: int, removes: bool) -> None:
    async def work(cluster: Cluster) -> None:
        act: Callable[[], Awaitable[PassResult]] = cluster.remove if removes else cluster.apply
        if removes:
            assert (await cluster.apply()).error is None
        before = cluster.starts()
        cluster.slow(service, what, seconds)
        result = await act()
        assert (result.error, result.result, result.restarted) == (None, "changed", ("containerd", "kubelet"))
        assert cluster.states() == ["RUNNING", "RUNNING"]
        assert cluster.sees_proxy() == [not removes] * 2
        assert cluster.starts() == [count + 1 for count in before]
        again = await act()
        assert (again.error, again.result) == (None, "unchanged")
        assert cluster.starts() == [count + 1 for count in before]

    run_on_host(work)


@pytest.mark.parametrize("removes", [False, True], ids=["apply", "removal"])
@pytest.mark.parametrize("seconds", [59, 90, 120, 180])
def test_services_that_are_all_slow_in_both_are_restarted_once(seconds: int, removes: bool) -> None:
    async def work(cluster: Cluster) -> None:
        act: Callable[[], Awaitable[PassResult]] = cluster.remove if removes else cluster.apply
        if removes:
            assert (await cluster.apply()).error is None
        before = cluster.starts()
        for service in ("containerd", "kubelet"):
            for what in ("stop", "start"):
                cluster.slow(service, what, seconds)
        result = await act()
        assert (result.error, result.restarted) == (None, ("containerd", "kubelet"))
        assert cluster.sees_proxy() == [not removes] * 2
        assert (await act()).result == "unchanged"
        assert cluster.starts() == [count + 1 for count in before]

    run_on_host(work)


@pytest.mark.parametrize(
    ("what", "checkpoint", "hint"), [("stop", 20, 0), ("stop", 0, 500), ("start", 20, 30), ("start", 0, 500)]
)
def test_checkpoints_and_the_wait_hint_extend_the_limit(what: str, checkpoint: float, hint: float) -> None:
    async def work(cluster: Cluster) -> None:
        cluster.slow("containerd", what, 400, checkpoint=checkpoint, hint=hint)
        result = await cluster.apply()
        assert (result.error, cluster.starts()) == (None, [2, 2])
        assert (await cluster.apply()).result == "unchanged"

    run_on_host(work)


@pytest.mark.parametrize("removes", [False, True], ids=["apply", "removal"])
def test_a_stop_beyond_the_limit_counts_when_it_comes(removes: bool) -> None:
    async def work(cluster: Cluster) -> None:
        if removes:
            await cluster.apply()
        act: Callable[[], Awaitable[PassResult]] = cluster.remove if removes else cluster.apply
        before = cluster.starts()
        # the dependency waits for its limit to start as well, and the stop comes meanwhile
        cluster.slow("containerd", "stop", 300)
        result = await act()
        assert (result.error, cluster.states()) == (None, ["RUNNING", "RUNNING"])
        assert (await act()).result == "unchanged"
        assert cluster.starts() == [count + 1 for count in before]
        assert (cluster.host.simulated.registry.find_key(LEDGER) is None) == removes

    run_on_host(work)


@pytest.mark.parametrize("removes", [False, True], ids=["apply", "removal"])
@pytest.mark.parametrize("service", ["containerd", "kubelet"])
def test_a_start_beyond_the_limit_is_waited_for_by_the_next_pass(service: str, removes: bool) -> None:
    async def work(cluster: Cluster) -> None:
        if removes:
            await cluster.apply()
        act: Callable[[], Awaitable[PassResult]] = cluster.remove if removes else cluster.apply
        before = cluster.starts()
        cluster.slow(service, "start", 500)
        result = await act()
        assert isinstance(result.error, RestartsFailed)
        assert f"{service} is still starting" in str(result.error) and "--service-timeout" in str(result.error)
        passes = [await act() for _ in range(4)]
        assert passes[-1].result == "unchanged", [(item.result, item.error) for item in passes]
        assert cluster.states() == ["RUNNING", "RUNNING"]
        assert cluster.starts() == [count + 1 for count in before]
        assert (cluster.host.simulated.registry.find_key(LEDGER) is None) == removes

    run_on_host(work)


def test_a_service_has_the_seconds_that_are_declared() -> None:
    async def work(cluster: Cluster) -> None:
        cluster.settings = PassSettings(
            SETTINGS.owner, timeouts=SETTINGS.timeouts, patience=ServiceTimeouts(services={"kubelet": 700})
        )
        cluster.slow("kubelet", "start", 690)
        assert (await cluster.apply()).error is None
        assert ((await cluster.apply()).result, cluster.starts()) == ("unchanged", [2, 2])

    run_on_host(work)


@pytest.mark.parametrize(
    ("disabled", "restarted"),
    [
        # what it depends on cannot be stopped under it
        ("kubelet", ()),
        # what depends on it waits for the restart of the two
        ("containerd", ("kubelet",)),
    ],
)
def test_a_disabled_service_is_reported_and_not_stopped(disabled: str, restarted: tuple[str, ...]) -> None:
    async def work(cluster: Cluster) -> None:
        services = cluster.host.simulated.services
        services.disable(disabled)
        result = await cluster.apply()
        assert isinstance(result.error, ServiceDisabled) and disabled in str(result.error)
        assert (result.restarted, cluster.states()) == (restarted, ["RUNNING", "RUNNING"])
        starts = cluster.starts()
        again = await cluster.apply()
        assert isinstance(again.error, ServiceDisabled)
        assert (again.restarted, cluster.starts(), cluster.states()) == ((), starts, ["RUNNING", "RUNNING"])
        service = services.get(disabled)
        services.configure(service, service.image, service.depends, 2)
        assert (await cluster.apply()).error is None
        assert cluster.sees_proxy() == [True, True]
        assert (await cluster.apply()).result == "unchanged"

    run_on_host(work)


def test_a_disabled_dependant_that_nobody_asked_about_is_found_before_a_stop() -> None:
    async def work(cluster: Cluster) -> None:
        host = cluster.host.simulated
        host.add_service("third", ["containerd"])
        await host.services.start("third")
        host.services.disable("third")
        for _ in range(2):
            result = await cluster.apply()
            assert isinstance(result.error, ServiceDisabled) and "third" in str(result.error)
            assert (cluster.starts(), cluster.states()) == ([1, 1], ["RUNNING", "RUNNING"])
        host.services.stop("third")
        assert (await cluster.apply()).error is None
        assert cluster.sees_proxy() == [True, True]
        assert host.services.get("third").state.name == "STOPPED"
        assert (await cluster.apply()).result == "unchanged"

    run_on_host(work)


def test_a_disabled_service_that_a_person_stopped_owes_nothing() -> None:
    async def work(cluster: Cluster) -> None:
        services = cluster.host.simulated.services
        services.disable("kubelet")
        assert isinstance((await cluster.apply()).error, ServiceDisabled)
        services.stop("kubelet")
        assert (await cluster.apply()).error is None
        assert cluster.states() == ["RUNNING", "STOPPED"]
        assert (await cluster.apply()).result == "unchanged"

    run_on_host(work)


@pytest.mark.parametrize(("code", "words"), [(2, "does not exist"), (193, "not a Windows program")])
def test_the_error_of_a_start_is_reported(code: int, words: str) -> None:
    async def work(cluster: Cluster) -> None:
        host = cluster.host.simulated
        path = r"C:\Program Files\kubelet\kubelet.exe"
        if code == 2:
            present = host.files.find(path)
            assert present is not None
            host.files.remove(present)
        else:
            host.files.write(path, b"no program")
        result = await cluster.apply()
        assert isinstance(result.error, RestartsFailed)
        assert f"Windows error {code} ({words}" in str(result.error).replace("the program of the service ", "").replace(
            "its program is ", ""
        )

    run_on_host(work)


def test_slow_programs_change_nothing_but_the_time() -> None:
    async def work(cluster: Cluster) -> None:
        cluster.host.simulated.process_seconds = 5
        cluster.slow("containerd", "stop", 90)
        assert (await cluster.apply()).error is None
        assert ((await cluster.apply()).result, cluster.starts()) == ("unchanged", [2, 2])

    run_on_host(work)


def test_a_note_that_a_newer_version_wrote_is_looked_at() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.apply()
        cluster.host.simulated.edit([SetValue(rf"{LEDGER}\Restarts", "kubelet", build_sz("newer"))])
        assert (await cluster.apply()).error is None
        assert (await cluster.apply()).result == "unchanged"

    run_on_host(work)


@pytest.mark.parametrize("removes", [False, True], ids=["apply", "removal"])
@pytest.mark.parametrize("seconds", [59, 120, 180])
def test_a_host_that_has_just_booted_is_waited_for(seconds: int, removes: bool) -> None:
    """A service that is still starting cannot be stopped (1061): its restart begins when it runs."""

    async def work(cluster: Cluster) -> None:
        act: Callable[[], Awaitable[PassResult]] = cluster.remove if removes else cluster.apply
        if removes:
            assert (await cluster.apply()).error is None
        cluster.slow("kubelet", "start", seconds)
        await cluster.host.reboot()
        assert cluster.states() == ["RUNNING", "START_PENDING"]
        before = cluster.starts()
        assert (await act()).error is None
        assert cluster.states() == ["RUNNING", "RUNNING"]
        assert cluster.sees_proxy() == [not removes] * 2
        assert cluster.starts() == [count + 1 for count in before]
        assert (await act()).result == "unchanged"
        assert cluster.starts() == [count + 1 for count in before]

    run_on_host(work)


@pytest.mark.parametrize("seconds", [59, 120, 180])
def test_a_service_that_a_person_is_stopping_stays_stopped(seconds: int) -> None:
    async def work(cluster: Cluster) -> None:
        cluster.slow("kubelet", "stop", seconds)
        services = cluster.host.simulated.services
        services.stop("kubelet")
        for _ in range(2):
            assert (await cluster.apply()).error is None
        assert (cluster.states(), cluster.starts()) == (["RUNNING", "STOPPED"], [2, 1])
        assert (await cluster.apply()).result == "unchanged"
        await services.start("kubelet")
        assert cluster.sees_proxy() == [True, True]

    run_on_host(work)


@pytest.mark.lab
async def test_a_removal_in_wine_waits_for_a_service_that_stops_slowly(machine: Machine) -> None:
    """Wine's service manager is another implementation; the minutes are those of the simulated host."""
    wine = WineHost(machine)
    await wine.restore()
    settings, windows = egress_settings(), WindowsSettings(services=(FIRST, SECOND))
    desired = build_desired_settings(Egress(Secret(URL), Secret(URL), ".svc", windows=windows))
    convergence = Convergence(settings, build_initial_queries(desired), lambda state: plan(desired, state, b"0" * 16))
    assert (await convergence.run(wine.access, NoHostKeys())).error is None
    before = [await wine.starts(name) for name in (FIRST, SECOND)]
    machine.set_stop_seconds(SECOND, 15)
    try:
        removed = await removal.restore_host_state(wine.access, NoHostKeys(), settings)
        assert (removed.error, set(removed.restarted)) == (None, {FIRST, SECOND})
        assert [await wine.starts(name) for name in (FIRST, SECOND)] == [count + 1 for count in before]
        assert (await removal.restore_host_state(wine.access, NoHostKeys(), settings)).result == "unchanged"
        assert [await wine.starts(name) for name in (FIRST, SECOND)] == [count + 1 for count in before]
    finally:
        machine.set_stop_seconds(SECOND, 0)
