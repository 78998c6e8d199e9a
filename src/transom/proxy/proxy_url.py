"""What is wrong with a proxy URL, with the character that is at fault and its escape; of a password nothing is shown."""

from collections.abc import Collection
from typing import Final

from transom.proxy.url import InvalidURL, escape, find_illegal_character, find_userinfo, parse

_QUOTES: Final = "\"'“”„‘’‚«»`"
_NEVER_IN_HOSTS: Final = "!\"$&'()*+,;<=>@"
"""Go takes these in a host; no DNS name has them."""


def list_url_faults(text: str, schemes: Collection[str]) -> list[str]:
    """List the faults of a proxy URL; none for a valid one. `schemes` are the valid schemes, in lower case."""
    if text[:1] in _QUOTES or text[-1:] in _QUOTES:
        return ["has quotes around it: take them out, or write straight ones around the whole value"]
    fault = _find_userinfo_fault(text)
    if fault:
        return [fault]
    try:
        url = parse(text)
    except InvalidURL as error:
        return [f"is not a URL that Go reads: {error}"]
    if url.scheme not in schemes or not url.absolute:
        wanted = " or ".join(f"{scheme}://" for scheme in schemes)
        return [f"must begin with {wanted}, for example http://proxy.example.com:3128"]
    faults = []
    if not url.host:
        faults.append("has no host: write it as http://proxy.example.com:3128")
    elif any(character.isspace() or character in _NEVER_IN_HOSTS for character in url.host):
        faults.append("has an invalid character in its host")
    if url.port and not 1 <= _parse_number(url.port) <= 65535:
        faults.append("has a port that is not 1 to 65535")
    return faults


def find_ignored_part(text: str) -> str | None:
    """Return what of a valid proxy URL clients ignore, and what may have been meant; None if nothing is ignored."""
    path = parse(text).rest
    if path.partition("?")[0].lower().endswith((".pac", ".dat")):
        return "is the URL of a PAC file, which services do not read: write the URL of the proxy that it names"
    return "has a path, which clients ignore: a proxy is a host and a port" if path.strip("/") else None


def has_credentials(text: str) -> bool:
    """Return True if a valid proxy URL names a user or a password, and not only the `@` behind them."""
    url = parse(text)
    return any(part is not None and part.reveal() for part in (url.username, url.password))


def has_userinfo(text: str) -> bool:
    """Return True if it has a user name or password, well-formed or not."""
    return find_userinfo(text) is not None


def _parse_number(digits: str) -> int:
    return int(digits) if len(digits) < 9 else 1 << 31


def _find_userinfo_fault(text: str) -> str | None:
    part = find_userinfo(text)
    if part is None:
        return None
    bad = find_illegal_character(text[slice(*part)])
    if bad is None:
        return None
    if bad == "%":
        return "has a `%` in its user name or password that is not followed by two hex digits: a `%` itself is written %25"
    if 0xD800 <= ord(bad) <= 0xDFFF:
        return "has half a UTF-16 surrogate pair in its user name or password"
    return f"has {_describe_character(bad)} in its user name or password: write it as {escape(bad)}"


def _describe_character(character: str) -> str:
    if character == " ":
        return "a space"
    if not character.isprintable():
        return f"the control character U+{ord(character):04X}"
    return f"the character {character}" if character == "`" else f"the character `{character}`"
