"""Whether the random histories of rollouts find what is wrong, each mutant in a copy of the code.

`python -m benchmarks.mutants [--histories N] [--together]`. Each has to be found by the histories of one change, or by those of
three; with `--together` all are looked for by those of three.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).resolve().parent.parent
TESTS: Final = ("tests/controllers/rollout/test_random_histories.py", "tests/controllers/rollout/test_random_changes.py")


class Mutant(msgspec.Struct, frozen=True):
    """A line of the code, and what it is made."""

    what: str
    file: str
    line: str
    becomes: str
    test: str = TESTS[0]
    """Which histories are to find it."""
    more: tuple[tuple[str, str, str], ...] = ()
    """Further files, lines, and what they become: what two pieces of the code see to is gone where neither does."""


MUTANTS: Final = (
    Mutant("the canary is skipped", "windows/nodes/rollout.py", "max(0, 1 - len(self.working))", "5"),
    Mutant("a tenth is any number", "windows/nodes/rollout.py", "self.tenth - len(self.passed) - len(self.working)", "5"),
    Mutant("a failure is forgotten", "windows/nodes/rollout.py", "failed if host in failed else (*failed, host)", "failed"),
    Mutant("a refutation is forgotten", "windows/nodes/rollout.py", '(result == "refuted" and not passed)', "False"),
    Mutant("a failure never heals", "windows/nodes/rollout.py", "tuple(one for one in failed if one != host)", "failed"),
    Mutant("it is over too soon", "windows/nodes/rollout.py", ">= len(self.hosts) > 0", "> 0"),
    Mutant("it is never over", "windows/nodes/rollout.py", ">= len(self.hosts) > 0", "> len(self.hosts) > 0"),
    Mutant("a halt is lost with its leader", "controllers/rollout/marks.py", "bool(one[4])", "False"),
    Mutant("failures are lost with their leader", "controllers/rollout/rollouts.py", "failed=tuple(failed),", "failed=(),"),
    Mutant("the begun are lost with their leader", "controllers/rollout/host_turns.py", "if rollout.early:", "if False:"),
    Mutant(
        "the begun of the process before are forgotten",
        "controllers/rollout/begun_hosts.py",
        "{**self._known(), **listed}.items() if",
        "listed.items() if",
        TESTS[1],
    ),
    Mutant(
        "who was begun is forgotten before it is written what came of it",
        "controllers/rollout/rollouts.py",
        "for host in self._unwritten if",
        "for host in self.rollout.working if",
        TESTS[1],
    ),
    Mutant(
        "who leads again remembers its own time",
        "controllers/rollout/begun_hosts.py",
        "            beginner.forget()\n",
        "            pass\n",
    ),
    Mutant(
        "an older result counts",
        "controllers/rollout/rollouts.py",
        "return self._stale(text)",
        "return cached or self._stale(text)",
        TESTS[1],
    ),
    Mutant(
        "an older rollout admits",
        "apply/turns.py",
        "        self._reading.discard(host)\n        if self.superseded:\n            return False\n",
        "",
        TESTS[0],
        (("controllers/rollout/host_turns.py", "        if rollout.superseded and not owed:\n", "        if False:\n"),),
    ),
    Mutant(
        "who is held by the process before has no turn",
        "controllers/rollout/host_turns.py",
        'if result == "left" and (owed or (refused and rollout.subject.prepared)):',
        'if result == "left" and owed and not found.begun:',
    ),
    Mutant("a word resumes nothing", "controllers/rollout/rollouts.py", 'f"{resumed}\\n{text}" if resumed else text', "text"),
    Mutant("an old heartbeat counts", "controllers/rollout/heartbeats.py", "beat > before", "beat >= before"),
    Mutant(
        "who was begun is not looked at",
        "controllers/rollout/host_turns.py",
        "result_of(target.egress, found, begun=owed)",
        "result_of(target.egress, found)",
    ),
    Mutant(
        "people are told nothing",
        "controllers/rollout/rollouts.py",
        "        super().come_out(host, result)\n",
        "        super().come_out(host, result)\n        return\n",
    ),
    Mutant(
        "a slot is given to everybody",
        "controllers/rollout/slots.py",
        "    if len(gone) < most:\n",
        "    if len(gone) < most + 1:\n",
        TESTS[1],
    ),
    Mutant(
        "a Node that is emptied for another version goes on with this one",
        "controllers/rollout/interruptions.py",
        "if upgrade is None or upgrade.admit(cached.metadata.name, turn.ask):",
        "if True:",
        TESTS[1],
    ),
    Mutant(
        "a version does not wait for the first host",
        "controllers/rollout/interruptions.py",
        "if upgrade is not None and not upgrade.admit(key.name, turn.ask):",
        "if False:",
        TESTS[1],
    ),
    Mutant(
        "a Node is never given back",
        "controllers/rollout/interruptions.py",
        'await self._drain(cached, node, "upgrade", leadership).uncordon()',
        "pass",
        TESTS[1],
    ),
    Mutant(
        "who was begun by another process is never done",
        "controllers/rollout/rollouts.py",
        "return host in self.rollout.working or not self.rollout.knows(host)",
        "return not self.rollout.knows(host)",
        TESTS[1],
    ),
)


@contextmanager
def changed(*edits: tuple[str, str, str]) -> Iterator[Path]:
    """A copy of the code in which lines of files are others. Raises ValueError where one of them is not there once."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for name, line, becomes in edits:
            file = source / "transom" / name
            text = file.read_text("utf-8")
            if text.count(line) != 1:
                raise ValueError(f"{name}: {line!r} is there {text.count(line)} times")
            file.write_text(text.replace(line, becomes), "utf-8")
        yield source


def found(mutant: Mutant, histories: int, test: str) -> bool:
    """Whether the test fails on the code with the mutant in it. Raises ValueError as `changed` does."""
    with changed((mutant.file, mutant.line, mutant.becomes), *mutant.more) as source:
        environment = {**os.environ, "PYTHONPATH": str(source), "TRANSOM_HISTORIES": str(histories)}
        command = [sys.executable, "-m", "pytest", test, "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
        return ended.returncode == 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=300)
    parser.add_argument("--together", action="store_true")
    chosen = parser.parse_args()
    missed = []
    for mutant in MUTANTS:
        seen = found(mutant, chosen.histories, TESTS[1] if chosen.together else mutant.test)
        print(f"{'found ' if seen else 'MISSED'}  {mutant.what}", flush=True)
        missed += [] if seen else [mutant]
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
