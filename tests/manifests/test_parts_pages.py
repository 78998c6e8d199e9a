"""The pages that tell of the parts of a host have what the parts say."""

import pytest
from tests.support.repository import DOCS

from transom.manifests.parts_pages import BEGIN, END, PAGES, insert_parts
from transom.windows.ledger import SETTINGS


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_what_the_parts_say(name: str) -> None:
    page = (DOCS / name).read_text("utf-8")
    assert (page.count(BEGIN), page.count(END)) == (1, 1)
    assert insert_parts(name, page) == page, "scripts/reference writes it"


def test_each_part_is_told_of_where_it_writes() -> None:
    lines = list(PAGES["security.md"]())
    assert len(lines) == 2 + len(SETTINGS)
    assert [part.ABOUT.place for part in SETTINGS.values()] == [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]]


def test_a_switch_is_told_of_with_what_it_does() -> None:
    (line,) = (line for line in PAGES["settings.md"]() if line.startswith("| `winHTTP` | "))
    assert "WinHTTP's proxy" in line
