"""What the page gives to copy and warns of is what lint says."""

import pytest
from tests.proxy.clients import page

from transom.proxy.clients.harms import find_harms
from transom.proxy.clients.lint import lint


def test_the_list_to_copy_harms_nobody():
    value = ",".join(page.SAFE_LIST)
    assert find_harms(value) == []
    assert [item for item in lint(value) if item.level != "note"] == []


@pytest.mark.parametrize("value", [value for _, value, _, _ in page.MISTAKES])
def test_a_mistake_is_an_error(value):
    assert "error" in {item.level for item in lint(value)}
