"""Credentials in URLs and lists that a command repeats: outputs and messages have `***` in their place."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from transom.proxy.secret import REDACTED, redact_userinfo, redact_variable

_WORD: Final = re.compile(r"\S+")
_USER: Final = re.compile(r"(:/{1,2})[^/@:]*:")
"""What precedes a password in a URL. A path has one slash of `://`."""


def mask_passwords(message: str) -> str:
    """Return a message with the user name and the password of each URL in it as `***`.

    A password may hold any character but a space. The time is linear in the length: a message may quote a stranger.
    """
    return _WORD.sub(_mask_word, message) if "@" in message else message


def _mask_word(match: re.Match[str]) -> str:
    before, at, after = match[0].rpartition("@")
    user = _USER.search(before) if at else None
    return match[0] if user is None else f"{before[: user.start()]}{user[1]}{REDACTED}@{after}"


def mask_url(url: str) -> str:
    """Return a URL without its userinfo, whether it is valid or not.

    An `@` behind the host, as of an npm package, stays, unless a password with a `/` may end there.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return redact_variable("HTTP_PROXY", url)
    authority = _get_authority(url)
    userinfo, at, _ = authority.rpartition("@")
    if at:
        return f"{scheme}://{REDACTED}@{rest[len(userinfo) + 1 :]}"
    return redact_userinfo(url) if ":" in authority else url


def mask_url_in_text(text: str, url: str) -> str:
    """Return a string about a URL without the userinfo of that URL, in whatever case the text has it."""
    userinfo = _get_authority(url).rpartition("@")[0]
    if userinfo:
        text = re.sub(re.escape(f"{userinfo}@"), f"{REDACTED}@", text, flags=re.IGNORECASE)
    return mask_passwords(text)


def _get_authority(url: str) -> str:
    return re.split(r"[/?#\\]", url.partition("://")[2], maxsplit=1)[0]


def list_item_masks(texts: Iterable[str]) -> dict[str, str]:
    """Return the items of NO_PROXY lists that may hold a password, each with what to show in its place.

    A password may hold commas: from an item with a `:` to a later one with an `@`, all is masked.
    """
    from transom.proxy.no_proxy import is_ip

    masks: dict[str, str] = {}
    for text in texts:
        items = [item.strip() for item in text.split(",")]
        ends = [index for index, item in enumerate(items) if "@" in item]
        starts = [index for index, item in enumerate(items) if ":" in item and not is_ip(item.partition("/")[0])]
        if not ends or not starts:
            continue
        for item in items[starts[0] : ends[-1] + 1]:
            if item:
                masks[item] = mask_url(item) if "@" in item else REDACTED
    return masks


def apply_masks(text: str, masks: Mapping[str, str]) -> str:
    """Return a string with each masked item in it replaced."""
    if not masks:
        return text
    # the longest first: one item may be a part of another
    items = sorted(masks, key=len, reverse=True)
    lowered = {item.lower(): masks[item] for item in items}
    return re.sub("|".join(map(re.escape, items)), lambda match: lowered[match[0].lower()], text, flags=re.IGNORECASE)
