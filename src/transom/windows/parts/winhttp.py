"""WinHTTP's proxy: the value that Windows Update, Defender and the download of revocation lists read. A part of a host."""

from collections.abc import Iterator
from typing import Final

from transom.proxy.settings import Egress
from transom.windows.parts.part import About, Assumption
from transom.windows.parts.registry_value import RegistryValue
from transom.windows.parts.winhttp_value import VALUE, build_winhttp_value, format_winhttp_value
from transom.windows.registry.edits import Edit, SetValue
from transom.windows.registry.values import ValueType, build_binary

KEY: Final = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\Windows\CurrentVersion\Internet Settings\Connections"
TARGET: Final = "WinHTTP proxy"
ABOUT: Final = About(
    "WinHTTP's proxy",
    "a proxy without credentials",
    "every local user",
    (
        Assumption(
            f"WinHTTP's `{VALUE}` is five little-endian numbers (24, 0, access type, two lengths) round the proxies and the "
            "bypass list",
            "not documented; known from exports",
            '`netsh winhttp set proxy proxy-server="http=p:3128" bypass-list="a;b"`, then `reg query '
            rf'"{KEY.replace("HKEY_LOCAL_MACHINE", "HKLM")}" /v {VALUE}`',
        ),
        Assumption(
            "A WinHTTP proxy written into the registry applies to programs that start later, as one set by netsh",
            'Microsoft Learn, "WinHttpSetDefaultProxyConfiguration" (persistent, in the registry)',
            "set it by `transom userdata`'s script, `netsh winhttp show proxy`",
        ),
    ),
)


def iter_desired_edits(egress: Egress) -> Iterator[Edit]:
    """Yield the value, if the settings enable it and WinHTTP can use one of their proxies."""
    if egress.windows.win_http and (data := build_winhttp_value(egress)) is not None:
        yield SetValue(KEY, VALUE, build_binary(data))


_SET: Final = RegistryValue(KEY, VALUE, ValueType.BINARY, "WinHTTP", TARGET, "spec.windows.winHTTP", format_winhttp_value)
build_initial_queries, build_follow_up_queries, read, iter_ledger_values, plan = (
    _SET.build_initial_queries,
    _SET.build_follow_up_queries,
    _SET.read,
    _SET.iter_ledger_values,
    _SET.plan,
)
