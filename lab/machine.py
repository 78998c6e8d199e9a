"""A Windows machine: a Wine prefix that can be switched on and off, and an SSH server before it."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from lab import build, cache, template, wine
from lab.claim import claim
from lab.place import Place, reserve_loopback
from lab.ssh import SSH

SYSTEM = r"C:\windows\system32"
BOOT_SECONDS = 120
SERVICE_SECONDS = 120
BOOTS = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters"


class MachineError(Exception):
    """An operation of the machine failed."""


@dataclass(frozen=True)
class RecordedEvent:
    """One event that a recorder service wrote: ``start`` or ``stop``, its number from 1, and the environment at a start."""

    event: str
    number: int
    time: str
    environment: tuple[str, ...] = ()

    def get_variable(self, name: str) -> str | None:
        """Return the value of an environment variable; its name is not case-sensitive, as on Windows."""
        for item in self.environment:
            key, _, value = item.partition("=")
            if key.lower() == name.lower():
                return value
        return None


class Machine:
    """One machine. It is switched off when made; a context manager destroys it at the end."""

    def __init__(
        self, name: str = "win1", place: Place | None = None, containerd: bool = False, shell: str = "cmd", bare: bool = False
    ) -> None:
        """Make a machine as a copy of the template.

        Args:
            name: for people; need not be unique.
            place: its address; by default a free port of the loopback.
            containerd: with the containerd service.
            shell: the default shell of its SSH server, ``cmd`` or ``powershell``.
            bare: with SSH and nothing else; ``calls`` tells which tools of Windows were called.
        """
        origin = template.build_template(containerd=containerd, bare=bare)
        self.name = name
        self.place = place or reserve_loopback()
        self.directory, self._lock = _create_directory(name)
        self.prefix = self.directory / "prefix"
        template.copy(origin, self.prefix)
        self.drive = self.prefix / "drive_c"
        self.ssh = SSH(self.directory, self.prefix, self.place, shell)
        self._power: subprocess.Popen[bytes] | None = None
        self._scanner: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    # ---- power ---------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Switch on: returns when the service control manager answers and SSH can be reached."""
        if self._power:
            raise MachineError(f"{self.name} is on already")
        command = [*self.place.inside, *wine.find_loader(), r"C:\lab\boot.exe"]
        log = self.directory / "boot.log"
        with log.open("wb") as errors:
            self._power = subprocess.Popen(
                command,
                cwd=self.drive,
                env=wine.build_environment(self.prefix, {"WINEDEBUG": "-all,err+all"}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self.ssh.start()
        if trouble := _wait_until_ready(self._power, log):
            running = wine.list_running(self.prefix)
            self.cut_power()
            raise MachineError(f"{self.name} did not boot: {trouble}\nrunning: {', '.join(running) or 'nothing'}")
        self.ssh.wait()

    def shut_down(self) -> None:
        """Shut down: every connection and process ends, and the registry is written to the disk."""
        self.ssh.stop()
        wine.stop(self.prefix)
        self._wait_for_boot_process()

    def cut_power(self) -> None:
        """Take the power away: what of the registry was not on the disk yet is lost (Wine writes it every 30 s)."""
        self.ssh.kill()
        wine.kill(self.prefix)
        self._wait_for_boot_process()

    def restart_machine(self) -> None:
        """Shut down and boot again."""
        self.shut_down()
        self.boot()

    def destroy(self) -> None:
        """End its processes and remove its files."""
        self.ssh.kill()
        wine.kill(self.prefix)
        self._wait_for_boot_process()
        shutil.rmtree(self.directory, ignore_errors=True)
        self._lock.close()

    def _wait_for_boot_process(self) -> None:
        self._end_scanner()
        if self._power:
            if self._power.stdout:
                self._power.stdout.close()
            self._power.wait(timeout=120)
            self._power = None

    # ---- at the console ------------------------------------------------------------------------------------------

    def run(self, *command: str, timeout: float = 120) -> subprocess.CompletedProcess[bytes]:
        """Run a program as a user at the console would; a name without a path is one of System32."""
        program = command[0] if "\\" in command[0] else f"{SYSTEM}\\{command[0]}"
        if not program.lower().endswith(".exe"):
            program += ".exe"
        return wine.run(self.prefix, [program, *command[1:]], inside=self.place.inside, timeout=timeout)

    def scan(self, seconds: float) -> None:
        """Let a virus scanner read each file for so long after a program wrote it (`ssh.scan`: SFTP did); 0: let it be gone."""
        self._end_scanner()
        if not seconds:
            return
        shutil.copy(build.build_program(build.SCANNER), self.drive / "lab" / "scanner.exe")
        self._scanner = subprocess.Popen(
            [*self.place.inside, *wine.find_loader(), r"C:\lab\scanner.exe", str(seconds), "C:\\", r"C:\windows"],
            cwd=self.drive,
            env=wine.build_environment(self.prefix),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._scanner.stdout is not None
        if self._scanner.stdout.readline().strip() != b"ready":
            raise MachineError(f"the scanner of {self.name} ended with {self._scanner.wait()}")

    def _end_scanner(self) -> None:
        if self._scanner and self._scanner.stdout:
            # one of some hundred that ended by itself would hang: Wine ends threads while they hold locks
            self._scanner.kill()
            self._scanner.wait()
            self._scanner.stdout.close()
            self._scanner = None

    def find_path(self, windows: str) -> Path:
        r"""Return the Linux path of a file of ``C:\…``, with the case in which it is stored. The file need not exist."""
        here = self.drive
        for part in windows.replace("/", "\\").removeprefix("C:").strip("\\").split("\\"):
            children = {entry.name.lower(): entry for entry in here.iterdir()} if here.is_dir() else {}
            here = children.get(part.lower(), here / part)
        return here

    def read_calls(self) -> list[str]:
        """Return the command lines of netsh, icacls, certutil, dism and powershell on a bare machine, oldest first."""
        file = self.drive / "lab" / "calls.txt"
        return file.read_text(errors="replace").splitlines() if file.exists() else []

    # ---- registry ------------------------------------------------------------------------------------------------

    def export(self, key: str) -> str:
        r"""Return the output of ``reg export`` of a key with ``\n`` as newlines; empty if the key does not exist."""
        file = self.drive / "lab" / "export.reg"
        file.unlink(missing_ok=True)
        self.run("reg", "export", key, r"C:\lab\export.reg", "/y")
        return file.read_bytes().decode("utf-16").replace("\r\n", "\n") if file.exists() else ""

    def import_text(self, text: str) -> None:
        """Run ``reg import`` with text that has no header line."""
        file = self.drive / "lab" / "import.reg"
        lines = f"Windows Registry Editor Version 5.00\n\n{text}\n".replace("\r\n", "\n").replace("\n", "\r\n")
        file.write_bytes(b"\xff\xfe" + lines.encode("utf-16-le"))
        done = self.run("reg", "import", r"C:\lab\import.reg")
        if done.returncode != 0:
            raise MachineError(f"reg import ended with {done.returncode}")

    def set_environment(self, name: str, value: str | None) -> None:
        """Set a variable of the machine's environment, or remove it."""
        quoted = "-" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        self.import_text(
            f'[HKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet\\Control\\Session Manager\\Environment]\n"{name}"={quoted}'
        )

    def set_service_environment(self, service: str, items: Sequence[str]) -> None:
        """Set the ``Environment`` value of a service; no items remove it."""
        data = "".join(f"{item}\0" for item in items) + "\0"
        written = "hex(7):" + ",".join(f"{byte:02x}" for byte in data.encode("utf-16-le")) if items else "-"
        self.import_text(f'[HKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet\\Services\\{service}]\n"Environment"={written}')

    def read_boot_count(self) -> int:
        """Return BootId: how often this machine booted."""
        for line in self.export(BOOTS).splitlines():
            if line.startswith('"BootId"=dword:'):
                return int(line.rpartition(":")[2], 16)
        raise MachineError(f"{self.name} has no BootId")

    # ---- services ------------------------------------------------------------------------------------------------

    def read_state(self, service: str) -> str:
        """Return ``RUNNING``, ``STOPPED``, ``START_PENDING``, …; empty if the service does not exist."""
        for line in self.run("sc", "query", service).stdout.decode(errors="replace").splitlines():
            if "STATE" in line:
                return line.split()[-1]
        return ""

    def start(self, service: str) -> None:
        """Start a service and wait until it runs."""
        self.wait_for(service, "RUNNING", "start")

    def stop(self, service: str) -> None:
        """Stop a service and wait until it has stopped."""
        self.wait_for(service, "STOPPED", "stop")

    def restart(self, service: str) -> None:
        """Stop a service and start it again."""
        self.stop(service)
        self.start(service)

    def wait_for(self, service: str, state: str, control: str = "") -> None:
        """Wait until a service is in a state, with ``sc start`` or ``sc stop`` until then.

        The service control manager refuses to start a service whose old process is still there.

        Raises:
            MachineError: it was not after 120 s.
        """
        deadline, pause = time.monotonic() + SERVICE_SECONDS, 0.1
        while (seen := self.read_state(service)) != state:
            if control and not seen.endswith("PENDING"):
                self.run("sc", control, service)
            if time.monotonic() > deadline:
                raise MachineError(f"{service} on {self.name} is {seen or 'missing'}, not {state}")
            # a look is a process of Wine
            time.sleep(pause)
            pause = min(pause * 1.3, 0.5)

    def read_recorded(self, service: str) -> list[RecordedEvent]:
        """Return the events that a recorder service wrote, oldest first."""
        return self.read_recorded_file(self.drive / "lab" / f"{service}.jsonl")

    def read_recorded_file(self, file: Path) -> list[RecordedEvent]:
        """Return the events that a recorder wrote to a file of its own."""
        lines = file.read_text().splitlines() if file.exists() else []
        return [_parse_event(json.loads(line)) for line in lines]

    def set_stop_seconds(self, service: str, seconds: int) -> None:
        """Let a recorder service be pending for seconds when it stops."""
        (self.drive / "lab" / f"{service}.jsonl.slow").write_text(str(seconds))

    def list_starts(self, service: str) -> list[RecordedEvent]:
        """Return the starts of a recorder service, oldest first."""
        return [event for event in self.read_recorded(service) if event.event == "start"]


def _wait_until_ready(power: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until boot.exe prints "ready"; return an empty string, or a description of the failure."""
    output = power.stdout
    assert output is not None
    start, data, ended = time.monotonic(), b"", False
    while b"\n" not in data and not ended and time.monotonic() < start + BOOT_SECONDS:
        ended = power.poll() is not None
        if select.select([output], [], [], 0.1)[0]:
            data += os.read(output.fileno(), 4096)
    if data.strip() == b"ready":
        return ""
    code, seconds = power.poll(), time.monotonic() - start
    state = "still runs" if code is None else f"ended with {code}"
    return (
        f"boot.exe {state} after {seconds:.0f} s; it said {data[:200]!r}, Wine said:\n{log.read_text(errors='replace')[-2000:]}"
    )


def _create_directory(name: str) -> tuple[Path, IO[str]]:
    """Create a machine's directory and hold its lock. Machines without a lock holder are removed."""
    machines = cache.get_directory() / "machines"
    machines.mkdir(exist_ok=True)
    return claim(machines, f"{name}-", "*", lambda directory: wine.kill(directory / "prefix"))


def _parse_event(line: dict[str, Any]) -> RecordedEvent:
    return RecordedEvent(line["event"], line["number"], line["time"], tuple(line.get("environment", ())))
