"""The findings in a user's NO_PROXY list: items that are not valid, and valid ones that some clients misread or fail on."""

import ipaddress
import unicodedata
from collections.abc import Iterator
from typing import Final

from transom.proxy.finding import Finding, Path, Place, Severity
from transom.proxy.no_proxy import (
    ALL,
    BLANKS,
    MAX_ITEMS,
    NO_ITEM,
    find_item_fault,
    find_item_typo,
    find_prefix_length_fault,
    is_harmless,
    is_ipv6_network,
    suggest_item,
)

_WITHHELD: Final = (
    "is not an IP address, a CIDR or a lower-case domain name (it is not shown: the list has an `@`, and may hold a password)"
)
_INVISIBLE: Final = frozenset(("Cc", "Cf", "Zl", "Zp"))
"""Unicode categories of characters that editors do not show."""
_NO_BREAK_SPACES: Final = "\u00a0\u2007\u202f"


def examine_no_proxy(text: str, place: Place, path: Path) -> Iterator[Finding]:
    """Everything that is wrong with a list. A list with an `@` may hold a password: nothing of it is shown then."""
    if text.strip(BLANKS) == ALL or not text:
        return
    if text.count(",") >= MAX_ITEMS:
        yield place.build_error(
            path, f"has {text.count(',') + 1:,} items: at most {MAX_ITEMS:,} are allowed; use CIDRs and domains"
        )
        return
    secret = "@" in text
    start = 0
    for index, raw in enumerate(text.split(","), 1):
        item = raw.strip(BLANKS)
        left = start + len(raw) - len(raw.lstrip(BLANKS))
        start += len(raw) + 1
        fault = _find_item_fault(item)
        if fault is None:
            continue
        severity, reason = fault
        if secret:
            reason = _WITHHELD
        name = f"item {index}" if secret or not item else f"item {index} `{_shorten_item(item)}`"
        report = place.build_error if severity == "error" else place.build_warning
        shown, span = (None, None) if secret else (text, (left, left + max(1, len(item))))
        yield report(path, f"{name} {reason}", shown, span)


def _shorten_item(item: str) -> str:
    kept = item if len(item) <= 80 else item[:77] + "…"
    return "".join(c if c.isprintable() else "·" for c in kept)


def _find_item_fault(item: str) -> tuple[Severity, str] | None:
    fault = find_item_fault(item)
    if fault == NO_ITEM:
        if reason := find_prefix_length_fault(item) or _find_invisible_character(item):
            return "error", reason
        instead = suggest_item(item) or _encode_idn(item)
        if ";" in item or any(character.isspace() for character in item):
            return "error", f"{NO_ITEM[1]}: items are separated by a comma alone"
        return "error", NO_ITEM[1] + (f": write `{instead}`" if instead else "")
    if fault is None and (typo := find_item_typo(item)) is not None and not _is_ipv4_mapped(item):
        return "warning", typo + (_format_range_hint(item) if "-" in item else "")
    if fault is not None or (is_harmless(item) and not _is_ipv4_mapped(item)):
        # most lists have no other item, and an operator need not hold the profiles of all clients
        return fault
    return _find_go_difference(item) or _find_harm(item)


def _find_invisible_character(item: str) -> str | None:
    for character in item:
        is_invisible = unicodedata.category(character) in _INVISIBLE or character in _NO_BREAK_SPACES
        if is_invisible and not (character.isascii() and character.isspace()):
            return f"has the invisible character U+{ord(character):04X}: delete it"
    return None


def _encode_idn(item: str) -> str | None:
    """Return the ASCII form of a name with other letters; None if it is not a valid name."""
    if item.isascii():
        return None
    from transom.proxy.clients.urls import Idn, UnreadableHostError, to_idn

    try:
        name = to_idn(item.removeprefix("*"), Idn.ASCII)
    except UnreadableHostError:
        return None
    return name if find_item_fault(name) is None else None


def _format_range_hint(item: str) -> str:
    from transom.proxy.clients.meaning import parse_no_proxy_item

    forms = parse_no_proxy_item(item).forms
    networks = next((form for form in forms if all("/" in network for network in form)), ())
    return f", such as `{','.join(networks)}`" if networks else ""


def _is_ipv4_mapped(item: str) -> bool:
    """Return True for an IPv4 address or network in IPv6 form."""
    return ":" in item and ipaddress.IPv6Address(item.partition("/")[0]).ipv4_mapped is not None


def _find_go_difference(item: str) -> tuple[Severity, str] | None:
    """Return how Go, in which kubelet and containerd are written, misreads a valid item; or None."""
    if not (item.endswith(".") or _is_ipv4_mapped(item)):
        return None
    from transom.proxy.clients.lint import judge_item

    for entry in judge_item(item, {item}, ("go",)):
        instead = f"; write `{entry.instead}`" if entry.instead else ""
        return "warning", f"is read otherwise by kubelet and containerd: {entry.problem}{instead}"
    return None


def _find_harm(item: str) -> tuple[Severity, str] | None:
    """Return the harm of a valid item for clients of pods and nodes that fail on it or send everything direct.

    IPv6 networks are exempt: clients that fail on them run in pods, which do not get them (`pods_list`), and nodes need
    them.
    """
    if is_ipv6_network(item):
        return None
    from transom.proxy.clients.harms import find_harms

    for harm in find_harms(item):
        return "warning", f"{harm.message} ({', '.join(harm.clients)})"
    return None
