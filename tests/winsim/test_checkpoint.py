"""A checkpoint of a host: nothing that a pass depends on is forgotten, and the way back leads to all of it."""

import asyncio
from collections.abc import Callable

import pytest

from transom.windows.registry.edits import CreateKey, SetValue
from transom.windows.registry.values import build_sz
from winsim import Host, Simulator
from winsim.access import KEY_ALL, SYSTEM, Ace
from winsim.checkpoint import Checkpoint
from winsim.tasks import Task

KEY, FILE = r"HKEY_LOCAL_MACHINE\SOFTWARE\Theirs", r"C:\theirs\file.txt"
CHANGES: dict[str, Callable[[Host], object]] = {
    "registry": lambda host: host.edit([SetValue(KEY, "name", build_sz("other"))]),
    "a key's access": lambda host: host.keys.protect(KEY, (Ace(SYSTEM, KEY_ALL),)),
    "content": lambda host: host.files.write(FILE, b"other"),
    "a new file": lambda host: host.files.write(r"C:\theirs\new.txt", b""),
    "no file": lambda host: host.files.remove(host.files.get_file(FILE)),
    "a name": lambda host: host.files.rename(host.files.get_file(FILE), r"C:\theirs\FILE.txt"),
    "a directory's place": lambda host: host.files.make_directory(r"C:\theirs\below"),
    "a junction": lambda host: host.files.make_junction(r"C:\junction", r"C:\theirs"),
    "access": lambda host: host.files.set_access(host.files.get_file(FILE), owner=SYSTEM),
    "room": lambda host: setattr(host.files, "free", 0),
    "a service's state": lambda host: host.services.stop("kubelet"),
    "no service": lambda host: host.services.delete("kubelet"),
    "a service's end": lambda host: host.services.kill("kubelet"),
    "a task": lambda host: host.tasks.register(Task("theirs", "cmd.exe", "")),
    "a user": lambda host: host.users.update(theirs="S-1-5-21-1"),
    "a port": lambda host: host.firewall.update(theirs="80"),
}


async def host_of(simulator: Simulator) -> Host:
    host = await simulator.add_host("win")
    host.edit([CreateKey(KEY)])
    host.files.write(FILE, b"theirs")
    return host


@pytest.mark.parametrize("change", CHANGES)
async def test_each_change_is_seen_and_undone(simulator: Simulator, change: str) -> None:
    host = await host_of(simulator)
    before = await Checkpoint.take(host)
    for _ in range(2):
        # what is put back is not what was kept: it can be changed and put back again
        CHANGES[change](host)
        assert (await before.take_again()).contents != before.contents
        before.restore()
        assert (await before.take_again()).contents == before.contents
    assert host.files.read(FILE) == b"theirs" and host.services.get("kubelet").state.name == "RUNNING"


async def test_the_host_goes_on_from_there(simulator: Simulator) -> None:
    host = await host_of(simulator)
    before = await Checkpoint.take(host)
    drawn = host.random.random()
    await host.boot()
    assert (await before.take_again()).contents != before.contents
    before.restore()
    assert (host.boot_id, host.random.random()) == (1, drawn)
    host.services.stop("kubelet")
    await host.services.start("kubelet")
    assert len(host.starts("kubelet")) == 2
    await host.boot()
    assert host.services.get("kubelet").state.name == "RUNNING"


async def test_it_waits_until_nothing_runs(simulator: Simulator) -> None:
    host = await host_of(simulator)
    running = host.background.start(asyncio.sleep(0.05))
    await Checkpoint.take(host)
    assert running.done()
