"""README's first screen: what a person types first, before anything else that can be copied."""

import re

from tests.support.pages import blocks
from tests.support.repository import ROOT

README = (ROOT / "README.md").read_text("utf-8")
FIRST = ("git clone URL transom && cd transom", "scripts/demo", "scripts/test")
SCREEN = 40
"""Lines."""


def test_the_first_block_has_the_commands_of_a_fresh_machine() -> None:
    first = next(blocks(ROOT / "README.md"))
    assert first.lines == FIRST
    assert first.mark == (
        "run by",
        "tests/stories/test_fresh_machine.py::test_the_commands_of_readme_on_a_bare_debian",
    )
    screen = README.splitlines()[:SCREEN]
    assert screen.index(FIRST[-1]) < screen.index("```", screen.index(FIRST[0]))
    before = "\n".join(screen[: screen.index(FIRST[0])])
    assert before.count("```") == 1
    assert "![" not in before


def test_the_first_screen_says_what_a_machine_without_root_can_do() -> None:
    screen = "\n".join(README.splitlines()[:SCREEN])
    assert re.search(r"^pipx install \. && \S+/transom demo$", screen, re.MULTILINE)


def test_it_is_short() -> None:
    assert len(README.split()) <= 890
