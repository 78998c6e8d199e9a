"""WinHTTP's proxy: the value that Windows Update, Defender and the download of revocation lists read. A part of a host.

The registry value (REG_BINARY) is what `netsh winhttp set proxy` writes. Microsoft does not document its shape; it is known
from exports. Numbers are little-endian uint32, texts ASCII: 24, 0, access type (1 direct, 3 proxy), length and text of the
proxies, length and text of the bypass list.
"""

import struct
from collections.abc import Iterator
from typing import Final

from transom.proxy import url
from transom.proxy.clients.translation import translate
from transom.proxy.secret import REDACTED, Secret
from transom.proxy.settings import Egress
from transom.windows.parts.part import About, Assumption
from transom.windows.parts.registry_value import RegistryValue
from transom.windows.registry.registry import Edit, SetValue, Value, ValueType, binary

KEY: Final = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\Windows\CurrentVersion\Internet Settings\Connections"
VALUE: Final = "WinHttpSettings"
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
            "A WinHTTP proxy written into the registry holds for programs that start later, as one set by netsh",
            'Microsoft Learn, "WinHttpSetDefaultProxyConfiguration" (persistent, in the registry)',
            "set it by `transom userdata`'s script, `netsh winhttp show proxy`",
        ),
    ),
)
_VERSION: Final = 24
_DIRECT: Final = 1
_PROXY: Final = 3
_NUMBER: Final = struct.Struct("<I")


def wish(egress: Egress) -> Iterator[Edit]:
    """The value, where the settings ask for it and WinHTTP can use a proxy of theirs."""
    if egress.windows.win_http and (data := settings(egress)) is not None:
        yield SetValue(KEY, VALUE, binary(data))


def settings(egress: Egress) -> bytes | None:
    """The value for the proxies and the list of `egress`, without credentials; None where WinHTTP can use none of them.

    WinHTTP speaks plain HTTP to a proxy (Microsoft Learn, WINHTTP_PROXY_INFO): one with an `https` URL is left out.
    """
    proxies = [
        f"{scheme}={address}"
        for scheme, proxy in (("http", egress.http_proxy), ("https", egress.https_proxy))
        if (address := _address(proxy)) is not None
    ]
    if not proxies:
        return None
    texts = [text.encode("ascii") for text in (";".join(proxies), translate(egress.no_proxy, "ProxyOverride").text)]
    numbers = b"".join(map(_NUMBER.pack, (_VERSION, 0, _PROXY)))
    return numbers + b"".join(_NUMBER.pack(len(text)) + text for text in texts)


def proxy_for_https(egress: Egress) -> str | None:
    """Host and port of the proxy for https URLs, where plain HTTP is spoken to it; no credentials."""
    return _address(egress.https_proxy)


def _address(proxy: Secret | None) -> str | None:
    """Host and port without userinfo."""
    if not proxy:
        return None
    read = url.parse(proxy.reveal())
    if read.scheme != "http" or not read.host.isascii():
        return None
    host = f"[{read.host}]" if ":" in read.host else read.host
    return f"{host}:{read.port or 80}"


def _shown(value: Value) -> str | None:
    """The value for people: `direct`, or proxies and bypass list without userinfo; None where it has another shape."""
    try:
        numbers = struct.unpack_from("<III", value.data)
        proxies, at = _text(value.data, 12)
        bypass, _ = _text(value.data, at)
    except (struct.error, UnicodeDecodeError):
        return None
    if numbers[2] == _DIRECT:
        return "direct"
    _, userinfo, rest = proxies.rpartition("@")
    told = f"{REDACTED}@{rest}" if userinfo else proxies
    return f"{told} bypass={bypass}" if bypass else told


def _text(data: bytes, at: int) -> tuple[str, int]:
    """The text whose length stands at a place, and where what follows it begins."""
    (length,) = _NUMBER.unpack_from(data, at)
    end = at + _NUMBER.size + length
    if end > len(data):
        raise struct.error
    return data[at + _NUMBER.size : end].decode("ascii"), end


_SET: Final = RegistryValue(KEY, VALUE, ValueType.BINARY, "WinHTTP", TARGET, "spec.windows.winHTTP", _shown)
asks, more, read, lines, plan = _SET.asks, _SET.more, _SET.read, _SET.lines, _SET.plan
