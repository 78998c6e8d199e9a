"""Cases that hypothesis draws, and where the profiles say something else of them than real clients do."""

from collections.abc import Mapping, Sequence

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from tests.proxy.clients import measuring
from tests.proxy.clients.strategies import related

from transom.proxy.clients.client_table import CLIENTS
from transom.proxy.clients.decision import decide

VARIABLES = st.sampled_from(["no_proxy", "no_proxy", "NO_PROXY", "both"])


def draw_cases(count: int, seed: int | None = None) -> list[measuring.Case]:
    """`count` different cases; those of a seed, else as the profile of hypothesis says."""
    drawn: dict[tuple[str, str], str] = {}

    def collect(pair: tuple[str, str], variable: str) -> None:
        if len(drawn) < count:
            drawn[pair] = variable

    draw = given(related(), VARIABLES)(collect)
    if seed is not None:
        draw = seeded(seed)(draw)
    chosen = settings(
        max_examples=4 * count, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    chosen(draw)()
    assert len(drawn) == count
    return [{"no_proxy": value, "url": url, "variable": variable} for (value, url), variable in drawn.items()]


def disagreements(
    cases: Sequence[measuring.Case], measured: Mapping[str, Sequence[bool]]
) -> list[tuple[str, measuring.Case, str, str]]:
    """Client, case, what it does, and why its profile says that it does not."""
    found = []
    for name, bypasses in measured.items():
        assert len(bypasses) == len(cases)
        for case, bypass in zip(cases, bypasses, strict=True):
            if name in measuring.HTTP_ALONE and case["url"].startswith("https:"):
                continue
            if name == "java-nonproxyhosts":
                decision = decide(CLIENTS[name], case["url"], case["no_proxy"].replace(",", "|"))
            else:
                decision = decide(CLIENTS[name], case["url"], environment=measuring.variables(case, 3128))
            # a client that fails asks no proxy
            if (decision.bypass is not False) is not bypass:
                found.append((name, case, "bypasses" if bypass else "asks the proxy", decision.reason))
    return found
