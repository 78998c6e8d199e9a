"""What WinHTTP's proxy is as a registry value: made of settings, and read by people. What the parts that set one share.

The value (REG_BINARY) is what `netsh winhttp set proxy` writes. Microsoft does not document its shape; it is known
from exports. Numbers are little-endian uint32, texts ASCII: 24, 0, access type (1 direct, 3 proxy), length and text of the
proxies, length and text of the bypass list.
"""

import struct
from typing import Final

from transom.proxy import url
from transom.proxy.clients.translation import translate_list
from transom.proxy.secret import REDACTED, Secret
from transom.proxy.settings import Egress
from transom.windows.registry.values import Value

VALUE: Final = "WinHttpSettings"
_VERSION: Final = 24
_DIRECT: Final = 1
_PROXY: Final = 3
_NUMBER: Final = struct.Struct("<I")


def build_winhttp_value(egress: Egress) -> bytes | None:
    """Build the value for the proxies and the bypass list, without credentials; None if WinHTTP cannot use them.

    WinHTTP connects to a proxy with plain HTTP (Microsoft Learn, WINHTTP_PROXY_INFO): a proxy with an `https` URL is left
    out.
    """
    return _encode_value(_format_address(egress.http_proxy), _format_address(egress.https_proxy), egress)


def build_first_boot_value(egress: Egress) -> bytes | None:
    """Return the value for a machine without a login so far: `httpProxy` replaces an `httpsProxy` with TLS."""
    https = _format_address(egress.https_proxy)
    if https is None and egress.https_proxy:
        https = _format_address(egress.http_proxy)
    return _encode_value(_format_address(egress.http_proxy), https, egress)


def _encode_value(http: str | None, https: str | None, egress: Egress) -> bytes | None:
    proxies = [f"{scheme}={address}" for scheme, address in (("http", http), ("https", https)) if address is not None]
    if not proxies:
        return None
    texts = [text.encode("ascii") for text in (";".join(proxies), translate_list(egress.no_proxy, "ProxyOverride").text)]
    numbers = b"".join(map(_NUMBER.pack, (_VERSION, 0, _PROXY)))
    return numbers + b"".join(_NUMBER.pack(len(text)) + text for text in texts)


def _format_address(proxy: Secret | None) -> str | None:
    """Host and port without userinfo."""
    if not proxy:
        return None
    read = url.parse(proxy.reveal())
    if read.scheme != "http" or not read.host.isascii():
        return None
    host = f"[{read.host}]" if ":" in read.host else read.host
    return f"{host}:{read.port or 80}"


def format_winhttp_value(value: Value) -> str | None:
    """Format the value for people: `direct`, or proxies and bypass list without userinfo; None if it is malformed."""
    try:
        numbers = struct.unpack_from("<III", value.data)
        proxies, at = _read_string(value.data, 12)
        bypass, _ = _read_string(value.data, at)
    except (struct.error, UnicodeDecodeError):
        return None
    if numbers[2] == _DIRECT:
        return "direct"
    _, userinfo, rest = proxies.rpartition("@")
    shown_proxies = f"{REDACTED}@{rest}" if userinfo else proxies
    return f"{shown_proxies} bypass={bypass}" if bypass else shown_proxies


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    """Read the length-prefixed string at a position; return it and the position after it."""
    (length,) = _NUMBER.unpack_from(data, at)
    end = at + _NUMBER.size + length
    if end > len(data):
        raise struct.error
    return data[at + _NUMBER.size : end].decode("ascii"), end
