"""The man page has every command and option, and nothing that groff does not understand."""

import subprocess

import pytest
from tests.cli.tree import GROUPS, commands
from tests.support.repository import DOCS

from transom import __version__
from transom.cli.man_page import render_man_page

PAGE = DOCS / "transom.1"


def test_the_page_is_that_of_the_commands() -> None:
    """`scripts/reference` writes it."""
    page = PAGE.read_text("utf-8")
    assert page == render_man_page(__version__)
    names = {" ".join(("transom", *group, name)) for group in GROUPS for name in dict(commands(group))}
    of_groups = {" ".join(("transom", *group)) for group in GROUPS}
    assert [name for name in names - of_groups if f'.SS "{name}"'.replace("-", "\\-") not in page] == []


@pytest.mark.lab
def test_groff_finds_nothing_wrong() -> None:
    command = ["groff", "-man", "-ww", "-Tutf8", "-Kutf8"]
    done = subprocess.run([*command, PAGE], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "transom no-proxy check" in done.stdout
    wrong = subprocess.run([*command, "-z"], input=".TH A 1\n.nonsense\n", capture_output=True, text=True, check=True)
    assert "nonsense" in wrong.stderr
