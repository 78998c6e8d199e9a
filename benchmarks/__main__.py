"""`scripts/bench`: which benchmarks there are, one of them, or the ratios that are kept measured again."""

import ast
import runpy
import sys
from pathlib import Path

from benchmarks import ratios

HERE = Path(__file__).parent
WITHOUT_MAIN = ("__main__", "load", "pairs", "ratios")


def programs() -> dict[str, str]:
    """By name: the first line of what each says of itself."""
    files = [*HERE.glob("*.py"), *HERE.glob("*/__main__.py")]
    named = {file.parent.name if file.name == "__main__.py" and file.parent != HERE else file.stem: file for file in files}
    return {
        name: (ast.get_docstring(ast.parse(file.read_bytes())) or "").partition("\n")[0]
        for name, file in sorted(named.items())
        if name not in WITHOUT_MAIN
    }


def check(names: list[str]) -> None:
    """Measure again, and end with 1 where a ratio is worse than it may be. `--keep` writes down what was measured instead."""
    keep, words = "--keep" in names, [name for name in names if name != "--keep"]
    kept = ratios.read()
    chosen = [row for row in kept.rows if not words or any(word in (row.program, row.name) for word in words)]
    if not chosen:
        raise SystemExit(f"scripts/bench: no ratio is called {' or '.join(words)}")
    found = ratios.measure(chosen, twice=keep)
    for row in chosen:
        print(f"{row.name}: {found[row.name]:.2f} times; kept {row.kept:.2f}")
    if keep:
        ratios.write(kept, found)
        return
    worse = ratios.worse(chosen, found)
    for row in worse:
        more = found[row.name] / row.kept - 1
        print(f"WORSE: {row.name}, beside {row.beside}: kept {row.kept:.2f}, measured {found[row.name]:.2f}, {more:.0%} more")
    raise SystemExit(1 if worse else 0)


def main() -> None:
    known = programs()
    match sys.argv[1:]:
        case []:
            width = max(map(len, known))
            for name, text in known.items():
                print(f"{name.ljust(width)}  {text}")
        case ["check", *names]:
            check(names)
        case [name, *arguments] if name in known:
            sys.argv = [name, *arguments]
            runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
        case [name, *_]:
            raise SystemExit(f"scripts/bench: there is no {name}: check, {', '.join(known)}")


if __name__ == "__main__":
    main()
