"""The items of a list on which some client fails, or with which it sends every request past the proxy.

Each item has its effect alone, so each is evaluated between two items without an effect.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec

from transom.proxy.clients.client_table import CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.clients.profile import Source
from transom.proxy.no_proxy import is_harmless

NO_PROXY_CLIENTS: Final = tuple(
    name
    for name, client in CLIENTS.items()
    if client.language == "NO_PROXY" and client.passes and client.source is Source.ENVIRONMENT
)
"""The clients that read NO_PROXY at all."""
FILLER: Final = "filler.invalid"
_UNRELATED: Final = ("http://unrelated.invalid/", "https://no-relation.test/")
_PROBES: Final = (*_UNRELATED, "http://198.51.100.77/", "http://[2001:db8:ffff::77]/")


class Harm(msgspec.Struct, frozen=True):
    """What one item does to some clients. `position` counts from 1."""

    item: str
    position: int
    effect: Literal["fails", "everything"]
    clients: tuple[str, ...]
    reason: str

    @property
    def message(self) -> str:
        """What happens, in words that follow the item."""
        if self.effect == "everything":
            return "sends every request past the proxy"
        return f"makes every request fail: {self.reason}"


def find_harms(no_proxy: str, clients: Sequence[str] = NO_PROXY_CLIENTS) -> list[Harm]:
    """Return what the items of a list do to clients, in the order of the list. A list that is `*` is meant so."""
    texts = no_proxy.split(",")
    if no_proxy.strip() in ("", "*"):
        return []
    last = len(texts) - 1
    return [
        Harm(text.strip(), index + 1, effect, names, reason)
        for index, text in enumerate(texts)
        if not is_harmless(text)
        for effect, names, reason in find_item_harms(text, tuple(clients), first=index == 0, last=index == last)
    ]


def is_safe_for_all(items: Sequence[str]) -> bool:
    """Return True if no client fails on one of the items, or sends everything direct because of it."""
    return all(is_harmless(item) or not find_item_harms(item, NO_PROXY_CLIENTS, first=False, last=False) for item in items)


@lru_cache(maxsize=4096)
def find_item_harms(
    text: str, clients: tuple[str, ...], *, first: bool, last: bool
) -> tuple[tuple[Literal["fails", "everything"], tuple[str, ...], str], ...]:
    """Return each effect of the text between two commas with its clients and the reason; `first`, `last`: its place."""
    value = f"{'' if first else FILLER + ','}{text}{'' if last else ',' + FILLER}"
    fails: dict[str, str] = {}
    everything: list[str] = []
    for name in clients:
        decisions = [decide(CLIENTS[name], url, value) for url in _PROBES]
        failed = next((decision for decision in decisions if decision.bypass is None), None)
        if failed is not None:
            fails[name] = failed.reason.removeprefix("fails: ")
        elif all(decision.bypass for decision in decisions[: len(_UNRELATED)]):
            everything.append(name)
    harms: list[tuple[Literal["fails", "everything"], tuple[str, ...], str]] = []
    if fails:
        harms.append(("fails", tuple(fails), next(iter(fails.values()))))
    if everything:
        harms.append(("everything", tuple(everything), ""))
    return tuple(harms)
