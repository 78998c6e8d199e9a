"""The `transom` program. `--version` is answered before anything else is imported."""

import gc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from transom import __version__


class _StructlogAlone:
    """Keeps rich from structlog, which would colour tracebacks by it, and have 6 MB in each process that writes a log line."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Nothing: others find modules. Raises ModuleNotFoundError while structlog looks for rich, as where that is missing."""
        asking = sys.modules.get("structlog.dev")
        if name == "rich" and asking is not None and not hasattr(asking, "ConsoleRenderer"):
            raise ModuleNotFoundError(name=name)
        return None


def main() -> None:
    """Run the command line; exit codes are 0 (done), 1 (not all done) and 2 (bad input)."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"transom {__version__}\n")
        return
    # what imports make stays: looking through it again and again is a tenth of a short command's time
    gc.set_threshold(50_000, 20, 100)
    sys.meta_path.insert(0, _StructlogAlone)
    try:
        from transom.cli.program import run
    except KeyboardInterrupt:
        sys.stderr.write("transom: stopped before anything was done\n")
        raise SystemExit(130) from None
    try:
        run()
    finally:
        # Python looks for garbage once more before it ends, a fifth of a short command's time: nothing here waits for that
        gc.freeze()


if __name__ == "__main__":
    main()
