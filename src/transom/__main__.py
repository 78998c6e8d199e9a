"""The `transom` program. `--version` is answered before anything else is imported."""

import gc
import sys

from transom import __version__


def main() -> None:
    """Run the command line; exit codes are 0 (done), 1 (not all done) and 2 (bad input)."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"transom {__version__}\n")
        return
    # what imports make stays: looking through it again and again is a tenth of a short command's time
    gc.set_threshold(50_000, 20, 100)
    try:
        from transom.imports import Imports

        sys.meta_path.insert(0, Imports)
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
