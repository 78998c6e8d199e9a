"""Coverage-guided fuzzing with atheris, and CPU time by length.

    uv run --with atheris python -m benchmarks.fuzz TARGET [--seconds 900] [--corpus DIRECTORY]
    uv run python -m benchmarks.fuzz --linear [TARGET …]

A run ends with a traceback, and writes the input to a file, where a parser raises what it may not. `--linear` prints CPU
milliseconds for 64 kB, 256 kB and 1 MB of the worst inputs that are known, and ends with 1 where time grows faster than
length: more than 2.5 times as much for each byte from 256 kB to 1 MB, beyond what a small machine's noise is.
"""

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

SIZES = (64 * 1024, 256 * 1024, 1024 * 1024)
STEEP, NOISE = 2.5, 0.05


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz")
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--linear", action="store_true")
    chosen = parser.parse_args()
    if chosen.linear:
        sys.exit(linear(chosen.targets))
    (target,) = chosen.targets
    fuzz(target, chosen.seconds, chosen.length, chosen.corpus or Path(tempfile.mkdtemp(prefix=f"fuzz-{target}-")))


def fuzz(name: str, seconds: int, length: int, corpus: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["transom", "asyncssh.sftp", "asyncssh.packet"]):
        from benchmarks.fuzz.targets import TARGETS
    target = TARGETS[name]
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)

    def one(data: bytes) -> None:
        with contextlib.suppress(*target.allowed):
            target.read(data)

    atheris.Setup([sys.argv[0], str(corpus), f"-max_total_time={seconds}", f"-max_len={length}"], one)
    atheris.Fuzz()


def linear(names: list[str]) -> int:
    from benchmarks.fuzz.targets import TARGETS

    steep = 0
    for name in names or TARGETS:
        target = TARGETS[name]
        for kind, make in target.worst.items():
            taken = [cpu(target.read, make(size), target.allowed) for size in SIZES]
            ratio = (taken[2] / taken[1]) / (SIZES[2] / SIZES[1]) if taken[1] else 0.0
            wrong = ratio > STEEP and taken[2] > NOISE
            steep += wrong
            shown = "".join(f"{seconds * 1000:10.1f}" for seconds in taken)
            print(f"{name:16}{kind:32}{shown} ms{'  steeper than its length' if wrong else ''}", flush=True)
    return 1 if steep else 0


def cpu(read: object, data: bytes, allowed: tuple[type[Exception], ...]) -> float:
    """Seconds of CPU, the least of two."""
    found = []
    for _ in range(2):
        begun = time.process_time()
        with contextlib.suppress(*allowed):
            read(data)  # type: ignore[operator]
        found.append(time.process_time() - begun)
    return min(found)


if __name__ == "__main__":
    main()
