"""Real clients on this machine do what the profiles say, on cases that hypothesis draws."""

import pytest
from tests.proxy.clients import measuring
from tests.proxy.clients.drawn import disagreements, draw_cases

from transom.proxy.clients.urls import parse_url

COUNT = 200


@pytest.mark.lab
def test_real_clients_agree():
    cases = draw_cases(COUNT)
    for case in cases:
        parse_url(case["url"])
    measured = measuring.measure(cases)
    assert len(measured) == 17
    assert disagreements(cases, measured) == []
