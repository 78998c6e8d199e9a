"""Texts of others as people see them."""

import ast
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import transom.cli
from transom.common.escaping import escape_unprintable

# half characters too, which hypothesis leaves out of texts
TEXTS = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("win-1 é 日本 \N{NO-BREAK SPACE}🙂 C:\\x [red]a[/red] :boom:",) * 2,
        ("\x1b[2J\x1b]0;owned\x07", r"\x1b[2J\x1b]0;owned\x07"),
        ("a\r\nb\tc\b\x7f\x00", r"a\r\nb\tc\x08\x7f\x00"),
        ("\x85\x9b2J\x9d52;c;", r"\x85\x9b2J\x9d52;c;"),
        ("\u202ecod.exe\u202c \u2066x\u2069 \u200e \u061c", r"\u202ecod.exe\u202c \u2066x\u2069 \u200e \u061c"),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("\ud800x\udfff", r"\ud800x\udfff"),
        ("\u200b\ufeff\U000e0041", r"\u200b\ufeff\U000e0041"),
    ],
)
def test_what_is_not_seen_stands_in_letters(text: str, letters: str) -> None:
    assert escape_unprintable(text) == letters


def test_what_is_kept() -> None:
    assert escape_unprintable("a\n\tb\r\x1b", keep="\n\t") == "a\n\tb\\r\\x1b"


@given(TEXTS)
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    found = escape_unprintable(text)
    assert not {unicodedata.category(item) for item in found} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert escape_unprintable(found) == found
    found.encode()


def test_commands_write_through_one_module() -> None:
    """What writes elsewhere writes what others said as it came."""
    for path in sorted(Path(transom.cli.__file__).parent.rglob("*.py")):
        if path.name in ("messages.py", "output.py", "terminal.py"):
            continue
        calls = {ast.unparse(item.func) for item in ast.walk(ast.parse(path.read_text())) if isinstance(item, ast.Call)}
        assert calls & {"sys.stdout.write", "sys.stderr.write", "print", "typer.echo", "Console"} == set(), path.name
