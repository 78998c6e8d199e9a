"""The `transom` program. `--version` is answered before the command line is imported."""

import sys


def main() -> None:
    """Run the command line; exit codes are 0 (done), 1 (not all done), 2 (bad input) and 128 plus a signal that stopped it."""
    if sys.argv[1:] == ["--version"]:
        from transom.common.revision import describe_version

        sys.stdout.write(f"transom {describe_version()}\n")
        return
    from transom.cli.stopping import handle_signals

    with handle_signals():
        from transom.cli.program import run

        run()


if __name__ == "__main__":
    main()
