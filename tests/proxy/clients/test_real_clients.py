"""Real clients on this machine do what the profiles say, on cases that hypothesis draws."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.proxy.clients import measuring
from tests.proxy.clients.strategies import related

from transom.proxy.clients import CLIENTS, decide
from transom.proxy.clients.urls import parse_url

COUNT = 200
VARIABLES = st.sampled_from(["no_proxy", "no_proxy", "NO_PROXY", "both"])


def draw_cases() -> list[measuring.Case]:
    """`COUNT` different cases."""
    drawn: dict[tuple[str, str], str] = {}

    @settings(
        max_examples=4 * COUNT, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(related(), VARIABLES)
    def collect(pair: tuple[str, str], variable: str) -> None:
        if len(drawn) < COUNT:
            drawn[pair] = variable

    collect()
    assert len(drawn) == COUNT
    return [{"no_proxy": value, "url": url, "variable": variable} for (value, url), variable in drawn.items()]


@pytest.mark.lab
def test_real_clients_agree():
    cases = draw_cases()
    for case in cases:
        parse_url(case["url"])
    measured = measuring.measure(cases)
    assert len(measured) == 9
    disagreements = []
    for name, bypasses in measured.items():
        assert len(bypasses) == len(cases)
        for case, bypass in zip(cases, bypasses, strict=True):
            if name == "java-nonproxyhosts":
                decision = decide(CLIENTS[name], case["url"], case["no_proxy"].replace(",", "|"))
            else:
                decision = decide(CLIENTS[name], case["url"], environment=measuring.variables(case, 3128))
            # a client that fails asks no proxy
            if (decision.bypass is not False) is not bypass:
                disagreements.append((name, case, "bypasses" if bypass else "asks the proxy", decision.reason))
    assert disagreements == []
