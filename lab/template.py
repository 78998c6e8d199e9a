"""The template of a machine: a Wine prefix as Windows Server 2022, with its services registered, booted once."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from image.progress import run_step

from lab import build, cache, wine

SOURCES = Path(__file__).parent
SHARED = (".acm", ".ax", ".com", ".cpl", ".dll", ".drv", ".ds", ".exe", ".msstyles", ".nls", ".ocx", ".sys", ".tlb", ".ttf")
"""The kinds of files that copies of a machine share: nobody writes into them in place."""
SERVER = ("wine-", "wineserver")
"""How the names of what belongs to Wine's server begin, in a prefix."""
ADMINISTRATOR = "Administrator"
TOOLS = ("netsh", "icacls", "certutil", "dism", r"WindowsPowerShell\v1.0\powershell")
"""Programs of Windows that are empty stubs in Wine; in a bare machine tool.exe stands for them."""
OVERRIDES = r"HKCU\Software\Wine\DllOverrides"
SERVICES = r"HKLM\SYSTEM\CurrentControlSet\Services"
_UNUSED = re.compile(
    rb"\[Software\\\\(?:(?:Wow6432Node\\\\)?Classes\\\\(?:CLSID|Interface|MIME|Typelib)\\\\"
    rb"|Microsoft\\\\Windows\\\\CurrentVersion\\\\Telephony\\\\"
    rb"|Microsoft\\\\Windows NT\\\\CurrentVersion\\\\"
    rb"(?:Font(?:s|Substitutes|Link\\\\SystemLink)\]|Time Zones\\\\(?P<zone>[^]\\\\]+)))",
    re.IGNORECASE,
)
_ZONE = re.compile(rb'"TimeZoneKeyName"="([^"]+)"')
_ZONE_TEXT = re.compile(rb'(?m)^"MUI_(?:Display|Dlt|Std)"="@tzres.dll,.*\n')
_FONTS = Path("etc", "fonts", "fonts.conf")
_CONSOLE_FONTS = ("*Mono.ttf", "*Mono-Regular.ttf")
"""Of DejaVu, Bitstream Vera and Liberation, of which Debian's fontconfig-config brings one."""
_NO_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><cachedir>/nowhere</cachedir></fontconfig>
"""


@functools.cache
def build_template(containerd: bool = False, bare: bool = False) -> Path:
    """Return the prefix that machines are copied from; build it if needed.

    Args:
       containerd: with the containerd service, its programs and settings.
       bare: like a new Windows: SSH, no added services, and the tools that a first configuration calls.
    """
    native = build.build_native()
    recorder, curl = build.build_program(build.RECORDER), build.build_program(build.CURL)
    if containerd:
        base, programs = build_template(), [build.build_program(program) for program in build.CONTAINERD_PROGRAMS]
        key = cache.digest([str(base), *map(str, programs), SOURCES / "windows", SOURCES / "template.py"])
        return cache.get_entry("template-containerd", key, lambda target: _add_containerd(base, target, programs))
    if bare:
        base = build_template()
        key = cache.digest([str(base), SOURCES / "template.py"])
        return cache.get_entry("template-bare", key, lambda target: _make_bare(base, target, native))
    key = cache.digest(
        [str(native), str(recorder), str(curl), _read_wine_version(), SOURCES / "windows", SOURCES / "template.py"]
    )
    return cache.get_entry("template", key, lambda target: _make(target, native, recorder, curl))


def copy(source: Path, target: Path) -> None:
    """Copy a prefix that is shut down. Programs become hard links, since they are never written in place.

    The files of Wine's server are not copied: each machine has its own server.
    """

    def ignore_servers(directory: str, names: list[str]) -> set[str]:
        return {name for name in names if name.startswith(SERVER)} if Path(directory) == source else set()

    def place(origin: str, destination: str) -> str:
        if Path(origin).suffix.lower() in SHARED:
            os.link(origin, destination)
        else:
            shutil.copy2(origin, destination)
        return destination

    shutil.copytree(source, target, symlinks=True, ignore=ignore_servers, copy_function=place, dirs_exist_ok=True)


def _read_wine_version() -> str:
    return subprocess.run([*wine.find_loader(), "--version"], capture_output=True, text=True, check=True).stdout.strip()


def _make(target: Path, native: Path, recorder: Path, curl: Path) -> None:
    with run_step("making the template of the Windows machines"):
        drive = target / "drive_c"
        drive.mkdir()
        (target / _FONTS).parent.mkdir(parents=True)
        (target / _FONTS).write_text(_NO_FONTS)
        environment = wine.build_environment(target, {"WINEDLLOVERRIDES": "mscoree,mshtml="})
        make = [*wine.find_loader(), "wineboot.exe", "-i"]
        subprocess.run(make, cwd=drive, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=True)
        for name in ("bcryptprimitives", "vmcompute", "computenetwork"):
            shutil.copy2(native / f"{name}.dll", drive / "windows" / "system32")
        shutil.copy2(curl, drive / "windows" / "system32")
        # conhost.exe ends without one
        shutil.copy2(_find_console_font(), drive / "windows" / "Fonts")
        (drive / "lab").mkdir()
        for file in (native / "pdh.dll", native / "boot.exe", native / "shell.exe", recorder, *(SOURCES / "windows").iterdir()):
            shutil.copy2(file, drive / "lab")
        _create_home(target)
        _require(target, r"C:\windows\system32\winecfg.exe", "-v", "win10")
        _require(target, r"C:\windows\system32\reg.exe", "import", r"C:\lab\setup.reg")
        # Services cannot be started in the boot that made the prefix, and keys that were imported count from the next one.
        wine.stop(target)
        _forget_unused(target / "system.reg")


def _find_console_font() -> Path:
    for pattern in _CONSOLE_FONTS:
        for file in sorted(Path("/usr/share/fonts").rglob(pattern)):
            return file
    raise wine.WineError("there is no font of a fixed width below /usr/share/fonts: install fonts-dejavu-core")


def _forget_unused(registry: Path) -> None:
    """Take out what no program of a machine asks for, and Wine reads again and again.

    Of COM's registrations, three of four keys, at each boot. Of time zones, all down to the one that it is in, at each start of
    a process: half of all that a small program asks the server. Of fonts, at each start of one that could make a window.
    """
    content = _ZONE_TEXT.sub(b"", registry.read_bytes())
    zone = _ZONE.search(content)
    head, *keys = re.split(rb"(?m)^(?=\[)", content)

    def is_used(key: bytes) -> bool:
        unused = _UNUSED.match(key)
        return not unused or (zone is not None and unused["zone"] == zone[1])

    registry.write_bytes(head + b"".join(key for key in keys if is_used(key)))


def _create_home(target: Path) -> None:
    """Create a home directory for the administrator, who logs in over SSH; no link in it leads out of the prefix."""
    users = target / "drive_c" / "users"
    (users / ADMINISTRATOR).mkdir()
    for link in [path for path in users.rglob("*") if path.is_symlink()]:
        link.unlink()
        link.mkdir()


def _add_containerd(base: Path, target: Path, programs: list[Path]) -> None:
    with run_step("adding containerd to the template"):
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


def _make_bare(base: Path, target: Path, native: Path) -> None:
    with run_step("making the template of a bare machine"):
        copy(base, target)
        system, directory = target / "drive_c" / "windows" / "system32", target / "drive_c" / "lab"
        for tool in TOOLS:
            _replace(native / "tool.exe", system / f"{tool}.exe".replace("\\", "/"))
            name = tool.rpartition("\\")[2] + ".exe"
            _require(target, r"C:\windows\system32\reg.exe", "add", OVERRIDES, "/v", name, "/d", "native", "/f")
        _replace(native / "pdh.dll", system / "pdh.dll")
        for name in ("recorder-a", "recorder-b"):
            _require(target, r"C:\windows\system32\reg.exe", "delete", rf"{SERVICES}\{name}", "/f")
        wine.stop(target)
        for file in directory.iterdir():
            if file.name not in ("boot.exe", "shell.exe"):
                file.unlink()


def _replace(source: Path, target: Path) -> None:
    """Put a file in the place of one that other templates share."""
    target.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _require(prefix: Path, *command: str) -> None:
    done = wine.run(prefix, command)
    if done.returncode != 0:
        raise wine.WineError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout.decode(errors='replace')}")
