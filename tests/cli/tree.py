"""All commands of `transom`."""

from collections.abc import Iterator

from tests.support.command import run

WITHOUT_DATA = {"demo", "run", "webhook", "default", "schema", "uninstall", "completion", "help", "init", "simulate"}
GROUPS = ((), ("capi",), ("no-proxy",), ("payload",), ("pods",), ("trust",), ("verify",))


def commands(group: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Names and summaries, as `--help` shows them in 80 columns."""
    told = run(*group, "--help")
    assert told.code == 0
    for line in told.out.partition("Commands:\n")[2].splitlines():
        name, _, summary = line.strip().partition(" ")
        yield name, summary.strip()
