"""Pages, help texts and strings of the source avoid the words of prose.yaml."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.words.prose import PAGES, SOURCES, Rules, find_in_text, find_words, list_files, read_rules

from transom.cli.man_page import iter_commands
from transom.cli.program import build_program

RULES = read_rules()
CHECKED = tuple(list_files(*PAGES, *SOURCES))


def test_pages_and_strings() -> None:
    assert len(CHECKED) > 60
    assert [str(finding) for file in CHECKED for finding in find_words(file, RULES)] == []


def help_text(command: Any) -> str:
    """Return the help of a command and of its options, whatever file they come from."""
    context = command.context_class(command, info_name="transom")
    records = filter(None, (parameter.get_help_record(context) for parameter in command.params))
    return "\n\n".join([command.help or "", *(meaning for _, meaning in records), command.epilog or ""])


def test_help_of_every_command() -> None:
    commands = dict(iter_commands(typer.main.get_command(build_program())))
    assert len(commands) > 40
    assert [
        str(finding) for name, command in commands.items() for finding in find_in_text(name, help_text(command), RULES)
    ] == []


@pytest.mark.parametrize("word", RULES.words, ids=lambda word: word.use)
def test_every_pattern_is_valid_and_spares_code(word: Any) -> None:
    assert re.compile(word.find)
    assert word.use
    assert word.why
    rules = Rules(words=(word,))
    assert (
        list(find_in_text("a.md", "`nobody told it` and [a page](nobody-told.md)\n\n```\nnobody mends it\n```\n", rules)) == []
    )


def test_findings_have_a_place() -> None:
    text = "The first line.\n\nHere somebody\nmends `it`, as it\nis.\n"
    rules = Rules(words=tuple(word for word in RULES.words if re.search(word.find, "somebody mends, as it is")))
    lines = [(finding.file, finding.line) for finding in find_in_text("a.md", text, rules, 10)]
    assert sorted(lines) == [("a.md", 12), ("a.md", 13), ("a.md", 13)]


def test_exceptions_exist() -> None:
    patterns = {word.find for word in RULES.words}
    for exception in RULES.exceptions:
        assert exception.find in patterns
        assert exception.why
        files = list_files(exception.file)
        assert any(exception.text in Path(file).read_text("utf-8") for file in files)
