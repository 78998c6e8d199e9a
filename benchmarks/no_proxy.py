"""How fast NO_PROXY is judged, and how well: `python -m benchmarks.no_proxy [--cases 3000] [--seed N]`.

The cases are drawn anew each time, and answered by the real clients of this machine.
"""

import argparse
import functools
import gc
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment

from benchmarks.pairs import Pair, alternating, cpu_of
from tests.proxy.clients.corpus import OBSERVED
from tests.proxy.clients.drawn import disagreements, draw_cases
from tests.proxy.clients.measuring import measure

from transom.proxy.clients.cases import Case, decide_case, read_case
from transom.proxy.clients.client_table import CLIENTS, NODE_CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.clients.lint import lint

TRANSOM = Path(sys.executable).parent / "transom"
AT_ONCE = 500
"""Cases that are asked about together: each has a listener of its own."""
OFTEN = 20
"""urllib's own decisions are so much shorter that they are made so often."""


def run(*arguments: str) -> tuple[float, float]:
    """Wall time and CPU seconds of a whole process, the best of five."""
    best = (1e9, 1e9)
    for _ in range(5):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([TRANSOM, *arguments], stdout=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = min(best, (time.perf_counter() - start, cpu))
    return best


def measured_cases() -> list[Case]:
    return [read_case(line)[1] for line in OBSERVED.read_bytes().splitlines()]


def forget() -> None:
    """As in a process that has read no list yet."""
    for name, module in tuple(sys.modules.items()):
        if name.startswith("transom.proxy.clients."):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()
    gc.collect()


def new_lists(cases: list[Case]) -> float:
    """Seconds of CPU of a decision, where nothing was read before."""
    forget()
    return cpu_of(lambda: [decide_case(case) for case in cases]) / len(cases)


def pairs() -> Iterator[Pair]:
    cases = measured_cases()
    asked = [(urlsplit(case.url).netloc, {"no": case.no_proxy or ""}) for case in cases]

    def bare() -> float:
        return cpu_of(lambda: [proxy_bypass_environment(host, item) for _ in range(OFTEN) for host, item in asked]) / OFTEN

    yield from alternating("a decision of NO_PROXY, every list new", lambda: new_lists(cases) * len(cases), bare, rounds=9)


def library() -> list[tuple[str, str, str]]:
    cases = measured_cases()
    new = min(new_lists(cases) for _ in range(5))
    known = min(cpu_of(lambda: [decide_case(case) for case in cases]) / len(cases) for _ in range(5))
    big = ",".join(f"h{number}.corp.example" for number in range(10_000))
    first = cpu_of(lambda: decide(CLIENTS["go"], "http://other.example/", big))
    again = cpu_of(lambda: decide(CLIENTS["go"], "http://another.example/", big))
    networks = ",".join(f"10.{number >> 8}.{number & 255}.0/24" for number in range(1_000))
    return [
        ("decisions a CPU second, every list new", f"{1 / new:,.0f}", "100,000"),
        ("decisions a CPU second, lists read before", f"{1 / known:,.0f}", "100,000"),
        ("one decision on 10,000 items, list new", f"{first * 1000:.0f} ms of CPU", ""),
        ("one decision on 10,000 items, list read before", f"{again * 1000:.1f} ms of CPU", ""),
        ("lint of 10,000 names", f"{cpu_of(lambda: lint(big, NODE_CLIENTS)):.2f} s of CPU", ""),
        ("lint of 1,000 networks", f"{cpu_of(lambda: lint(networks, NODE_CLIENTS)):.2f} s of CPU", ""),
    ]


def real_clients(count: int, seed: int) -> list[tuple[str, str, str]]:
    """New cases, as real clients answer them; those of which the profiles say something else are printed."""
    cases, missed, names = draw_cases(count, seed), Counter[str](), set[str]()
    for start in range(0, count, AT_ONCE):
        some = cases[start : start + AT_ONCE]
        answered = measure(some)
        names |= answered.keys()
        for name, case, does, reason in disagreements(some, answered):
            missed[name] += 1
            print(f"{name} {does}, its profile says: {reason}: {case}", flush=True)
    shares = {name: 100 * (1 - missed[name] / count) for name in sorted(names)}
    least = min(shares, key=lambda name: shares[name])
    told = f"{shares[least]:.2f} % ({least}), all {100 * (1 - missed.total() / count / len(shares)):.3f} %"
    return [(f"{count:,} new cases (seed {seed}) and {len(shares)} real clients: right for the worst", told, "99.9 %")]


def processes() -> list[tuple[str, str, str]]:
    rows, one = [], ("check", "https://a.corp.example/", "--no-proxy", "x.y,10.0.0.0/8")
    count = len(OBSERVED.read_bytes().splitlines())
    for text, goal, arguments in (
        (f"`no-proxy check --cases`, {count:,} cases, whole process", "2 s", ("check", "--cases", str(OBSERVED))),
        (
            "`no-proxy check` of one URL, all clients, as a table",
            "",
            one,
        ),
        ("`no-proxy lint` of three items", "", ("lint", "*.corp.example,10.0.0.0/8,[::1]")),
    ):
        wall, cpu = run("no-proxy", *arguments)
        rows.append((text, f"{wall:.2f} s ({cpu:.2f} s of CPU)", goal))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=3000, help="new ones for the real clients")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    chosen = parser.parse_args()
    parts: list[Callable[[], list[tuple[str, str, str]]]] = [library, processes]
    if chosen.cases:
        parts.append(lambda: real_clients(chosen.cases, chosen.seed))
    for part in parts:
        for row in part():
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
