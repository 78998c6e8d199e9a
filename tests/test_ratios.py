"""The ratios that are kept of the benchmarks, and what is made of new ones."""

import datetime
import sys
from pathlib import Path

import msgspec
import pytest
from benchmarks import __main__ as bench
from benchmarks import ratios
from benchmarks.pairs import Pair, alternating
from benchmarks.ratios import Row

DATE = datetime.date(2026, 1, 1)
ROWS = (
    Row("a pass", "hosts", "asyncssh", 2.0, DATE),
    Row("a look", "hosts", "asyncssh", 1.0, DATE),
    Row("a review", "webhook", "aiohttp", 1.0, DATE),
)


def test_the_page_shows_what_is_kept() -> None:
    kept = ratios.read()
    assert len(kept.rows) > 9
    assert len({row.name for row in kept.rows}) == len(kept.rows)
    assert ratios.table(kept) in ratios.PAGE.read_text("utf-8"), "run: scripts/bench check --keep"


def test_each_program_has_pairs() -> None:
    known = bench.programs()
    for program in {row.program for row in ratios.read().rows}:
        assert "\ndef pairs() -> Iterator[Pair]:" in (bench.HERE / f"{program}.py").read_text("utf-8")
        assert known[program]


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], runs: dict[str, list[dict[str, float]]]
) -> tuple[int, str]:
    """`scripts/bench check`, where each run of a program gives these ratios, three pairs each."""

    def measured(program: str) -> list[Pair]:
        return [Pair(name, item, 1.0) for name, item in runs[program].pop(0).items() for _ in range(3)]

    monkeypatch.setattr(ratios, "_run", measured)
    monkeypatch.setattr(ratios, "read", lambda: ratios.Kept("2 cores", ROWS))
    monkeypatch.setattr(sys, "argv", ["bench", "check"])
    with pytest.raises(SystemExit) as ended:
        bench.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().out


def test_what_is_within_the_limit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    runs = {"hosts": [{"a pass": 2.29, "a look": 0.5}], "webhook": [{"a review": 1.14}]}
    code, out = run(monkeypatch, capsys, runs)
    assert (code, "WORSE" in out) == (0, False)


def test_what_is_worse_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """After a second run of its program alone."""
    runs = {"hosts": [{"a pass": 2.4, "a look": 1.0}] * 2, "webhook": [{"a review": 1.0}]}
    code, out = run(monkeypatch, capsys, runs)
    assert code == 1
    assert [line for line in out.splitlines() if line.startswith("WORSE")] == [
        "WORSE: a pass, beside asyncssh: kept 2.00, measured 2.40, 20% more"
    ]
    assert runs == {"hosts": [], "webhook": []}


def test_a_second_run_may_clear_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    runs = {"hosts": [{"a pass": 2.4, "a look": 1.0}, {"a pass": 2.0, "a look": 1.0}], "webhook": [{"a review": 1.0}]}
    code, _ = run(monkeypatch, capsys, runs)
    assert code == 0


def test_what_was_not_measured_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratios, "_run", lambda _: [Pair("a pass", 1.0, 1.0)])
    with pytest.raises(SystemExit, match="not measured: a look, a review"):
        ratios.measure(ROWS)


def test_what_is_kept_is_written_with_its_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page, file = tmp_path / "README.md", tmp_path / "ratios.yaml"
    page.write_text("before\n<!-- from ratios.yaml -->\nold\n<!-- to here -->\nafter\n")
    monkeypatch.setattr(ratios, "PAGE", page)
    monkeypatch.setattr(ratios, "FILE", file)
    ratios.write(ratios.Kept("2 cores", ROWS), {"a look": 0.994})
    kept = ratios.read()
    assert [(row.name, row.kept) for row in kept.rows] == [("a pass", 2.0), ("a look", 0.99), ("a review", 1.0)]
    assert [row.date > DATE for row in kept.rows] == [False, True, False]
    assert ratios.table(kept) in page.read_text()
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("<!-- to here -->\nafter\n")


def test_both_take_turns_and_begin_in_turn() -> None:
    asked: list[str] = []

    def work(name: str, took: float) -> float:
        asked.append(name)
        return took

    made = list(alternating("x", lambda: work("ours", 3.0), lambda: work("bare", 2.0), rounds=3))
    assert made == [Pair("x", 3.0, 2.0)] * 3
    assert asked == ["ours", "bare", "bare", "ours", "ours", "bare"]
    assert msgspec.json.decode(msgspec.json.encode(made[0]), type=Pair) == made[0]
