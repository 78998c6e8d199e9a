"""The script that imports the egress settings, in the corners that a machine of an odd image has; on the simulated host."""

import msgspec
import pytest
from tests.capi.settings import EGRESS
from tests.winsim.consoles import booted, console

from transom.capi.bootstrap import windows_proxy
from transom.capi.worker.file_content import read_script
from transom.proxy.objects import WindowsSettings
from transom.proxy.settings import Egress
from transom.windows import ledger
from transom.windows.host.host_state import ServiceState
from transom.windows.host.queries import LEDGER, SERVICES
from transom.windows.registry.edits import DeleteValue
from winsim import Host
from winsim.filesystem import list_entries

PLACE = r"C:\k"


async def machine(*services: str, egress: Egress | None = EGRESS) -> Host:
    host = await booted()
    for name in services:
        host.add_service(name)
    await host.boot()
    host.files.make_directories(PLACE)
    host.files.write(rf"{PLACE}\proxy.cmd", read_script("proxy.cmd"))
    if egress is not None:
        host.files.write(rf"{PLACE}\proxy.reg", windows_proxy.render_proxy_reg(egress, "prod"))
    return host


async def before_join(host: Host) -> int:
    return (await console(host, windows_proxy.BEFORE_JOIN)).code


async def after_join(host: Host) -> int:
    return (await console(host, windows_proxy.AFTER_JOIN)).code


def log(host: Host) -> list[str]:
    return host.files.read(rf"{PLACE}\proxy.log").decode().splitlines()


def environment(host: Host, service: str) -> int:
    value = host.registry.find_value(rf"{SERVICES}\{service}", "Environment")
    return len(value.to_texts()) if value else 0


async def test_as_it_should_be() -> None:
    host = await machine("containerd", "kubelet")
    assert (await before_join(host), await after_join(host)) == (0, 0)
    assert log(host) == ["imported", "restarted containerd", "restarted kubelet", "nothing to put back"]
    assert (environment(host, "containerd"), environment(host, "kubelet")) == (3, 3)
    assert not host.files.exists(rf"{PLACE}\proxy.reg")
    assert sorted(node.name for node in list_entries(host.files.get_directory(PLACE))) == ["proxy.cmd", "proxy.log"]
    assert host.unknown == []


async def test_a_service_that_is_not_there_yet_is_not_half_made() -> None:
    host = await machine("containerd")
    assert await before_join(host) == 0
    assert host.registry.find_key(rf"{SERVICES}\kubelet") is None
    assert list(ledger.read(host.registry).environment.services) == ["containerd"]
    host.add_service("kubelet")
    assert await after_join(host) == 0
    assert environment(host, "kubelet") == 3
    assert sorted(ledger.read(host.registry).environment.services) == ["containerd", "kubelet"]


async def test_what_was_taken_away_is_put_back() -> None:
    host = await machine("containerd", "kubelet")
    await before_join(host)
    host.edit([DeleteValue(rf"{SERVICES}\kubelet", "Environment")])
    await after_join(host)
    assert environment(host, "kubelet") == 3
    assert log(host)[-2:] == ["imported", "restarted kubelet"]


async def test_settings_without_anything_restart_nothing() -> None:
    host = await machine("containerd", "kubelet", egress=Egress())
    starts = len(host.starts("containerd"))
    assert (await before_join(host), await after_join(host)) == (0, 0)
    assert (log(host), len(host.starts("containerd"))) == (["proxy.reg sets nothing"] * 2, starts)
    assert host.registry.find_key(LEDGER) is None


async def test_certificates_alone() -> None:
    host = await machine("containerd", "kubelet", egress=Egress(trust=EGRESS.trust))
    assert (await before_join(host), await after_join(host)) == (0, 0)
    assert log(host) == ["imported", "restarted containerd", "restarted kubelet", "nothing to put back"]
    assert environment(host, "kubelet") == 0


async def test_without_the_file() -> None:
    host = await machine("containerd", "kubelet", egress=None)
    assert await before_join(host) == 1
    assert log(host)[0].startswith("proxy.reg is not there")


@pytest.mark.parametrize("scope", ["Machine", "Both"])
async def test_the_machine_environment(scope: str) -> None:
    windows = msgspec.structs.replace(EGRESS.windows, environment_scope=scope)
    host = await machine("containerd", "kubelet", egress=msgspec.structs.replace(EGRESS, windows=windows))
    await before_join(host)
    assert sorted(ledger.read(host.registry).environment.machine) == ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"]
    assert environment(host, "containerd") == (3 if scope == "Both" else 0)


async def test_a_service_that_was_stopped_stays_stopped() -> None:
    host = await machine("containerd", "kubelet")
    await console(host, "sc stop kubelet")
    await before_join(host)
    assert host.services.get("kubelet").state is ServiceState.STOPPED
    assert log(host) == ["imported", "restarted containerd"]


def test_the_file_claims_no_profile_that_the_script_does_not_write() -> None:
    """The ledger of the file would say of a block that it is on the machine."""
    asked = msgspec.structs.replace(EGRESS, windows=WindowsSettings(power_shell=True))
    assert windows_proxy.render_proxy_reg(asked, "prod") == windows_proxy.render_proxy_reg(
        msgspec.structs.replace(EGRESS, windows=WindowsSettings()), "prod"
    )
