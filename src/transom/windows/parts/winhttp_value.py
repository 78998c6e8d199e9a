"""What WinHTTP's proxy is as a registry value: made of settings, and read by people. What the parts that set one share.

The value (REG_BINARY) is what `netsh winhttp set proxy` writes. Microsoft does not document its shape; it is known
from exports. Numbers are little-endian uint32, texts ASCII: 24, 0, access type (1 direct, 3 proxy), length and text of the
proxies, length and text of the bypass list.
"""

import struct
from typing import Final

from transom.proxy import url
from transom.proxy.clients.translation import translate
from transom.proxy.secret import REDACTED, Secret
from transom.proxy.settings import Egress
from transom.windows.registry.values import Value

VALUE: Final = "WinHttpSettings"
_VERSION: Final = 24
_DIRECT: Final = 1
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


def shown(value: Value) -> str | None:
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
