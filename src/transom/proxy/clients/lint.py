"""The items of a NO_PROXY list that some clients ignore, over-match or choke on, and a safer form.

The verdict on an item and the choice of the form both come from evaluating the profiles on the URLs of the item's meaning.
A form is proposed only if, over all profiles of NO_PROXY,

- whatever a client bypasses with the item, of what is wanted or allowed, it bypasses with the form (never less);
- whatever it bypasses with the form is wanted or allowed, or it bypasses that with the item too, or with the plain spelling of
  the same name (and nothing else);
- no client fails with the form that does not fail with the item;

and if fewer of the judged clients miss what is wanted.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from transom.proxy.clients import CLIENTS, NODE_CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.clients.meaning import Meaning, read_meaning
from transom.proxy.clients.profile import Source

NO_PROXY_CLIENTS = tuple(
    name
    for name, client in CLIENTS.items()
    if client.language == "NO_PROXY" and client.passes and client.source is Source.ENVIRONMENT
)
"""The clients that read NO_PROXY at all."""

_FILLER = "filler.invalid"
_PLAIN = re.compile(r"(\*?\.)?((?:[a-z](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]+)")
_STANDS_FOR = "stands-for.example"


class LintFinding(msgspec.Struct, frozen=True):
    """What is wrong with one item.

    `position` counts from 1. `instead` is what to write in its place, a list of items: "" to leave it out, `None` when no form
    is safer.
    """

    item: str
    position: int
    clients: tuple[str, ...]
    problem: str
    instead: str | None


class LintResult(msgspec.Struct, frozen=True):
    """One problem of an item, before it has a place in a list."""

    clients: tuple[str, ...]
    problem: str
    instead: str | None


def lint(items: Sequence[str] | str, clients: Sequence[str] = NODE_CLIENTS) -> list[LintFinding]:
    """Find such items in a list: `items` is the value of NO_PROXY, or what stands between its commas.

    Raises `KeyError` for a client that has no profile. Clients that do not read NO_PROXY have no opinion.
    """
    texts = items.split(",") if isinstance(items, str) else list(items)
    judged = tuple(name for name in clients if CLIENTS[name].name in NO_PROXY_CLIENTS)
    if not any(text.strip() for text in texts):
        return []
    present = {text.strip() for text in texts}
    findings: list[LintFinding] = []
    for index, text in enumerate(texts):
        first, last = index == 0, index == len(texts) - 1
        if last and not text.strip():
            continue
        findings.extend(
            LintFinding(text.strip(), index + 1, verdict.clients, verdict.problem + _separators(text), verdict.instead)
            for verdict in _judge(text, present, judged, first=first, last=last)
        )
    return findings


def _judge(text: str, present: set[str], judged: tuple[str, ...], *, first: bool, last: bool) -> Iterator[LintResult]:
    meaning = read_meaning(text)
    companions = tuple(sorted(piece for piece in meaning.pieces if piece in present and piece != text.strip()))
    plain = _PLAIN.fullmatch(text)
    if plain is None:
        yield from _assess(text, companions, judged, first=first, last=last)
        return
    # All plain names are read alike, so one of them stands for all: 10,000 items take as long as a few.
    name = plain[2]
    stand_in = _STANDS_FOR
    swapped = tuple(piece.replace(name, stand_in) for piece in companions)
    for verdict in _assess(text.replace(name, stand_in), swapped, judged, first=first, last=last):
        instead = verdict.instead.replace(stand_in, name) if verdict.instead is not None else None
        yield LintResult(verdict.clients, verdict.problem.replace(stand_in, name), instead)


@lru_cache(maxsize=4096)
def _assess(
    text: str, companions: tuple[str, ...], judged: tuple[str, ...], *, first: bool, last: bool
) -> tuple[LintResult, ...]:
    meaning = read_meaning(text)
    before = "" if first else f"{_FILLER},"
    after = "" if last else f",{_FILLER}"
    value = ",".join((f"{before}{text}{after}", *companions))
    item = text.strip()
    urls = (*meaning.wanted, *meaning.outside)
    seen = {name: {url: _bypasses(name, url, value) for url in urls} for name in judged}
    fails = tuple(name for name in judged if any(result is None for result in seen[name].values()))
    working = [name for name in judged if name not in fails]
    ignores = tuple(name for name in working if meaning.wanted and not any(seen[name][url] for url in meaning.wanted))
    partial = tuple(name for name in working if name not in ignores and not all(seen[name][url] for url in meaning.wanted))
    over = tuple(
        name for name in working if any(seen[name][url] for url in meaning.outside if not _bypasses(name, url, _FILLER))
    )
    useless = False
    if not meaning.wanted and item:
        ignores = tuple(working)
        useless = True
    if not (fails or ignores or partial or over):
        return ()
    misses = sum(not seen[name][url] for name in judged for url in meaning.wanted) + len(over) + len(fails) + useless
    instead = _choose(value, meaning, companions, judged, misses, before, after)
    verdicts: list[LintResult] = []
    if fails:
        reason = _fails(fails[0], urls, value)
        verdicts.append(LintResult(fails, f"every request fails: {reason}", instead))
    if ignores:
        what = "it is ignored" if meaning.wanted else f"it means {meaning.says}"
        verdicts.append(LintResult(ignores, what + _hint(item, meaning), instead))
    if partial:
        missing = next(url for url in meaning.wanted if not seen[partial[0]][url])
        verdicts.append(LintResult(partial, f"it does not cover all that it means: {missing} goes through the proxy", instead))
    if over:
        extra = _grown(over[0], meaning, value)
        verdicts.append(LintResult(over, f"it covers more than it means: {extra} bypasses the proxy", instead))
    return tuple(verdicts)


def _separators(text: str) -> str:
    """What stands about an item, or in it, that cannot be seen or is taken for a comma."""
    sides = [side for side, bare in (("before", text.lstrip()), ("behind", text.rstrip())) if bare != text]
    blank = f" (a blank stands {' and '.join(sides)} it: take it out)" if sides and text.strip() else ""
    return blank + (" (; separates nothing here: write a comma)" if ";" in text else "")


def _hint(item: str, meaning: Meaning) -> str:
    if item == "*":
        return "; * counts, at most, as the whole value: to bypass every host, set no proxy"
    if not meaning.wanted:
        return ""
    if "/" in item and meaning.says.startswith("the addresses"):
        return "; list the addresses that matter for them" if not meaning.forms else ""
    return ""


def _bypasses(name: str, url: str, value: str) -> bool | None:
    return decide(CLIENTS[name], url, value).bypass


def _grown(name: str, meaning: Meaning, value: str) -> str | None:
    """The first URL that is not meant and bypasses the proxy because of the list."""
    return next((url for url in meaning.outside if _bypasses(name, url, value) and not _bypasses(name, url, _FILLER)), None)


def _fails(name: str, urls: tuple[str, ...], value: str) -> str:
    for url in urls:
        decision = decide(CLIENTS[name], url, value)
        if decision.bypass is None:
            return decision.reason.removeprefix("fails: ")
    return ""


def _choose(
    value: str,
    meaning: Meaning,
    companions: tuple[str, ...],
    judged: tuple[str, ...],
    misses: int,
    before: str,
    after: str,
) -> str | None:
    """The form with the fewest misses that is safe in all profiles; `None` when none is better than the item."""
    best: str | None = None
    for form in meaning.forms:
        text = ",".join(form)
        whole = ",".join(filter(None, (before.rstrip(","), text, after.lstrip(","), *companions)))
        if whole == value:
            continue
        left = 0
        for name in judged:
            left += sum(not _bypasses(name, url, whole) for url in meaning.wanted)
            left += _grown(name, meaning, whole) is not None
        if left < misses and _is_safe(meaning, value, whole):
            best, misses = text, left
    return best


def _is_safe(meaning: Meaning, value: str, form: str) -> bool:
    inside = (*meaning.wanted, *meaning.allowed)
    for name in NO_PROXY_CLIENTS:
        for url in inside:
            before, after = _bypasses(name, url, value), _bypasses(name, url, form)
            if (before and not after) or (before is not None and after is None):
                return False
        for url in meaning.outside:
            grown = _bypasses(name, url, form) and _bypasses(name, url, value) is False
            if grown and not (meaning.plain and _bypasses(name, url, meaning.plain)):
                return False
    return True
