"""What is wrong with a proxy URL, with the character that is at fault and its escape; of a password nothing is shown."""

from collections.abc import Collection
from typing import Final

from transom.proxy.url import InvalidURL, escape, illegal_in_userinfo, parse, userinfo_part

_NEVER_IN_HOSTS: Final = "!\"$&'()*+,;<=>@"
"""Go takes these in a host; no DNS name has them."""


def examine(text: str, schemes: Collection[str]) -> list[str]:
    """The faults of a proxy URL; none for a valid one. `schemes` are those that are taken, in lower case."""
    fault = _userinfo_fault(text)
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
        faults.append("has a character in its host that may not stand there")
    if url.port and not 1 <= _number(url.port) <= 65535:
        faults.append("has a port that is not 1 to 65535")
    return faults


def has_userinfo(text: str) -> bool:
    """Whether there is a user name or password in it, well-formed or not."""
    return userinfo_part(text) is not None


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 9 else 1 << 31


def _userinfo_fault(text: str) -> str | None:
    part = userinfo_part(text)
    if part is None:
        return None
    bad = illegal_in_userinfo(text[slice(*part)])
    if bad is None:
        return None
    if bad == "%":
        return "has a `%` in its user name or password that is not followed by two hex digits: a `%` itself is written %25"
    if 0xD800 <= ord(bad) <= 0xDFFF:
        return "has half a UTF-16 surrogate pair in its user name or password"
    return f"has {_named(bad)} in its user name or password: write it as {escape(bad)}"


def _named(character: str) -> str:
    if character == " ":
        return "a blank"
    if not character.isprintable():
        return f"the control character U+{ord(character):04X}"
    return f"the character {character}" if character == "`" else f"the character `{character}`"
