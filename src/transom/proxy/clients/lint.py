"""The items of a NO_PROXY list that some clients ignore, over-match or choke on, and a safer form.

Three things are looked for in each item, and the worst counts as its level:

- rules on the list itself, the same that `validate` has (`transom.proxy.no_proxy`);
- clients that fail on the item or send everything direct because of it, for any checked client (`harms`);
- checked clients that ignore the item, cover less than it means, or more.

The verdict on an item and the choice of the form both come from evaluating the profiles on the URLs of the item's meaning.
A form is proposed only if `validate` takes it, no client fails with it, and over all profiles of NO_PROXY but those that read
regular expressions,

- whatever a client bypasses with the item, of what is wanted or allowed, it bypasses with the form (never less, but where some
  client fails on the item);
- whatever it bypasses with the form is wanted or allowed, or it bypasses that with the item too, or with a plain spelling of
  the same name (and nothing else);

and if fewer of the judged clients miss what is wanted.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec

from transom.proxy import no_proxy
from transom.proxy.clients.client_table import CLIENTS, NODE_CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.clients.harms import FILLER, NO_PROXY_CLIENTS, find_item_harms, is_safe_for_all
from transom.proxy.clients.meaning import ItemMeaning, is_host_name, parse_no_proxy_item
from transom.proxy.clients.profile import Items

Level = Literal["error", "warning", "note"]
"""`error`: a client fails, everything bypasses the proxy, no client reads it, or `validate` rejects it. `warning`: a safer form
exists. `note`: no form is safer, or the form covers more than the item may mean."""
SAFE_CLIENTS: Final = tuple(
    name
    for name in NO_PROXY_CLIENTS
    if not any(walk.items in (Items.AWS_PATTERNS, Items.AZURE_PATTERNS) for walk in CLIENTS[name].passes)
)
"""Those to which no form does harm. Where items are regular expressions, no spelling is right that is right elsewhere."""

_PLAIN: Final = re.compile(r"(\*?\.)?((?:(?!xn--)[a-z](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]+)")
_STANDS_FOR: Final = "stands-for.example"
_LONG_NAME: Final = 250
_NETWORK: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.[0-9]{1,3}\.[0-9]{1,3}/(8|9|1[0-9]|2[0-8])")
_OWN_NETWORKS: Final = ("0", "127", "169")
"""Where these begin, some clients have rules of their own (loopback, link-local)."""
_INTERNAL: Final = ("svc", "local", "internal")


class LintFinding(msgspec.Struct, frozen=True):
    """What is wrong with one item.

    `position` counts from 1. `instead` is what to write in its place, a list of items: "" to leave it out, `None` when no form
    is safer. `clients` is empty where no client that is known minds.
    """

    item: str
    position: int
    clients: tuple[str, ...]
    problem: str
    instead: str | None
    level: Level = "warning"


class LintResult(msgspec.Struct, frozen=True):
    """One problem of an item, before it has a place in a list."""

    clients: tuple[str, ...]
    problem: str
    instead: str | None
    level: Level = "warning"


def lint(items: Sequence[str] | str, clients: Sequence[str] = NODE_CLIENTS) -> list[LintFinding]:
    """Find such items in a list: `items` is the value of NO_PROXY, or what stands between its commas.

    Raises `KeyError` for a client that has no profile. Clients that do not read NO_PROXY have no opinion.
    """
    texts = items.split(",") if isinstance(items, str) else list(items)
    judged = tuple(name for name in clients if CLIENTS[name].name in NO_PROXY_CLIENTS)
    if not any(text.strip() for text in texts):
        return []
    present = {text.strip() for text in texts}
    alone = len(texts) == 1
    findings: list[LintFinding] = []
    for index, text in enumerate(texts):
        first, last = index == 0, index == len(texts) - 1
        results = list(_find_item_results(text, present, judged, first=first, last=last))
        if alone and text.strip() == no_proxy.ALL:
            # a list that is `*` is meant so
            results = [msgspec.structs.replace(result, level="note") for result in results]
        findings.extend(
            LintFinding(text.strip(), index + 1, result.clients, result.problem, result.instead, result.level)
            for result in results
        )
    return findings


def _find_item_results(
    text: str, present: set[str], client_names: tuple[str, ...], *, first: bool, last: bool
) -> Iterator[LintResult]:
    plain = _PLAIN.fullmatch(text)
    if plain is not None and plain[1] != "*." and len(text) < _LONG_NAME:
        # neither the rules nor a client that fails have anything to say of it
        yield from judge_item(text, present, client_names, first=first, last=last)
        if plain[1] == "." and plain[2] not in present and plain[2].rpartition(".")[2] not in _INTERNAL:
            yield from _iter_apex_notes(client_names, plain[2])
        return
    fault = _find_rule_fault(text, present, alone=first and last)
    verdicts = list(judge_item(text, present, client_names, first=first, last=last))
    harmed: set[str] = set()
    instead = next((verdict.instead for verdict in verdicts if verdict.instead is not None), None)
    for effect, names, reason in (
        find_item_harms(text, NO_PROXY_CLIENTS, first=first, last=last) if _can_harm_clients(text) else ()
    ):
        if first and last and text.strip() == no_proxy.ALL:
            continue
        harmed.update(names)
        instead = _find_fix(text) if instead is None else instead
        # nodes need networks, and no other form says them: who fails there is an error where it is judged
        needed = no_proxy.is_ipv6_network(text) and instead is None and fault is None and set(client_names).isdisjoint(names)
        problem = "every request bypasses the proxy" if effect == "everything" else f"every request fails: {reason}"
        yield LintResult(names, problem + _describe_separators(text), instead, "note" if needed else "error")
    for item in verdicts:
        if harmed.issuperset(item.clients):
            continue
        level: Level = fault[0] if fault is not None and fault[0] == "error" else item.level
        if level == "note" and (fault is not None or (item.instead is None and instead is not None)):
            level = "warning"
        yield LintResult(
            item.clients, item.problem + _describe_separators(text), instead if item.instead is None else item.instead, level
        )
    if fault is not None and not harmed and not verdicts:
        severity, problem = fault
        yield LintResult(
            _find_space_sensitive_clients(text), problem, _find_fix(text) if instead is None else instead, severity
        )


def _can_harm_clients(text: str) -> bool:
    return not is_safe_for_all((text,))


def _find_rule_fault(text: str, present: set[str], *, alone: bool) -> tuple[Level, str] | None:
    """Return the fault by the rules of `validate`, or surrounding spaces, which are trimmed there; or None."""
    item = text.strip()
    if item == no_proxy.ALL and alone:
        return None
    fault = no_proxy.find_item_fault(item)
    if fault is None and item.endswith(".") and item.rstrip(".") not in present:
        fault = ("warning", "the dot at the end is read by few")
    if fault is None and (typo := no_proxy.find_item_typo(item)) is not None:
        fault = ("warning", typo)
    if fault is not None:
        return fault[0], f"it {fault[1]}"
    if item != text:
        return "error", f"some clients treat spaces as part of the item{_describe_separators(text)}"
    return None


def _find_space_sensitive_clients(text: str) -> tuple[str, ...]:
    """Return the clients that cover less, or fail, because of what stands about the item."""
    meaning = parse_no_proxy_item(text)
    value, plain = f"{FILLER},{text}", f"{FILLER},{text.strip()}"
    return tuple(
        name
        for name in NO_PROXY_CLIENTS
        if any(_is_bypassing(name, url, value) is not True and _is_bypassing(name, url, plain) for url in meaning.wanted)
    )


def _find_fix(text: str) -> str | None:
    """Return the first form that is safe, valid for `validate` and harmless for all clients; or None.

    Returns "" for an item without a meaning. If clients fail on the item, a form with which others cover less is better
    than none (`::1` for `[::1]`).
    """
    meaning = parse_no_proxy_item(text)
    forms = [form for form in ((text.strip(),), *meaning.forms) if form and form != (text,) and _is_valid_form(form)]
    for may_lose in (False, True) if _can_harm_clients(text) else (False,):
        for form in forms:
            value, whole = f"{FILLER},{text},{FILLER}", f"{FILLER},{','.join(form)},{FILLER}"
            if _is_safe(meaning, value, whole, may_lose=may_lose):
                return ",".join(form)
    return "" if not meaning.wanted and () in meaning.forms else None


def _is_valid_form(form: tuple[str, ...]) -> bool:
    return all(no_proxy.find_item_fault(piece) is None for piece in form) and is_safe_for_all(form)


def judge_item(
    text: str, present: set[str], client_names: tuple[str, ...], *, first: bool = True, last: bool = True
) -> Iterator[LintResult]:
    """Yield how the judged clients read the text between two commas otherwise than meant; `present`: all items of the list."""
    meaning = parse_no_proxy_item(text)
    companions = tuple(sorted(piece for piece in meaning.pieces if piece in present and piece != text.strip()))
    plain = _PLAIN.fullmatch(text)
    network = _NETWORK.fullmatch(text) if not companions else None
    if plain is not None and not is_host_name(plain[2]):
        # All plain names are read alike, so one of them stands for all: 10,000 items take as long as a few.
        name, stand_in = plain[2], _STANDS_FOR
        swapped = tuple(piece.replace(name, stand_in) for piece in companions)
        for verdict in _compute_item_results(text.replace(name, stand_in), swapped, client_names, first=first, last=last):
            instead = verdict.instead.replace(stand_in, name) if verdict.instead is not None else None
            yield LintResult(verdict.clients, verdict.problem.replace(stand_in, name), instead, verdict.level)
        return
    if network is not None and network[1] not in _OWN_NETWORKS and meaning.wanted[0] == f"http://{text.partition('/')[0]}/":
        # So are networks of one size whose base has no bit beyond it; 10.0.0.0 is the base of all sizes.
        results = _compute_item_results(f"10.0.0.0/{network[3]}", (), client_names, first=first, last=last)
        if not any("://" in result.problem for result in results):
            yield from results
            return
    yield from _compute_item_results(text, companions, client_names, first=first, last=last)


@lru_cache(maxsize=64)
def _find_apex_misses(client_names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item for item in client_names if not _is_bypassing(item, f"http://{_STANDS_FOR}/", f"{FILLER},.{_STANDS_FOR}"))


def _iter_apex_notes(client_names: tuple[str, ...], name: str) -> Iterator[LintResult]:
    """Yield a note that the name itself is not covered, which many mean."""
    misses = _find_apex_misses(client_names)
    if misses:
        problem = f"it does not cover {name} itself: where that is meant too, write `{name},.{name}`"
        yield LintResult(misses, problem, None, "note")


@lru_cache(maxsize=4096)
def _compute_item_results(
    text: str, companions: tuple[str, ...], client_names: tuple[str, ...], *, first: bool, last: bool
) -> tuple[LintResult, ...]:
    meaning = parse_no_proxy_item(text)
    before = "" if first else f"{FILLER},"
    after = "" if last else f",{FILLER}"
    value = ",".join((f"{before}{text}{after}", *companions))
    item = text.strip()
    urls = (*meaning.wanted, *meaning.outside)
    seen = {name: {url: _is_bypassing(name, url, value) for url in urls} for name in client_names}
    fails = tuple(name for name in client_names if any(result is None for result in seen[name].values()))
    working = [name for name in client_names if name not in fails]
    ignores = tuple(name for name in working if meaning.wanted and not any(seen[name][url] for url in meaning.wanted))
    partial = tuple(name for name in working if name not in ignores and not all(seen[name][url] for url in meaning.wanted))
    over = tuple(
        name for name in working if any(seen[name][url] for url in meaning.outside if not _is_bypassing(name, url, FILLER))
    )
    useless = False
    if not meaning.wanted and item:
        ignores = tuple(working)
        useless = True
    if not (fails or ignores or partial or over):
        return ()
    misses = sum(not seen[name][url] for name in client_names for url in meaning.wanted) + len(over) + len(fails) + useless
    instead = _choose_safer_form(value, meaning, companions, client_names, misses, before, after)
    better: Level = "note" if instead is None else "warning"
    verdicts: list[LintResult] = []
    if fails:
        reason = _find_failure(fails[0], urls, value)
        verdicts.append(LintResult(fails, f"every request fails: {reason}", instead, "error"))
    if ignores:
        what = "it is ignored" if meaning.wanted else f"it means {meaning.says}"
        level = "error" if useless or _is_ignored_by_all(meaning, value) else better
        verdicts.append(LintResult(ignores, what + _format_hint(item, meaning), instead, level))
    if partial:
        missing = next(url for url in meaning.wanted if not seen[partial[0]][url])
        problem = f"it does not cover all that it means: {missing} goes through the proxy"
        # the form has the item in it: whether the rest is meant, too, only its writer knows
        level = "note" if instead is not None and item in instead.split(",") else better
        verdicts.append(LintResult(partial, problem, instead, level))
    if over:
        extra = _find_extra_url(over[0], meaning, value)
        verdicts.append(LintResult(over, f"it covers more than it means: {extra} bypasses the proxy", instead, better))
    return tuple(verdicts)


def _is_ignored_by_all(meaning: ItemMeaning, value: str) -> bool:
    return not any(_is_bypassing(name, url, value) for name in NO_PROXY_CLIENTS for url in meaning.wanted)


def _describe_separators(text: str) -> str:
    """Describe spaces around an item, and other separators that are mistaken for a comma."""
    sides = [side for side, bare in (("before", text.lstrip()), ("behind", text.rstrip())) if bare != text]
    blank = f" (remove the space {' and '.join(sides)} it)" if sides and text.strip() else ""
    return blank + (" (; separates nothing here: write a comma)" if ";" in text else "")


def _format_hint(item: str, meaning: ItemMeaning) -> str:
    if item == "*":
        return "; * counts, at most, as the whole value: to bypass every host, set no proxy"
    if not meaning.wanted:
        return ""
    if "/" in item and meaning.says.startswith("the addresses"):
        return "; list the addresses that matter for them" if not meaning.forms else ""
    return ""


def _is_bypassing(name: str, url: str, value: str) -> bool | None:
    return decide(CLIENTS[name], url, value).bypass


def _find_extra_url(name: str, meaning: ItemMeaning, value: str) -> str | None:
    """Return the first unintended URL that bypasses the proxy because of the list, or None."""
    return next(
        (url for url in meaning.outside if _is_bypassing(name, url, value) and not _is_bypassing(name, url, FILLER)), None
    )


def _find_failure(name: str, urls: tuple[str, ...], value: str) -> str:
    for url in urls:
        decision = decide(CLIENTS[name], url, value)
        if decision.bypass is None:
            return decision.reason.removeprefix("fails: ")
    return ""


def _choose_safer_form(
    value: str,
    meaning: ItemMeaning,
    companions: tuple[str, ...],
    client_names: tuple[str, ...],
    misses: int,
    before: str,
    after: str,
) -> str | None:
    """Choose the form with the fewest misses that is safe in all profiles; `None` if the item is as good."""
    best: str | None = None
    for form in meaning.forms:
        if not _is_valid_form(form):
            continue
        text = ",".join(form)
        whole = ",".join(filter(None, (before.rstrip(","), text, after.lstrip(","), *companions)))
        if whole == value:
            continue
        left = 0
        for name in client_names:
            left += sum(not _is_bypassing(name, url, whole) for url in meaning.wanted)
            left += _find_extra_url(name, meaning, whole) is not None
        if left < misses and _is_safe(meaning, value, whole):
            best, misses = text, left
    return best


def _is_safe(meaning: ItemMeaning, value: str, form: str, *, may_lose: bool = False) -> bool:
    inside = (*meaning.wanted, *meaning.allowed)
    for name in SAFE_CLIENTS:
        for url in inside:
            if not may_lose and _is_bypassing(name, url, value) and not _is_bypassing(name, url, form):
                return False
        for url in meaning.outside:
            grown = _is_bypassing(name, url, form) and _is_bypassing(name, url, value) is False
            if grown and not any(_is_bypassing(name, url, plain) for plain in meaning.plain):
                return False
    return True
