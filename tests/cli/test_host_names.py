"""Names and patterns of hosts."""

import pytest

from transom.cli.host_names import describe_unknown, select_names

NAMES = ["win-1", "win-2", "win-10", "db-1", "Win-3"]


@pytest.mark.parametrize(
    ("patterns", "names", "unknown"),
    [
        (["win-1"], ["win-1"], []),
        (["win-2", "win-1"], ["win-1", "win-2"], []),
        (["win-1,db-1"], ["win-1", "db-1"], []),
        (["win-1*"], ["win-1", "win-10"], []),
        (["win-?"], ["win-1", "win-2"], []),
        (["win-3"], [], ["win-3"]),
        (["*"], NAMES, []),
        (["win-1", "lin-*", "x"], ["win-1"], ["lin-*", "x"]),
        ([",,"], [], [""]),
        (["win-1,"], ["win-1"], []),
    ],
)
def test_names_and_patterns(patterns: list[str], names: list[str], unknown: list[str]) -> None:
    found = select_names(NAMES, patterns)
    assert (list(found.names), list(found.unknown)) == (names, unknown)


def test_what_was_probably_meant_is_named() -> None:
    assert "did you mean win-10 or win-1?" in describe_unknown(["win-100"], NAMES)
    assert "did you mean" not in describe_unknown(["mail"], NAMES)
    assert "there is none" in describe_unknown(["win-1"], [], "namespace a")
    many = [f"host-{number}" for number in range(100)]
    assert "and 95 more" in describe_unknown(["x"], many)
