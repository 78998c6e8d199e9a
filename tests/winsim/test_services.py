"""The service control manager, as scripts see it through sc.exe and net.exe."""

import pytest
from tests.winsim.consoles import booted, console

from transom.windows.host.host_state import ServiceState
from transom.windows.host.queries import BOOT, ENVIRONMENT, SERVICES
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_dword, build_expand_sz, build_multi_sz, build_sz
from winsim.host import Host
from winsim.services import ServiceError


async def pair() -> Host:
    """`containerd`, and `kubelet` which depends on it; both run, and take no time to start and stop."""
    host = Host("WIN-1", time_scale=0.001)
    host.add_service("containerd")
    host.add_service("kubelet", ["containerd"])
    await host.boot()
    return host


def state(host: Host, name: str) -> str:
    return host.services.get(name).state.name


ERRORS = [
    ("query none", 1060),
    ("start none", 1060),
    ("stop none", 1060),
    ("delete none", 1060),
    ("start kubelet", 1056),
    ("stop containerd", 1051),
    ("create kubelet binPath= x", 1073),
    ("frobnicate kubelet", 1639),
]


@pytest.mark.parametrize(("line", "code"), ERRORS)
async def test_errors_have_windows_numbers(line: str, code: int) -> None:
    host = await pair()
    printed = await console(host, f"sc.exe {line}")
    assert printed.code == code
    assert code == 1639 or f"FAILED {code}:" in printed.output
    assert [state(host, "containerd"), state(host, "kubelet")] == ["RUNNING", "RUNNING"]


async def test_stop_and_start_in_order() -> None:
    host = await pair()
    assert (await console(host, "sc.exe stop kubelet")).code == 0
    assert (await console(host, "sc.exe stop kubelet")).code == 1062
    assert (await console(host, "sc.exe stop containerd")).code == 0
    assert (await console(host, "sc.exe start kubelet")).code == 0
    assert [state(host, "containerd"), state(host, "kubelet")] == ["RUNNING", "RUNNING"]
    assert [len(host.starts("containerd")), len(host.starts("kubelet"))] == [2, 2]


async def test_query_prints_the_number_on_the_third_line() -> None:
    host = await pair()
    lines = [line for line in (await console(host, "sc.exe query KUBELET")).output.splitlines() if line]
    assert lines[0] == "SERVICE_NAME: kubelet "
    assert lines[2] == "        STATE              : 4  RUNNING "


async def test_pending_states_take_their_time() -> None:
    host = await pair()
    service = host.services.get("kubelet")
    service.start_seconds = service.stop_seconds = 30
    printed = await console(host, "sc.exe stop kubelet")
    assert "STATE              : 3  STOP_PENDING" in printed.output
    assert (await console(host, "sc.exe stop kubelet")).code == 1061
    assert (await console(host, "sc.exe start kubelet")).code == 1056
    assert await host.services.wait_for_state("kubelet", ServiceState.STOPPED, 60)
    assert "STATE              : 2  START_PENDING" in (await console(host, "sc.exe start kubelet")).output
    assert (await console(host, "sc.exe stop kubelet")).code == 1061
    assert await host.services.wait_for_state("kubelet", ServiceState.RUNNING, 60)


async def test_a_service_that_does_not_stop_and_one_that_does_not_start() -> None:
    host = await pair()
    service = host.services.get("kubelet")
    service.stops = False
    await console(host, "sc.exe stop kubelet")
    assert not await host.services.wait_for_state("kubelet", ServiceState.STOPPED, 5)
    assert state(host, "kubelet") == "STOP_PENDING"
    service.stops, service.starts_well = True, False
    assert await host.services.wait_for_state("kubelet", ServiceState.STOPPED, 5)
    assert (await console(host, "sc.exe start kubelet")).code == 0
    assert (state(host, "kubelet"), service.exit_code) == ("STOPPED", 1067)


async def test_what_depends_on_a_service_that_does_not_start() -> None:
    host = await pair()
    for name in ("kubelet", "containerd"):
        host.services.stop(name)
    host.services.get("containerd").starts_well = False
    assert (await console(host, "sc.exe start kubelet")).code == 1068


async def test_create_and_delete() -> None:
    host = await pair()
    host.files.write(r"C:\p\x.exe", b"MZservice")
    assert (await console(host, r'sc.exe create x binPath= "C:\p\x.exe -a" start= demand depend= kubelet/containerd')).code == 0
    key = host.registry.find_key(rf"{SERVICES}\x")
    assert key is not None
    assert key.get("ImagePath") == build_expand_sz(r"C:\p\x.exe -a")
    assert key.get("DependOnService") == build_multi_sz(["kubelet", "containerd"])
    assert key.get("Start") == build_dword(3)
    await console(host, "sc.exe start x")
    assert (await console(host, "sc.exe delete x")).code == 0
    assert (await console(host, "sc.exe delete x")).code == 1072
    assert (await console(host, "sc.exe create x binPath= y")).code == 1072
    assert state(host, "x") == "RUNNING"
    await console(host, "sc.exe stop x")
    assert (await console(host, "sc.exe query x")).code == 1060
    assert host.registry.find_key(rf"{SERVICES}\x") is None


async def test_a_service_without_its_program() -> None:
    host = await pair()
    host.services.create("x", r"C:\none.exe")
    assert (await console(host, "sc.exe start x")).code == 2


async def test_a_service_that_was_imported_is_known_after_a_boot() -> None:
    host = await pair()
    host.edit(
        [
            SetValue(rf"{SERVICES}\x", "ImagePath", build_sz(r"C:\Windows\System32\ping.exe")),
            SetValue(rf"{SERVICES}\x", "Start", build_dword(4)),
        ]
    )
    assert (await console(host, "sc.exe query x")).code == 1060
    await host.boot()
    assert (await console(host, "sc.exe query x")).code == 0
    assert (await console(host, "sc.exe start x")).code == 1058


async def test_the_environment_of_a_start() -> None:
    host = await pair()
    host.edit(
        [
            SetValue(ENVIRONMENT, "HTTPS_PROXY", build_sz("http://machine")),
            SetValue(ENVIRONMENT, "OTHER", build_sz("x")),
            SetValue(rf"{SERVICES}\kubelet", "Environment", build_multi_sz(["https_proxy=http://own", "OTHER="])),
        ]
    )
    host.services.stop("kubelet")
    await host.services.start("kubelet")
    # what the machine has is seen from the next boot on; a service's own items at each start
    seen = [start.environment for start in host.starts("kubelet")]
    assert "https_proxy" not in seen[0]
    assert (seen[1]["https_proxy"], seen[1]["OTHER"]) == ("http://own", "")
    await host.boot()
    start = host.starts("containerd")[-1]
    assert (start.boot, start.environment["HTTPS_PROXY"], start.environment["OTHER"]) == (2, "http://machine", "x")
    assert "HTTPS_PROXY" not in host.starts("kubelet")[-1].environment
    assert host.starts("kubelet")[-1].environment["windir"] == r"C:\Windows"
    assert "own" not in repr(host.starts("kubelet")[-1])


async def test_a_boot_counts_up_and_starts_what_starts_by_itself() -> None:
    host = await pair()
    host.add_service("by-hand", automatic=False)
    await host.services.start("by-hand")
    assert host.boot_id == 1
    host.cut_power()
    assert [state(host, "containerd"), state(host, "by-hand")] == ["STOPPED", "STOPPED"]
    await host.boot()
    assert [state(host, "containerd"), state(host, "kubelet"), state(host, "by-hand")] == ["RUNNING", "RUNNING", "STOPPED"]
    assert host.registry.find_value(BOOT, "BootId") == build_dword(2)


async def test_a_service_made_of_cmd_runs_a_script_on_its_own() -> None:
    host = await booted()
    host.time_scale = 0.001
    host.files.write(r"C:\t\job.cmd", b"@ping -n 3 127.0.0.1 >nul\r\n@echo done>C:\\t\\done\r\n")
    image = r"C:\Windows\System32\cmd.exe /d /c start /b C:\Windows\System32\cmd.exe /d /c C:\t\job.cmd"
    assert (await console(host, f'sc.exe create job binPath= "{image}" start= demand')).code == 0
    assert (await console(host, "sc.exe start job")).code == 1053
    assert not host.files.exists(r"C:\t\done")
    assert (await console(host, "sc.exe delete job")).code == 0
    await host.background.wait_until_idle()
    assert host.files.read(r"C:\t\done") == b"done\r\n"
    assert host.unknown == []


async def test_a_power_cut_ends_the_script() -> None:
    host = await booted()
    host.files.write(r"C:\t\job.cmd", b"@ping -n 100 127.0.0.1 >nul\r\n@echo done>C:\\t\\done\r\n")
    host.services.create("job", r'C:\Windows\System32\cmd.exe /d /c start "" /b cmd.exe /d /c C:\t\job.cmd')
    with pytest.raises(ServiceError):
        await host.services.start("job")
    host.cut_power()
    await host.background.wait_until_idle()
    assert not host.files.exists(r"C:\t\done")


async def test_net() -> None:
    host = await pair()
    host.services.get("kubelet").stop_seconds = 2
    assert (await console(host, "net.exe stop containerd")).code == 2
    assert (await console(host, "net.exe stop containerd /y")).code == 0
    assert [state(host, "containerd"), state(host, "kubelet")] == ["STOPPED", "STOPPED"]
    assert (await console(host, "net.exe start kubelet")).code == 0
    assert "   kubelet\n" in (await console(host, "net.exe start")).output
