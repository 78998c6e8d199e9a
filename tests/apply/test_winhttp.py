"""WinHTTP's proxy on a host: set where it is asked for, kept, and put back with the proxy's end."""

from tests.apply.windows import SETTINGS, Desk, Windows

from transom.windows.host.queries import LEDGER
from transom.windows.parts.winhttp import KEY
from transom.windows.parts.winhttp_value import VALUE
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_binary

DIRECT = build_binary(bytes.fromhex("1800000000000000010000000000000000000000"))


async def test_set_and_put_back(windows: Windows, desk: Desk) -> None:
    await windows.edit([SetValue(KEY, VALUE, DIRECT)])
    desk.write({**SETTINGS, "windows": {"winHTTP": True}})
    (host,) = (await desk.apply()).hosts
    assert (host["result"], host["error"], host["warnings"]) == ("changed", None, [])
    assert host["channels"] <= 4
    (step,) = (step for step in host["changes"] if step["target"] == "WinHTTP proxy")
    assert (step["before"], "https=proxy.corp.example:3128" in step["after"]) == ("direct", True)
    value = (await windows.registry(KEY)).find_value(KEY, VALUE)
    assert value is not None
    assert b"proxy.corp.example:3128" in value.data
    assert b"hunter2" not in value.data
    (again,) = (await desk.apply()).hosts
    assert again["result"] == "unchanged"
    desk.write({})
    (host,) = (await desk.apply()).hosts
    assert host["error"] is None
    assert (await windows.registry(KEY)).find_value(KEY, VALUE) == DIRECT
    assert (await windows.registry(LEDGER)).find_key(LEDGER) is None
