"""Credentials in URLs and lists that a command repeats: outputs and messages have `***` in their place."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from transom.proxy.secret import REDACTED, redact_userinfo, redact_variable

_AUTHORITY: Final = re.compile(r"://([^/?#\\]*)")
_PASSWORD_IN_TEXT: Final = re.compile(r"(?<=://)[^\s/@:]*:\S*@")
"""A user name and a password in a sentence; the password may hold any letter but a space."""


def mask_passwords(message: str) -> str:
    """Return a message with the user name and the password of each URL in it as `***`."""
    return _PASSWORD_IN_TEXT.sub(f"{REDACTED}@", message)


def mask_url(url: str) -> str:
    """Return what a person wrote for a URL, without its userinfo.

    An `@` in the path, as of an npm package, stays, unless it may be the end of a password with a `/` in it.
    """
    authority = _AUTHORITY.search(url)
    if authority is None:
        return f"{REDACTED}@{url.rpartition('@')[2]}" if "@" in url else url
    if "@" not in authority[1] and ":" not in authority[1]:
        return url
    if "@" not in url[authority.end() :]:
        return redact_userinfo(url)
    user = authority[1].rpartition("@")[0]
    # with an `@` on both sides of the `/`, the first one ends the userinfo
    return f"{url[: authority.start(1)]}{REDACTED}@{url[authority.start(1) + len(user) + 1 :]}" if user else redact_userinfo(url)


def find_userinfo(url: str) -> str:
    """Return the userinfo of a URL that `mask_url` changes; empty if it has none."""
    authority = _AUTHORITY.search(url)
    return authority[1].rpartition("@")[0] if authority else ""


def list_item_masks(texts: Iterable[str]) -> dict[str, str]:
    """Return the items of NO_PROXY lists that may hold a password, each with what to show in its place.

    A password may hold commas: what lies between an item with a `:` and a later one with an `@` is one URL.
    """
    from transom.proxy.no_proxy import is_ip

    masks: dict[str, str] = {}
    for text in texts:
        items = [item.strip() for item in text.split(",")]
        ends = [index for index, item in enumerate(items) if "@" in item]
        if not ends:
            continue
        starts = [index for index, item in enumerate(items) if ":" in item and not is_ip(item.partition("/")[0])]
        first = min([*starts, *ends])
        for item in items[first : ends[-1] + 1]:
            if item:
                masks[item] = redact_variable("HTTP_PROXY", item) if "@" in item else REDACTED
    return masks


def apply_masks(text: str, masks: Mapping[str, str]) -> str:
    """Return a text with each masked item in it replaced, the longest first."""
    for item in sorted(masks, key=len, reverse=True):
        text = text.replace(item, masks[item])
    return text
