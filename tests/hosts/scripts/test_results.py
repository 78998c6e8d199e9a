"""The words between a script and the pass that reads them: no side has one that the other does not."""

import re
from enum import StrEnum
from pathlib import Path

import pytest

from transom import hosts
from transom.hosts.scripts.results import IndexEntry, OutputMarker, ResultWord, substitute_words

HOSTS = Path(hosts.__file__).parent
SCRIPTS = [path.read_text("ascii") for path in (HOSTS / "scripts").glob("*.cmd")]
PASSES = [path.read_text("utf-8") for path in HOSTS.rglob("*.py") if path.name != "results.py"]
FOR_PEOPLE = {ResultWord.GONE, ResultWord.REVERSED}
"""What no pass reads: it stands in the file for who looks at a host."""


@pytest.mark.parametrize("words", [ResultWord, OutputMarker, IndexEntry])
def test_each_word_is_said_by_a_script_and_read_by_a_pass(words: type[StrEnum]) -> None:
    name = words.__name__
    said = {words[item] for text in SCRIPTS for item in re.findall(rf"@{name}\.([A-Z_]+)@", text)}
    read = {words[item] for text in PASSES for item in re.findall(rf"\b{name}\.([A-Z_]+)\b", text)}
    assert said == set(words)
    assert read == set(words) - FOR_PEOPLE


def test_no_script_says_a_word_of_its_own() -> None:
    spoken = re.compile(r'(?:"%RESULT%"|>index\.txt) echo (?!@(?:ResultWord|IndexEntry)\.)|echo transom-')
    assert [line for text in SCRIPTS for line in text.splitlines() if spoken.search(line)] == []


def test_word_that_is_not_there_is_an_error() -> None:
    assert substitute_words("echo @ResultWord.HELD@ @BASE@") == "echo held @BASE@"
    with pytest.raises(KeyError):
        substitute_words("echo @ResultWord.HALED@")
