"""reg.exe and the small programs."""

import pytest
from tests.winsim.consoles import booted, console

from transom.windows.host.queries import SERVICES
from transom.windows.registry import reg
from transom.windows.registry import reg as query
from transom.windows.registry.edits import CreateKey, DeleteValue, SetValue
from transom.windows.registry.values import (
    Value,
    ValueType,
    build_binary,
    build_dword,
    build_expand_sz,
    build_multi_sz,
    build_sz,
)
from winsim.host import Host

KEY = r"HKEY_LOCAL_MACHINE\SOFTWARE\Test"


async def host_with_values() -> Host:
    host = await booted()
    host.edit(
        [
            SetValue(KEY, "", build_sz("default")),
            SetValue(KEY, "A", build_sz("a b")),
            SetValue(KEY, "E", build_expand_sz("%x%")),
            SetValue(KEY, "M", build_multi_sz(["a", "b"])),
            SetValue(KEY, "D", build_dword(26)),
            SetValue(KEY, "B", build_binary(b"\1\xab")),
            SetValue(KEY, "Q", Value(ValueType.QWORD, (1).to_bytes(8, "little"))),
            CreateKey(KEY + r"\b"),
            CreateKey(KEY + r"\a\deep"),
        ]
    )
    return host


async def test_query_of_a_key() -> None:
    printed = await console(await host_with_values(), r"reg.exe query HKLM\software\test /reg:64")
    assert printed.output == (
        f"\n{KEY}\n    (Default)    REG_SZ    default\n    A    REG_SZ    a b\n    E    REG_EXPAND_SZ    %x%\n"
        "    M    REG_MULTI_SZ    a\\0b\n    D    REG_DWORD    0x1a\n    B    REG_BINARY    01AB\n    Q    REG_QWORD    0x1\n"
        f"\n{KEY}\\a\n{KEY}\\b\n"
    )
    assert query.parse_subkeys(printed.output.encode(), KEY) == ("a", "b")


async def test_query_of_a_value() -> None:
    host = await host_with_values()
    printed = await console(host, rf"reg.exe query {KEY} /v d")
    assert query.parse_number(printed.output.encode(), "D") == 26
    assert (await console(host, rf"reg.exe query {KEY} /v none")).code == 1
    assert (await console(host, rf"reg.exe query {KEY}\none")).code == 1


async def test_query_everywhere() -> None:
    host = await booted()
    host.edit(
        [
            SetValue(rf"{SERVICES}\kubelet", "DependOnService", build_multi_sz(["containerd", "RpcSs"])),
            CreateKey(rf"{SERVICES}\x"),
        ]
    )
    printed = await console(host, rf"reg.exe query {SERVICES} /s /v DependOnService")
    assert printed.code == 0
    assert query.parse_dependencies(printed.output.encode(), SERVICES) == {"kubelet": ("containerd", "RpcSs")}
    assert (await console(host, rf"reg.exe query {SERVICES} /s /v None")).code == 1


async def test_export_import_delete() -> None:
    host = await host_with_values()
    before = host.registry
    assert (await console(host, rf"reg.exe export {KEY} C:\out.reg /y /reg:64")).code == 0
    exported = reg.parse_export(host.files.read(r"C:\out.reg"))
    assert [key.path for key in exported] == [KEY, KEY + r"\a", KEY + r"\a\deep", KEY + r"\b"]
    assert (await console(host, rf"reg.exe export {KEY} C:\out.reg")).code == 1
    assert (await console(host, rf"reg.exe delete {KEY} /f")).code == 0
    assert host.registry.find_key(KEY) is None
    assert (await console(host, rf"reg.exe export {KEY} C:\out.reg /y")).code == 1
    assert reg.parse_export(host.files.read(r"C:\out.reg")) == exported
    assert (await console(host, r"reg.exe import C:\out.reg")).code == 0
    assert host.registry == before


async def test_a_damaged_import_does_what_it_can_and_says_nothing() -> None:
    host = await booted()
    whole = reg.render([SetValue(KEY, "A", build_sz("a")), SetValue(KEY, "B", build_sz("b")), DeleteValue(KEY, "A")])
    host.files.write(r"C:\cut.reg", whole[:-30])
    assert (await console(host, r"reg.exe import C:\cut.reg")).code == 0
    assert host.registry.find_value(KEY, "A") == build_sz("a")
    assert host.registry.find_value(KEY, "B") is None
    host.files.write(r"C:\not.reg", b"hunter2")
    assert (await console(host, r"reg.exe import C:\not.reg")).code == 1
    assert (await console(host, r"reg.exe import C:\none.reg")).code == 1


async def test_add_and_delete_of_values() -> None:
    host = await booted()
    assert (await console(host, rf'reg.exe add {KEY} /v "a b" /t REG_SZ /d running /f /reg:64')).code == 0
    assert (await console(host, rf"reg.exe add {KEY} /v n /t REG_DWORD /d 7 /f")).code == 0
    assert (await console(host, rf"reg.exe add {KEY} /v m /t REG_MULTI_SZ /d a\0b /f")).code == 0
    assert host.registry.find_value(KEY, "A B") == build_sz("running")
    assert host.registry.find_value(KEY, "n") == build_dword(7)
    assert host.registry.find_value(KEY, "m") == build_multi_sz(["a", "b"])
    assert (await console(host, rf'reg.exe add {KEY} /v "a b" /d other')).code == 1
    assert (await console(host, rf'reg.exe delete {KEY} /v "a b" /f')).code == 0
    assert (await console(host, rf'reg.exe delete {KEY} /v "a b" /f')).code == 1
    assert host.registry.find_value(KEY, "a b") is None
    assert (await console(host, rf"reg.exe delete {KEY} /va /f")).code == 0
    key = host.registry.find_key(KEY)
    assert key is not None
    assert not key.values


async def test_a_key_that_nobody_may_touch() -> None:
    host = await host_with_values()
    host.faults.denied = {KEY + r"\A"}
    for line in (rf"query {KEY}\a\deep", rf"export {KEY}\a C:\out.reg /y", rf"add {KEY}\a /v x /f", rf"delete {KEY}\a /f"):
        printed = await console(host, f"reg.exe {line}")
        assert (printed.code, printed.error) == (1, "ERROR: Access is denied.\n")
    await console(host, rf"reg.exe export {KEY} C:\out.reg /y")
    assert [key.path for key in reg.parse_export(host.files.read(r"C:\out.reg"))] == [KEY, KEY + r"\b"]
    host.files.write(
        r"C:\in.reg", reg.render([SetValue(KEY + r"\a", "x", build_sz("1")), SetValue(KEY + r"\b", "x", build_sz("1"))])
    )
    assert (await console(host, r"reg.exe import C:\in.reg")).code == 1
    assert host.registry.find_value(KEY + r"\a", "x") is None
    assert host.registry.find_value(KEY + r"\b", "x") == build_sz("1")


FINDS = [
    ('find.exe "B" C:\\f', 1, "\n---------- C:\\F\n"),
    ('find.exe /i "B" C:\\f', 0, "\n---------- C:\\F\nab 1\nbc\n"),
    ('find.exe /v "b" <C:\\f', 0, "cd\n"),
    ('find.exe /c "b" <C:\\f', 0, "2\n"),
    ("findstr.exe b C:\\f", 0, "ab 1\nbc\n"),
    ('findstr.exe /b "b c" C:\\f', 0, "bc\ncd\n"),
    ('findstr.exe /c:"b 1" C:\\f', 0, "ab 1\n"),
    ('findstr.exe /r "^.[cd]$" C:\\f', 0, "bc\ncd\n"),
    ("findstr.exe /v /i B C:\\f", 0, "cd\n"),
    ("findstr.exe x C:\\f", 1, ""),
    ('type C:\\f | find.exe "cd"', 0, "cd\n"),
]


@pytest.mark.parametrize(("line", "code", "output"), FINDS)
async def test_find_and_findstr(line: str, code: int, output: str) -> None:
    host = await booted()
    host.files.write(r"C:\f", b"ab 1\r\nbc\r\ncd\r\n")
    printed = await console(host, line)
    assert (printed.code, printed.output) == (code, output)


async def test_a_command_of_powershell_that_is_not_known() -> None:
    host = await booted()
    assert (await console(host, r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe -Command Get-Date")).code == 1
    assert host.unknown == ["powershell.exe"]


async def test_who_and_where() -> None:
    host = await booted()
    assert (await console(host, "hostname.exe")).output == "WIN-1\n"
    assert (await console(host, "whoami.exe")).output == "win-1\\administrator\n"


async def test_curl_does_what_the_host_was_told() -> None:
    host = await booted()
    assert (await console(host, "curl.exe -K C:\\f")).code == 6
    host.fetch = lambda call: 60 if call.arguments == ["-K", "C:\\f"] else 0
    assert (await console(host, "curl.exe -K C:\\f")).code == 60
