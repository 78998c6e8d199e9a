"""spec.windows.restart: services restarted now, by the next boot, or when a person says so."""

from tests.apply.windows import SETTINGS, Desk, Windows

from transom.windows.host.queries import LEDGER

FIRST = "recorder-a"
PROXY = {key: value for key, value in SETTINGS.items() if key != "trustedCA"}


async def starts(windows: Windows) -> int:
    return len(await windows.environments(FIRST))


async def proxied(windows: Windows) -> bool:
    return "HTTPS_PROXY" in (await windows.environments(FIRST))[-1]


async def test_manual_waits_for_a_word(desk: Desk, windows: Windows) -> None:
    before = await starts(windows)
    desk.write({**PROXY, "windows": {"restart": "Manual"}})
    (host,) = (await desk.apply()).hosts
    assert (host["result"], host["restarted"], host["error"]) == ("changed", [], None)
    assert "transom.dev/restart" in host["warnings"][0]
    (again,) = (await desk.apply()).hosts
    assert again["result"] == "unchanged"
    assert await starts(windows) == before
    desk.annotations = {"transom.dev/restart": "now"}
    desk.write({**PROXY, "windows": {"restart": "Manual"}})
    (told,) = (await desk.apply()).hosts
    assert (told["restarted"], told["warnings"]) == (["recorder-a", "recorder-b"], [])
    assert await proxied(windows)


async def test_on_next_boot_waits_for_it(desk: Desk, windows: Windows) -> None:
    before = await starts(windows)
    desk.write({**PROXY, "windows": {"restart": "OnNextBoot"}})
    (host,) = (await desk.apply()).hosts
    assert (host["restarted"], host["error"], await starts(windows)) == ([], None, before)
    await windows.reboot()
    (settled,) = (await desk.apply()).hosts
    assert (settled["restarted"], settled["warnings"], settled["error"]) == ([], [], None)
    assert await proxied(windows)
    assert (await desk.apply()).hosts[0]["result"] == "unchanged"
    desk.write({"windows": {"restart": "OnNextBoot"}})
    await desk.apply()
    assert await proxied(windows)
    await windows.reboot()
    assert (await desk.apply()).code == 0
    assert not await proxied(windows)
    assert not len(await windows.registry(LEDGER))
