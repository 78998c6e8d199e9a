"""WinHTTP's proxy: the value that Windows Update, Defender and the download of revocation lists read. A part of a host.

The registry value (REG_BINARY) is what `netsh winhttp set proxy` writes. Microsoft does not document its shape; it is known
from exports. Numbers are little-endian uint32, texts ASCII: 24, 0, access type (1 direct, 3 proxy), length and text of the
proxies, length and text of the bypass list.
"""

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from transom.proxy import url
from transom.proxy.clients.translation import translate
from transom.proxy.secret import REDACTED, Secret
from transom.proxy.settings import Egress
from transom.windows.host import entries
from transom.windows.host.entries import FormerValue
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.host.state import Action, DesiredState, Step
from transom.windows.parts.part import About, Assumption
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry.registry import DeleteValue, Edit, NamedValue, Registry, SetValue, Value, ValueType, binary

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
_LINE: Final = "WinHTTP"
"""The value of the ledger's own key."""
_VERSION: Final = 24
_DIRECT: Final = 1
_PROXY: Final = 3
_NUMBER: Final = struct.Struct("<I")


class WinHttp(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ledger's entry: the data that was set, in hex (there is no credential in it), and the value before.

    `former` is the data of ours that was there when it was set: an import that is cut short leaves it.
    """

    set: str
    former: str = ""
    was: FormerValue | None = None


def wish(egress: Egress) -> Iterator[Edit]:
    """The value, where the settings ask for it and WinHTTP can use a proxy of theirs."""
    if egress.windows.win_http and (data := settings(egress)) is not None:
        yield SetValue(KEY, VALUE, binary(data))


def asks(desired: DesiredState, *, change_expected: bool) -> Queries:
    """The key, where it is wished for."""
    return Queries(keys=(KEY,) if desired.registry.key(KEY) is not None else ())


def more(entry: WinHttp | None, draft: PlanBuilder) -> Queries:
    """The key, where something of ours is in it."""
    return Queries(keys=(KEY,) if entry is not None else ())


def read(registry: Registry) -> WinHttp | None:
    """The ledger's entry."""
    key = registry.key(LEDGER)
    return entries.entry(key, _LINE, WinHttp) if key is not None and key.get(_LINE) is not None else None


def lines(entry: WinHttp | None) -> Iterator[SetValue]:
    """The entry as a value."""
    if entry is not None:
        yield entries.line(LEDGER, _LINE, entry)


def plan(entry: WinHttp | None, draft: PlanBuilder) -> WinHttp | None:
    """Sets the value, or puts back what was there before."""
    wanted, key = draft.desired.registry.value(KEY, VALUE), draft.actual.registry.key(KEY)
    present = key.named(VALUE) if key else None
    entry, edits, step = merge(wanted, present, entry)
    draft.edits += edits
    draft.steps += [step] if step else []
    return entry


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
    wanted: Value | None, present: NamedValue | None, entry: WinHttp | None
) -> tuple[WinHttp | None, tuple[Edit, ...], Step | None]:
    """The ledger's line, the edits and the step from what is on the host to what is wanted (None: nothing of ours).

    Nobody is restarted for it: its readers ask for it when they open a session. What a person changed since stays on removal.
    """
    ours = entry is not None and present is not None and _is_ours(present.value, entry)
    if wanted is not None:
        now = wanted.data.hex()
        if entry is not None and present is not None and present.value == wanted:
            return msgspec.structs.replace(entry, set=now) if ours else entry, (), None
        before = entry.was if entry else FormerValue.of(present.name, present.value) if present else None
        if present is not None and present.value == wanted:
            return WinHttp(now, was=before), (), None
        former = present.value.data.hex() if present and ours else entry.set if entry else ""
        reason = "spec.windows.winHTTP" if entry is None or ours else "drift: somebody else changed it"
        action: Action = "replace" if present else "add"
        step = Step("windows", TARGET, action, reason, _shown(present.value if present else None), _shown(wanted))
        return WinHttp(now, former, before), (SetValue(KEY, VALUE, wanted),), step
    if entry is None:
        return None, (), None
    if present is None or not ours:
        return None, (), Step("ledger", TARGET, "remove", "somebody else changed it since: left as it is")
    reason = "spec.windows.winHTTP is not set"
    told = _shown(present.value)
    if entry.was is None:
        return None, (DeleteValue(KEY, present.name),), Step("windows", TARGET, "remove", reason, told)
    back = entry.was.value()
    return None, (SetValue(KEY, entry.was.name, back),), Step("windows", TARGET, "replace", reason, told, _shown(back))


def _shown(value: Value | None) -> str | None:
    """The value for people: `direct`, or proxies and bypass list without userinfo; None where it has another shape."""
    if value is None:
        return None
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


def _is_ours(value: Value, entry: WinHttp) -> bool:
    return value.type == ValueType.BINARY and value.data.hex() in (entry.set, entry.former)


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
