"""The proxy for programs without TLS or credentials for a proxy: WinHTTP, Windows PowerShell, the first boot of a machine."""

from collections.abc import Iterator
from typing import Final

import msgspec

from transom.proxy import url
from transom.proxy.clients.client_table import CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.secret import Secret

NO_CREDENTIALS: Final = "requires a password, which user data must not contain"
NO_TLS: Final = "is connected to by TLS, which Windows does not support before the first login"
NOT_ASCII: Final = "has a name that is not ASCII"
OTHER_PROXY: Final = "is another proxy than httpsProxy"


class PlainProxy(msgspec.Struct, frozen=True):
    """The proxy for https URLs: host and port, without credentials; empty for none.

    `problems` are the proxies that are set and cannot be used: the field (`httpsProxy`) and why.
    """

    address: str = ""
    problems: tuple[tuple[str, str], ...] = ()

    @property
    def is_missing(self) -> bool:
        """Return True if a proxy is set for https URLs, and none can be used."""
        return not self.address and bool(self.problems)


def select_plain_proxy(http_proxy: Secret | None, https_proxy: Secret | None) -> PlainProxy:
    """Return the proxy of `httpsProxy` for https URLs, else that of `httpProxy`: a proxy of HTTP has CONNECT for both.

    Where `httpsProxy` is not set, https URLs have no proxy.
    """
    if not https_proxy:
        return PlainProxy()
    problems: list[tuple[str, str]] = []
    for field, proxy in (("httpsProxy", https_proxy), ("httpProxy", http_proxy)):
        if not proxy:
            continue
        problem = find_plain_proxy_fault(proxy)
        if problem is None:
            return PlainProxy(format_plain_address(proxy), tuple(problems))
        problems.append((field, problem))
    return PlainProxy(problems=tuple(problems))


class WebProxy(msgspec.Struct, frozen=True):
    """The proxy of a program that has one for all URLs: host and port, without credentials; empty for none.

    `schemes` are those of the URLs that go to it. `problems` are the proxies of which it uses not all: the field and why.
    """

    address: str = ""
    schemes: tuple[str, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()


def select_web_proxy(http_proxy: Secret | None, https_proxy: Secret | None) -> WebProxy:
    """Return the proxy of `httpsProxy`, which then serves http URLs too if `httpProxy` is set, else that of `httpProxy`.

    .NET Framework connects to a proxy with plain HTTP (microsoft/referencesource ec9fa9ae, ServicePointManager.cs,
    FindServicePointHelper: net_proxyschemenotsupported): a proxy with an `https` URL is left out.
    """
    problems: list[tuple[str, str]] = []
    addresses: dict[str, str] = {}
    for scheme, proxy in (("https", https_proxy), ("http", http_proxy)):
        if not proxy:
            continue
        fault = find_plain_proxy_fault(proxy)
        if fault is not None:
            problems.append((f"{scheme}Proxy", fault))
        address = format_plain_address(proxy)
        if fault in (None, NO_CREDENTIALS) and address.isascii():
            addresses[scheme] = address
    if len(set(addresses.values())) > 1:
        problems.append(("httpProxy", OTHER_PROXY))
    return WebProxy(next(iter(addresses.values()), ""), tuple(addresses), tuple(problems))


def find_plain_proxy_fault(proxy: Secret) -> str | None:
    """Return why a program that has no credentials and no TLS for a proxy cannot use one; None if it can."""
    read = url.parse(proxy.reveal())
    if read.scheme != "http":
        return NO_TLS
    if read.username is not None:
        return NO_CREDENTIALS
    return None if read.host.isascii() else NOT_ASCII


def format_plain_address(proxy: Secret) -> str:
    """Return host and port of a proxy, without userinfo."""
    read = url.parse(proxy.reveal())
    host = f"[{read.host}]" if ":" in read.host else read.host
    return f"{host}:{read.port or 80}"


def is_exempt(address: str, no_proxy: str) -> bool:
    """Return True if NO_PROXY exempts a URL, as Go reads it."""
    return decide(CLIENTS["go"], address, no_proxy or None).bypass is True


def iter_unreachable_urls(proxy: PlainProxy, no_proxy: str, urls: tuple[str, ...]) -> Iterator[str]:
    """Yield the URLs that are neither exempt nor reached by a proxy that can be used."""
    if proxy.is_missing:
        yield from (item for item in urls if not is_exempt(item, no_proxy))
