"""The proxy of Windows PowerShell on a host: in the profile of all users, kept there, and gone with the setting."""

import pytest
from tests.apply.windows import PROXY, SETTINGS, Desk, Simulated, Windows

from transom.windows.host.queries import LEDGER
from transom.windows.parts.powershell import LINE, PROFILE
from transom.windows.parts.powershell_block import TARGET

ASKED = {**SETTINGS, "windows": {"powerShell": True}}
ALONE = {"httpsProxy": PROXY, "windows": {"powerShell": True}}
"""Without a trusted CA, which would be in the ledger too."""
THEIRS = [None, b"", b"Set-Alias ll Get-ChildItem", b"\xff\xfe" + "Write-Host 'ü'\r\n".encode("utf-16-le")]


async def _has_ledger(windows: Windows) -> bool:
    return (await windows.registry(LEDGER)).find_key(LEDGER) is not None


@pytest.mark.parametrize("before", THEIRS)
async def test_set_changed_and_restored(windows: Windows, desk: Desk, before: bytes | None) -> None:
    windows.write_file(PROFILE, before)
    desk.write(ASKED)
    (host,) = (await desk.apply()).hosts
    assert (host["result"], host["error"], host["channels"] <= 4) == ("changed", None, True)
    (step,) = (step for step in host["changes"] if step["target"] == TARGET)
    assert (step["before"], step["after"].startswith("http://proxy.corp.example:3128 bypass=")) == (None, True)
    first = windows.read_file(PROFILE)
    assert first is not None
    assert first.startswith(before or b"")
    text = first.decode("utf-16" if first.startswith(b"\xff\xfe") else "ascii")
    assert "'http://proxy.corp.example:3128'" in text
    assert "hunter2" not in text
    (again,) = (await desk.apply()).hosts
    assert (again["result"], windows.read_file(PROFILE)) == ("unchanged", first)
    desk.write({**ASKED, "noProxy": ".other.example"})
    (host,) = (await desk.apply()).hosts
    assert host["error"] is None
    assert windows.read_file(PROFILE) not in (first, before)
    desk.write(SETTINGS)
    (host,) = (await desk.apply()).hosts
    assert host["error"] is None
    assert windows.read_file(PROFILE) == before
    assert (await windows.registry(LEDGER)).find_value(LEDGER, LINE) is None
    assert await _has_ledger(windows), "services have the proxy"
    (again,) = (await desk.apply()).hosts
    assert again["result"] == "unchanged"


@pytest.mark.parametrize("services", [[], ["recorder-a"]])
async def test_the_last_of_the_ledger_goes_with_it(windows: Windows, desk: Desk, services: list[str]) -> None:
    """With services the ledger goes after their restarts, else with the profile."""
    desk.write(ALONE, services=services)
    (host,) = (await desk.apply()).hosts
    assert host["error"] is None
    desk.write({})
    (host,) = (await desk.apply()).hosts
    assert host["error"] is None
    assert windows.read_file(PROFILE) is None
    assert not await _has_ledger(windows)
    assert "Transom" not in windows.files()


async def test_what_people_write_stays(windows: Windows, desk: Desk) -> None:
    desk.write(ASKED)
    await desk.apply()
    windows.write_file(PROFILE, b"$a = 1\r\n" + (windows.read_file(PROFILE) or b"") + b"$b = 2\r\n")
    (host,) = (await desk.apply()).hosts
    assert host["result"] == "unchanged"
    desk.write({})
    await desk.apply()
    assert windows.read_file(PROFILE) == b"$a = 1\r\n$b = 2\r\n"


async def test_a_changed_block_is_corrected_and_left_on_removal(windows: Windows, desk: Desk) -> None:
    desk.write(ASKED)
    await desk.apply()
    ours = windows.read_file(PROFILE) or b""
    theirs = ours.replace(b"$false", b"$true")
    windows.write_file(PROFILE, theirs)
    (host,) = (await desk.apply()).hosts
    assert (host["result"], windows.read_file(PROFILE)) == ("changed", ours)
    windows.write_file(PROFILE, theirs)
    desk.write({})
    (host,) = (await desk.apply()).hosts
    assert (host["error"], windows.read_file(PROFILE)) == (None, theirs)
    assert not await _has_ledger(windows)


SIGNED = b"$a = 1\r\n# SIG # Begin signature block\r\n# MII\r\n# SIG # End signature block\r\n"


async def test_a_signed_profile_is_left_and_the_rest_is_done(windows: Windows, desk: Desk) -> None:
    windows.write_file(PROFILE, SIGNED)
    desk.write(ASKED)
    for _ in range(2):
        (host,) = (await desk.apply()).hosts
        assert PROFILE in host["error"]
        assert windows.read_file(PROFILE) == SIGNED
    assert host["changes"] == [], "the services have the proxy since the first pass"


@pytest.mark.parametrize("services", [[], ["recorder-a"]])
async def test_a_profile_that_a_program_holds_is_written_by_a_later_pass(
    simulated: Simulated, desk_of_simulated: Desk, services: list[str]
) -> None:
    """The ledger keeps the line until then, also where it would go as a whole."""
    desk, files = desk_of_simulated, simulated.host.files
    desk.write(ALONE, services=services)
    await desk.apply()
    written = simulated.read_file(PROFILE)
    handle = files.open(PROFILE, create=False)
    try:
        desk.write({})
        (host,) = (await desk.apply()).hosts
        assert PROFILE in host["error"]
        assert (simulated.read_file(PROFILE), await _has_ledger(simulated)) == (written, True)
    finally:
        handle.close()
    (host,) = (await desk.apply()).hosts
    assert host["error"] is None
    assert (simulated.read_file(PROFILE), await _has_ledger(simulated)) == (None, False)


async def test_a_profile_that_changes_meanwhile_is_not_overwritten(simulated: Simulated, desk_of_simulated: Desk) -> None:
    desk = desk_of_simulated
    desk.write(ASKED)

    def write_meanwhile() -> None:
        if any("change.cmd" in command for command in simulated.commands()):
            simulated.host.interlopers.clear()
            simulated.write_file(PROFILE, b"$a = 1\r\n")

    simulated.host.interlopers.add(write_meanwhile)
    (host,) = (await desk.apply()).hosts
    assert PROFILE in host["error"]
    assert simulated.read_file(PROFILE) == b"$a = 1\r\n"
    (host,) = (await desk.apply()).hosts
    assert host["error"] is None
    desk.write({})
    await desk.apply()
    assert simulated.read_file(PROFILE) == b"$a = 1\r\n"
