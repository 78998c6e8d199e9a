"""Who carries out the restarts: a task that leaves no trace in the System log, or a service where Windows refuses it."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from tests.hosts.attacks import configured
from tests.hosts.egress import VALUE, apply
from tests.hosts.machines import FIRST
from tests.hosts.simulated import SERVICES as BOTH
from tests.hosts.simulated import SimulatedHost
from tests.support.workers.hosts import Simulated

from transom.hosts.errors import RestartsFailed
from transom.hosts.owner import Owner
from transom.hosts.passes import removal
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.scripts import host_scripts
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.windows.host.queries import SERVICES
from winsim import Host, Simulator

NAME = "TransomRestart"


@pytest.fixture
async def host(simulator: Simulator) -> Host:
    return await simulator.add_host(services=BOTH)


def left(host: Host) -> list[str]:
    """What is still there of a hand-over."""
    keys = [name for name in host.registry.list_children(SERVICES) if name == NAME]
    return [*host.tasks.list_names(), *(name for name in host.services.list_names() if name == NAME), *keys]


def noted(host: Host) -> set[int]:
    """The numbers of the events that speak of it."""
    return {event.id for event in host.system_log.events if NAME in event.text}


async def test_a_change_and_its_end_leave_no_error_in_the_log(simulator: Simulator, host: Host) -> None:
    for value in (VALUE, None):
        assert (await apply(SimulatedHost(simulator, host), value)).error is None
    assert len(host.starts(FIRST)) == 3
    assert (left(host), noted(host), host.system_log.list_errors()) == ([], set(), [])
    assert host.unknown == []


async def test_the_life_of_a_node_leaves_no_error_in_the_log(simulator: Simulator, tmp_path: Path) -> None:
    host = await simulator.add_host(services={})
    bare = Simulated(simulator, host)
    for version in ("1.0.0", "1.0.1"):
        assert (await configured(bare, tmp_path, version)).error is None
    removed = await removal.restore_host_state(bare.access, NoHostKeys(), PassSettings(Owner("transom@cluster", "test", 7)))
    assert removed.error is None
    assert (left(host), noted(host), host.system_log.list_errors()) == ([], set(), [])
    assert {event.id for event in host.system_log.events} >= {7045, 7036}


@pytest.mark.parametrize("way", ["refused", "never run"])
async def test_where_windows_refuses_the_task_a_service_does_it(simulator: Simulator, host: Host, way: str) -> None:
    if way == "refused":
        host.tasks.runs = False
    else:
        host.tasks.delays = None
    assert (await apply(SimulatedHost(simulator, host), VALUE)).error is None
    assert len(host.starts(FIRST)) == 2
    # the service control manager takes the program for one that failed
    assert (left(host), noted(host)) == ([], {7045, 7009, 7000})


async def test_a_task_that_begins_late_changes_nothing_more(simulator: Simulator, host: Host) -> None:
    host.tasks.delays = 40
    assert (await apply(SimulatedHost(simulator, host), VALUE)).error is None
    await host.background.wait_until_idle()
    assert (len(host.starts(FIRST)), left(host)) == (2, [])


async def test_where_neither_can_be_had_it_is_said(simulator: Simulator, host: Host) -> None:
    host.tasks.runs = False
    # as software against intruders does
    host.services.refused.add(NAME.casefold())
    refused = await apply(SimulatedHost(simulator, host), VALUE)
    assert isinstance(refused.error, RestartsFailed) and NAME in str(refused.error)
    assert left(host) == []


def test_the_task_is_one_of_system_without_a_trigger() -> None:
    made = host_scripts.build_task_file("p-0badcafe-1")
    assert made.content.startswith(b"\xff\xfe")
    root = ElementTree.fromstring(made.content.decode("utf-16"))
    space = {"t": "http://schemas.microsoft.com/windows/2004/02/mit/task"}
    assert root.findtext("t:Principals/t:Principal/t:UserId", namespaces=space) == "S-1-5-18"
    triggers = root.find("t:Triggers", space)
    assert triggers is not None and len(triggers) == 0
    line = root.findtext("t:Actions/t:Exec/t:Arguments", namespaces=space)
    assert line == r"/d /c C:\Windows\Transom\p-0badcafe-1\change.cmd job task"
