"""WinHTTP's proxy: the value that Windows Update, Defender and the download of revocation lists read.

The registry value (REG_BINARY) is what `netsh winhttp set proxy` writes. Its shape is not documented by Microsoft; it is known
from exports: five little-endian uint32 round two ASCII texts: 24, 0, access type (1 direct, 3 proxy), length and text of the
proxies, length and text of the bypass list.
"""

import struct
from typing import Final

from transom.proxy import url
from transom.proxy.clients.translation import translate
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.ledger import Held, WinHttp
from transom.windows.registry import DeleteValue, Edit, NamedValue, SetValue, Value
from transom.windows.steps import Step

KEY: Final = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\Windows\CurrentVersion\Internet Settings\Connections"
VALUE: Final = "WinHttpSettings"
_TARGET: Final = "WinHTTP proxy"
_VERSION: Final = 24
_PROXY: Final = 3
_NUMBER: Final = struct.Struct("<I")


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


def merge(
    wanted: Value | None, held: NamedValue | None, entry: WinHttp | None
) -> tuple[WinHttp | None, tuple[Edit, ...], Step | None]:
    """The ledger's line, the edits and the step from what is on the host to what is wanted (None: nothing of ours).

    Nobody is restarted for it: its readers ask for it when they open a session. What a person changed since stays on removal.
    """
    if wanted is not None:
        before = entry.was if entry else Held.of(held.name, held.value) if held else None
        now = WinHttp(wanted.data.hex(), before)
        if held is not None and held.value == wanted:
            return now, (), None
        reason = "drift: somebody else changed it" if entry == now else "spec.windows.winHTTP"
        return now, (SetValue(KEY, VALUE, wanted),), Step("windows", _TARGET, "replace" if held else "add", reason)
    if entry is None:
        return None, (), None
    if held is None or held.value.data.hex() != entry.set:
        return None, (), Step("ledger", _TARGET, "remove", "somebody else changed it since: left as it is")
    reason = "spec.windows.winHTTP is not set"
    if entry.was is None:
        return None, (DeleteValue(KEY, held.name),), Step("windows", _TARGET, "remove", reason)
    return None, (SetValue(KEY, entry.was.name, entry.was.value()),), Step("windows", _TARGET, "replace", reason)


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
