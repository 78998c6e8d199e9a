"""The machine behaves as Windows does: what a service sees, and when."""

import hashlib
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from lab.machine import Machine, MachineError
from lab.network import Network
from lab.template import build_template
from tests.support.waiting import until

from lab import build, wine

pytestmark = pytest.mark.lab
ENDS_WHILE_IT_STOPS = """
#include <windows.h>
static SERVICE_STATUS_HANDLE self;
static HANDLE told;
static void say(DWORD state)
{
    SERVICE_STATUS now = {SERVICE_WIN32_OWN_PROCESS, state, SERVICE_ACCEPT_STOP};
    SetServiceStatus(self, &now);
}
static DWORD WINAPI answer(DWORD control, DWORD type, void *data, void *context)
{
    if (control == SERVICE_CONTROL_STOP) { say(SERVICE_STOP_PENDING); SetEvent(told); }
    return NO_ERROR;
}
static void WINAPI run(DWORD count, wchar_t **arguments)
{
    told = CreateEventW(NULL, TRUE, FALSE, NULL);
    self = RegisterServiceCtrlHandlerExW(L"ender", answer, NULL);
    say(SERVICE_RUNNING);
    WaitForSingleObject(told, INFINITE);
    ExitProcess(0);
}
int wmain(void) { SERVICE_TABLE_ENTRYW table[] = {{L"ender", run}, {NULL, NULL}}; return !StartServiceCtrlDispatcherW(table); }
"""


def seen(machine: Machine, service: str, name: str) -> str | None:
    return machine.list_starts(service)[-1].get_variable(name)


def test_a_service_sees_its_own_environment_from_its_next_start(machine: Machine) -> None:
    machine.set_service_environment("recorder-a", ["TRANSOM_TEST=one two", "Empty="])
    assert seen(machine, "recorder-a", "TRANSOM_TEST") is None
    machine.restart("recorder-a")
    assert (seen(machine, "recorder-a", "transom_test"), seen(machine, "recorder-a", "EMPTY")) == ("one two", "")
    machine.set_service_environment("recorder-a", [])
    machine.restart("recorder-a")
    assert seen(machine, "recorder-a", "TRANSOM_TEST") is None
    assert len(machine.list_starts("recorder-a")) == 3


def test_two_services_of_the_same_program_have_environments_of_their_own(machine: Machine) -> None:
    machine.set_service_environment("recorder-b", ["TRANSOM_TEST=b"])
    for service in ("recorder-a", "recorder-b"):
        machine.restart(service)
    assert (seen(machine, "recorder-a", "TRANSOM_TEST"), seen(machine, "recorder-b", "TRANSOM_TEST")) == (None, "b")


def test_services_see_the_environment_of_the_machine_from_the_next_boot(machine: Machine) -> None:
    machine.set_environment("TRANSOM_TEST", "machine")
    machine.restart("recorder-a")
    assert seen(machine, "recorder-a", "TRANSOM_TEST") is None
    machine.restart_machine()
    machine.wait_for("recorder-a", "RUNNING")
    assert seen(machine, "recorder-a", "TRANSOM_TEST") == "machine"
    machine.set_environment("TRANSOM_TEST", None)
    machine.restart("recorder-a")
    assert seen(machine, "recorder-a", "TRANSOM_TEST") == "machine"


def test_the_environment_of_a_service_wins_over_that_of_the_machine(machine: Machine) -> None:
    machine.set_environment("TRANSOM_TEST", "machine")
    machine.set_service_environment("recorder-a", ["Transom_Test="])
    machine.restart_machine()
    machine.wait_for("recorder-a", "RUNNING")
    machine.wait_for("recorder-b", "RUNNING")
    assert (seen(machine, "recorder-a", "TRANSOM_TEST"), seen(machine, "recorder-b", "TRANSOM_TEST")) == ("", "machine")


def test_nothing_of_the_linux_environment_reaches_a_service(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://leak.example:3128")
    with Machine(place=network.add_place()) as machine:
        machine.boot()
        machine.wait_for("recorder-a", "RUNNING")
        assert seen(machine, "recorder-a", "HTTPS_PROXY") is None
        assert b"HTTPS_PROXY" not in machine.run("cmd", "/c", "set").stdout


def test_each_boot_is_counted_also_after_a_power_cut(machine: Machine) -> None:
    assert machine.read_boot_count() == 1
    machine.restart_machine()
    machine.cut_power()
    assert wine.list_processes(machine.prefix) == []
    machine.boot()
    assert machine.read_boot_count() >= 2
    machine.wait_for("recorder-b", "RUNNING")


def test_the_registry_survives_power_off(machine: Machine) -> None:
    machine.import_text('[HKEY_LOCAL_MACHINE\\SOFTWARE\\TransomTest]\n"a"="ä €"')
    machine.restart_machine()
    assert '"a"="ä €"' in machine.export(r"HKLM\SOFTWARE\TransomTest")
    assert machine.export(r"HKLM\SOFTWARE\NotThere") == ""


def test_a_machine_is_apart_from_others_and_from_its_template(machine: Machine, network: Network) -> None:
    registry = build_template() / "system.reg"
    before = hashlib.sha256(registry.read_bytes()).digest()
    with Machine(place=network.add_place()) as other:
        other.boot()
        other.import_text('[HKEY_LOCAL_MACHINE\\SOFTWARE\\TransomTest]\n"a"="other"')
        directory = other.directory
    assert not directory.exists()
    assert wine.list_processes(directory / "prefix") == []
    assert machine.export(r"HKLM\SOFTWARE\TransomTest") == ""
    assert machine.read_state("recorder-a") == "RUNNING"
    assert hashlib.sha256(registry.read_bytes()).digest() == before


def test_a_stopped_service_has_said_so(machine: Machine) -> None:
    machine.stop("recorder-b")
    assert [event.event for event in machine.read_recorded("recorder-b")] == ["start", "stop"]
    assert machine.read_state("no-such-service") == ""


def test_a_service_whose_process_ends_while_it_stops_has_stopped(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "ender.c").write_text(ENDS_WHILE_IT_STOPS)
    program = machine.drive / "lab" / "ender.exe"
    subprocess.run([build.COMPILER, "-municode", "-o", program, tmp_path / "ender.c"], check=True)
    machine.run("sc", "create", "ender", "binPath=", r"C:\lab\ender.exe")
    machine.start("ender")
    machine.stop("ender")


def test_a_service_whose_process_ends_unasked_has_stopped_and_starts_again(machine: Machine) -> None:
    machine.start("recorder-a")
    (process,) = [
        pid for pid in wine.list_processes(machine.prefix) if b"recorder-a" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(process, signal.SIGKILL)
    machine.wait_for("recorder-a", "STOPPED")
    machine.start("recorder-a")


def test_a_machine_that_does_not_boot_says_what_was_seen_and_keeps_no_other_from_booting() -> None:
    with Machine("broken") as machine:
        machine.find_path(r"C:\lab\boot.exe").unlink()
        with pytest.raises(MachineError, match=r"boot\.exe ended with [1-9]\d* after \d+ s; it said b''"):
            machine.boot()
        assert wine.list_processes(machine.prefix) == []


async def test_a_process_whose_first_thread_has_ended_is_seen_and_killed(tmp_path: Path) -> None:
    """As of a program that hangs in Wine at its end."""
    ends = "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start()"
    command = [sys.executable, "-c", f"{ends}; ctypes.CDLL(None).pthread_exit(None)"]
    with subprocess.Popen(command, env=wine.build_environment(tmp_path)) as process:
        try:
            await until(lambda: "State:\tZ" in Path(f"/proc/{process.pid}/status").read_text())
            assert wine.list_processes(tmp_path) == [process.pid]
            wine.kill(tmp_path)
            assert process.wait(60) == -signal.SIGKILL
        finally:
            process.kill()


async def test_a_scanner_keeps_what_a_program_wrote_from_being_renamed_and_not_from_being_read(machine: Machine) -> None:
    machine.scan(3600)
    machine.run("cmd", "/d", "/c", r"mkdir C:\scanned")
    machine.run("cmd", "/d", "/c", r"echo a>C:\scanned\f")
    file = machine.find_path(r"C:\scanned\f")
    await until(lambda: held(machine, file))
    machine.run("cmd", "/d", "/c", r"ren C:\scanned\f g & del C:\scanned\f")
    assert file.exists()
    assert machine.run("cmd", "/d", "/c", r"echo b>>C:\scanned\f & type C:\scanned\f").stdout.split() == [b"a", b"b"]
    machine.scan(0)
    assert machine.run("cmd", "/d", "/c", r"ren C:\scanned\f g").returncode == 0


def held(machine: Machine, file: Path) -> bool:
    """Whether a process of the machine has the file open."""
    found = False
    for pid in wine.list_processes(machine.prefix):
        with suppress(OSError):
            found |= any(path.exists() and path.samefile(file) for path in Path(f"/proc/{pid}/fd").iterdir())
    return found
