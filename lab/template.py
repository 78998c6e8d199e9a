"""The template of a machine: a Wine prefix as Windows Server 2022, with its services registered, booted once."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from lab import build, cache, wine
from lab.progress import step

SOURCES = Path(__file__).parent
SHARED = (".acm", ".ax", ".com", ".cpl", ".dll", ".drv", ".ds", ".exe", ".msstyles", ".nls", ".ocx", ".sys", ".tlb", ".ttf")
"""The kinds of files that copies of a machine share: nobody writes into them in place."""
ADMINISTRATOR = "Administrator"


def template(containerd: bool = False) -> Path:
    """The prefix that machines are copied from; ``containerd`` adds the containerd service, its programs and settings."""
    native = build.native()
    recorder = build.program(build.RECORDER)
    if containerd:
        base, programs = template(), [build.program(program) for program in build.CONTAINERD_PROGRAMS]
        key = cache.digest([str(base), *map(str, programs), SOURCES / "windows", SOURCES / "template.py"])
        return cache.entry("template-containerd", key, lambda target: _add_containerd(base, target, programs))
    key = cache.digest([str(native), str(recorder), _version(), SOURCES / "windows", SOURCES / "template.py"])
    return cache.entry("template", key, lambda target: _make(target, native, recorder))


def copy(source: Path, target: Path) -> None:
    """Copy a prefix that is switched off. Programs are hard links, since nobody writes into them; the rest is copied."""

    def place(origin: str, destination: str) -> str:
        if Path(origin).suffix.lower() in SHARED:
            os.link(origin, destination)
        else:
            shutil.copy2(origin, destination)
        return destination

    shutil.copytree(source, target, symlinks=True, copy_function=place, dirs_exist_ok=True)


def _version() -> str:
    return subprocess.run([wine.loader(), "--version"], capture_output=True, text=True, check=True).stdout.strip()


def _make(target: Path, native: Path, recorder: Path) -> None:
    with step("making the template of the Windows machines"):
        drive = target / "drive_c"
        drive.mkdir()
        environment = wine.environment(target, {"WINEDLLOVERRIDES": "mscoree,mshtml="})
        subprocess.run(
            ["wineboot", "-i"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=True
        )
        for name in ("bcryptprimitives", "vmcompute", "computenetwork"):
            shutil.copy2(native / f"{name}.dll", drive / "windows" / "system32")
        (drive / "lab").mkdir()
        for file in (native / "pdh.dll", native / "boot.exe", native / "shell.exe", recorder, *(SOURCES / "windows").iterdir()):
            shutil.copy2(file, drive / "lab")
        _home(target)
        _require(target, r"C:\windows\system32\winecfg.exe", "-v", "win10")
        _require(target, r"C:\windows\system32\reg.exe", "import", r"C:\lab\setup.reg")
        # Services cannot be started in the boot that made the prefix, and keys that were imported count from the next one.
        wine.stop(target)


def _home(target: Path) -> None:
    """A home directory of the administrator, who logs in over SSH; nothing of it leads out of the prefix."""
    users = target / "drive_c" / "users"
    (users / ADMINISTRATOR).mkdir()
    for link in [path for path in users.rglob("*") if path.is_symlink()]:
        link.unlink()
        link.mkdir()


def _add_containerd(base: Path, target: Path, programs: list[Path]) -> None:
    with step("adding containerd to the template"):
        copy(base, target)
        directory = target / "drive_c" / "lab"
        for program in programs:
            shutil.copy2(program, directory)
        network = directory / "cni" / "conf"
        network.mkdir(parents=True)
        (directory / "cni" / "bin").mkdir()
        shutil.copy2(directory / "10-lab.conf", network)
        _require(target, r"C:\windows\system32\reg.exe", "import", r"C:\lab\containerd.reg")
        wine.stop(target)


def _require(prefix: Path, *command: str) -> None:
    done = wine.run(prefix, command)
    if done.returncode != 0:
        raise wine.WineError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout.decode(errors='replace')}")
