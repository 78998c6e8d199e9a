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
    """One ratio: what `program` measures under `name`, divided by what it is `beside`; less is better. `date`: when."""

    name: str
    program: str
    beside: str
    kept: float
    date: datetime.date


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of them, and the machine that they were measured on."""

    machine: str
    rows: tuple[Row, ...]


def read() -> Kept:
    """What is kept. Raises msgspec.ValidationError."""
    return msgspec.yaml.decode(FILE.read_bytes(), type=Kept)


def write(kept: Kept, found: Mapping[str, float]) -> None:
    """Keep what was found today; the table of the page is written anew."""
    today = datetime.datetime.now(datetime.UTC).date()
    rows = (
        msgspec.structs.replace(row, kept=round(found[row.name], 2), date=today) if row.name in found else row
        for row in kept.rows
    )
    kept = Kept(kept.machine, tuple(rows))
    FILE.write_bytes(msgspec.yaml.encode(kept))
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    PAGE.write_text(before + _BEGIN + table(kept) + _END + rest.partition(_END)[2], "utf-8")


def table(kept: Kept) -> str:
    """As the page has it."""
    head = f"On {kept.machine}.\n\n| what | `scripts/bench` | beside | times | measured |\n|---|---|---|---|---|\n"
    rows = (f"| {row.name} | {row.program} | {row.beside} | {row.kept:.2f} | {row.date:%-d %B %Y} |\n" for row in kept.rows)
    return head + "".join(rows)


def measure(rows: Sequence[Row], *, twice: bool = False) -> dict[str, float]:
    """The ratio of each, the median of its pairs. A program that shows one to be worse is asked again, `twice`: each."""
    pairs: dict[str, list[Pair]] = defaultdict(list)
    for turn in range(2):
        asked = rows if twice or turn == 0 else worse(rows, medians(pairs))
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
