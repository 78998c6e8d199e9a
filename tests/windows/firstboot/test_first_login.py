"""User data on a simulated machine that has its platform's quirk: each of the calls that let Transom in is needed.

No PowerShell runs here. The script's commands are read in their order by the grammar, and each of `EFFECTS` is done on the
machine as its page says; whoever wants to come in does so over SSH.
"""

import re
from collections.abc import Callable
from typing import Final

import asyncssh
import pytest
from lab.powershell import list_statements
from tests.windows.userdata import powershell

from transom.proxy.settings import Egress
from transom.windows.firstboot import build_user_data
from winsim import Host, Simulator
from winsim.host import KEYS

METADATA: Final = "169.254.169.254"
NOWHERE: Final = r"C:\ProgramData\ssh\none"


class NewMachine:
    """A machine of a platform as it boots first: nothing of SSH, and what the platform did to its accounts and routes."""

    def __init__(self, host: Host, platform: str) -> None:
        self.host = host
        self.done = set[str]()
        """Of the effects, those that are a fact of the machine."""
        host.up = False
        host.files.write(KEYS, b"")
        host.authorized_keys = NOWHERE
        # GCP's images, and those of sysprep, have it off (WMCO, pkg/secrets/secrets.go); Azure's user is its own
        host.disabled_users = {"administrator"} if platform not in ("AWS", "Azure") else set()

    def boot(self, script: str, without: str = "") -> None:
        """Run the script, but for the commands that begin with `without`."""
        for text in list_statements(script):
            for name, (begins, effect) in EFFECTS.items():
                if re.match(begins, text) and name != without:
                    self.done.add(name)
                    effect(self.host, text)
        # who looks has a socket where the service runs and its port is let in
        self.host.up = {"capability", "service", "port"} <= self.done

    @property
    def routes(self) -> set[str]:
        """What is left when the overlay's switch has taken the network card (OCPBUGS-36305)."""
        return {METADATA} if "routes" in self.done else set()


def _nothing(_: Host, __: str) -> None:
    pass


def _keys(host: Host, text: str) -> None:
    found = re.search(r"\$text \+ '([^']+)'", text)
    assert found is not None
    host.files.write(KEYS, found[1].encode())


def _closed(host: Host, _: str) -> None:
    # sshd reads it when nobody else may (Win32-OpenSSH, check_secure_file_permission)
    host.authorized_keys = KEYS


def _enabled(host: Host, text: str) -> None:
    # by its identifier, whatever its name is
    assert text == "Enable-LocalUser -SID $administrator.SID"
    host.disabled_users.clear()


EFFECTS: Final[dict[str, tuple[str, Callable[[Host, str], None]]]] = {
    "capability": (r"Add-WindowsCapability -Online -Name 'OpenSSH\.Server", _nothing),
    "service": ("Start-Service -Name 'sshd'", _nothing),
    "key": (r"\[IO\.File\]::WriteAllBytes\(\$keys,", _keys),
    "access list": (r"& \"\$env:SystemRoot\\System32\\icacls\.exe\" \$keys '/inheritance:r'", _closed),
    "port": ("New-NetFirewallRule ", _nothing),
    "account": ("Enable-LocalUser ", _enabled),
    "routes": (r"& \$launch 'run-task' 'add-routes' '--persistent'", _nothing),
}
"""Of each call of the list: how its command begins, and what it does on the machine."""
EVERYWHERE: Final = ("capability", "service", "key", "access list", "port")
NEEDED: Final = {
    "AWS": EVERYWHERE,
    "Azure": EVERYWHERE,
    "GCP": (*EVERYWHERE, "account"),
    "vSphere": (*EVERYWHERE, "account"),
    "Nutanix": (*EVERYWHERE, "account"),
    "None": (*EVERYWHERE, "account"),
}
"""By platform, what a login by SSH needs of the script."""


async def comes_in(simulator: Simulator, host: Host) -> bool:
    try:
        place = {"host": host.address, "port": host.port, "username": host.username}
        async with asyncssh.connect(**place, client_keys=[simulator.client_key], known_hosts=None, config=None):
            return True
    except (OSError, asyncssh.Error):
        return False


def script_of(simulator: Simulator, platform: str) -> str:
    key = simulator.client_key.export_public_key().decode().strip()
    text = build_user_data(key, Egress(), platform=platform).text
    return text if platform == "GCP" else powershell(text)


@pytest.mark.parametrize("platform", NEEDED)
async def test_the_login_works_with_exactly_the_calls_of_the_list(platform: str, simulator: Simulator) -> None:
    script = script_of(simulator, platform)
    username = "capi" if platform == "Azure" else "Administrator"
    for without in ("", *NEEDED[platform]):
        host = await simulator.add_host(username=username)
        machine = NewMachine(host, platform)
        assert not await comes_in(simulator, host)
        machine.boot(script, without)
        assert await comes_in(simulator, host) == (without == ""), without
        own = {"routes"} if platform == "AWS" else set()
        # a call that is needed nowhere on this platform is in no script
        assert machine.done | {without or "key"} == {*NEEDED[platform], *(("account",) if platform == "AWS" else ()), *own}


async def test_amazons_metadata_service_is_reached_when_the_overlay_has_the_card(simulator: Simulator) -> None:
    """By it the kubelet's credential provider logs in to registries."""
    script = script_of(simulator, "AWS")
    for without, reached in (("routes", set()), ("", {METADATA})):
        machine = NewMachine(await simulator.add_host(), "AWS")
        machine.boot(script, without)
        assert await comes_in(simulator, machine.host)
        assert machine.routes == reached
