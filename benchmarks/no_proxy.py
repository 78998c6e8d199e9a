"""How fast NO_PROXY is judged: `uv run python benchmarks/no_proxy.py` prints a table."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
CASES = ROOT / "tests" / "noproxy" / "observed.jsonl"
TRANSOM = Path(sys.executable).parent / "transom"


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


def cpu_of(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def library() -> list[tuple[str, str, str]]:
    from transom.proxy.clients import CLIENTS, NODE_CLIENTS, decide, lint
    from transom.proxy.clients.cases import decide_case, read_case

    cases = [read_case(line)[1] for line in CASES.read_bytes().splitlines()]
    rates = [len(cases) / cpu_of(lambda: [decide_case(case) for case in cases]) for _ in range(2)]
    big = ",".join(f"h{number}.corp.example" for number in range(10_000))
    first = cpu_of(lambda: decide(CLIENTS["go"], "http://other.example/", big))
    again = cpu_of(lambda: decide(CLIENTS["go"], "http://another.example/", big))
    networks = ",".join(f"10.{number >> 8}.{number & 255}.0/24" for number in range(1_000))
    return [
        ("decisions a CPU second, every list new", f"{rates[0]:,.0f}", "20,000"),
        ("decisions a CPU second, lists read before", f"{rates[1]:,.0f}", "20,000"),
        ("one decision on 10,000 items, list new", f"{first * 1000:.0f} ms of CPU", ""),
        ("one decision on 10,000 items, list read before", f"{again * 1000:.1f} ms of CPU", ""),
        ("lint of 10,000 names", f"{cpu_of(lambda: lint(big, NODE_CLIENTS)):.2f} s of CPU", ""),
        ("lint of 1,000 networks", f"{cpu_of(lambda: lint(networks, NODE_CLIENTS)):.2f} s of CPU", ""),
    ]


def main() -> None:
    rows = library()
    count = sum(1 for _ in CASES.open())
    wall, cpu = run("no-proxy", "check", "--cases", str(CASES))
    rows.append((f"`no-proxy check --cases`, {count:,} cases, whole process", f"{wall:.2f} s ({cpu:.2f} s of CPU)", "2 s"))
    wall, cpu = run("no-proxy", "check", "https://a.corp.example/", "--no-proxy", "corp.example,10.0.0.0/8")
    rows.append(("`no-proxy check` of one URL, all clients, as a table", f"{wall:.2f} s ({cpu:.2f} s of CPU)", ""))
    wall, cpu = run("no-proxy", "lint", "*.corp.example,10.0.0.0/8,[::1]")
    rows.append(("`no-proxy lint` of three items", f"{wall:.2f} s ({cpu:.2f} s of CPU)", ""))
    print("| what | measured | goal |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
