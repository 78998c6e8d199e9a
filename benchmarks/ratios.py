"""The ratios that are kept: `ratios.yaml`, the table of README.md that shows them, and how they are measured again."""

import datetime
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from benchmarks.pairs import ROOT, Pair

FILE = Path(__file__).with_name("ratios.yaml")
PAGE = Path(__file__).with_name("README.md")
LIMIT = 1.15
"""So many times the kept ratio is no regression yet: what the same code differs by from run to run."""
_BEGIN, _END = "<!-- from ratios.yaml -->\n", "<!-- to here -->\n"


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ratio: what `program` measures under `name`, divided by what it is `beside`; less is better."""

    name: str
    program: str
    beside: str
    kept: float


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of them, and where and when they were measured."""

    machine: str
    date: datetime.date
    rows: tuple[Row, ...]


def read() -> Kept:
    """What is kept. Raises msgspec.ValidationError."""
    return msgspec.yaml.decode(FILE.read_bytes(), type=Kept)


def write(kept: Kept) -> None:
    """Keep these, as measured today; the table of the page is written anew."""
    kept = msgspec.structs.replace(kept, date=datetime.datetime.now(datetime.UTC).date())
    FILE.write_bytes(msgspec.yaml.encode(kept))
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    PAGE.write_text(before + _BEGIN + table(kept) + _END + rest.partition(_END)[2], "utf-8")


def table(kept: Kept) -> str:
    """As the page has it."""
    head = f"{kept.date:%-d %B %Y}, {kept.machine}.\n\n| what | `scripts/bench` | beside | times |\n|---|---|---|---|\n"
    return head + "".join(f"| {row.name} | {row.program} | {row.beside} | {row.kept:.2f} |\n" for row in kept.rows)


def measure(rows: Sequence[Row], *, once: bool = False) -> dict[str, float]:
    """The ratio of each, the median of its pairs. A program that shows one to be worse is asked again, unless `once`."""
    pairs: dict[str, list[Pair]] = defaultdict(list)
    for turn in range(1 if once else 2):
        asked = rows if turn == 0 else worse(rows, medians(pairs))
        for program in dict.fromkeys(row.program for row in asked):
            for pair in _run(program):
                pairs[pair.row].append(pair)
    found = medians(pairs)
    if missing := [row.name for row in rows if row.name not in found]:
        raise SystemExit(f"scripts/bench: not measured: {', '.join(missing)}")
    return found


def medians(pairs: Mapping[str, Iterable[Pair]]) -> dict[str, float]:
    """By name."""
    return {name: statistics.median(pair.ours / pair.bare for pair in some) for name, some in pairs.items()}


def worse(rows: Iterable[Row], found: Mapping[str, float]) -> list[Row]:
    """Those that are above the limit."""
    return [row for row in rows if found.get(row.name, 0.0) > LIMIT * row.kept]


def _run(program: str) -> list[Pair]:
    """In a process of its own: what one has imported or remembers is nothing to another."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "pairs")
        # what it prints is for whoever waits
        done = subprocess.run([sys.executable, "-m", "benchmarks.pairs", program, str(file)], cwd=ROOT, check=False)
        if done.returncode:
            raise SystemExit(f"scripts/bench: {program} ended with {done.returncode}")
        return [msgspec.json.decode(line, type=Pair) for line in file.read_bytes().splitlines()]
