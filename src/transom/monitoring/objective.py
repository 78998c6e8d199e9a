"""What is promised, each by a share of the metrics: PromQL, with `{range}` for the time over which it is judged."""

from typing import Final

import msgspec

from transom.monitoring import API_REQUESTS, DELAY, HOSTS, LATENCY, LEADER, PASSES, REVIEWS


class Objective(msgspec.Struct, frozen=True):
    """A service level: `indicator` gives the share of what was good, from 0 to 1, which is to be `target` over 30 days."""

    name: str
    meaning: str
    indicator: str
    target: float

    def over(self, span: str) -> str:
        """The indicator over a span of time, as PromQL writes one: `30d`."""
        return self.indicator.replace("{range}", span)


def _share(name: str, selector: str, of: str = "") -> str:
    """The rate of the series that a selector has, in the rate of `of`, or of all."""
    return f"sum(rate({name}{{{selector}}}[{{range}}])) / sum(rate({of or name}[{{range}}]))"


_FAILED: Final = _share(f"{PASSES.name}_count", 'result="failed"')
_REFUSED: Final = _share(API_REQUESTS.exposed, 'code=~"none|5.."')


OBJECTIVES: Final[tuple[Objective, ...]] = (
    Objective(
        "edit to host",
        "A host has other settings 15 minutes after they hold",
        _share(f"{DELAY.name}_bucket", 'le="900.0"', f"{DELAY.name}_count"),
        0.95,
    ),
    Objective(
        "passes",
        "A pass on a host does not fail",
        f"1 - {_FAILED}",
        0.99,
    ),
    Objective(
        "configured hosts",
        "A host is configured, at any moment",
        f'sum(avg_over_time({HOSTS.name}{{condition="Configured",status="True"}}[{{range}}]))'
        f' / sum(avg_over_time({HOSTS.name}{{condition="Configured"}}[{{range}}]))',
        0.99,
    ),
    Objective(
        "leader",
        "One operator works, at any moment",
        f"avg_over_time(max({LEADER.name})[{{range}}:])",
        0.999,
    ),
    Objective(
        "API server",
        "A request of the operator is answered, and by no error of the server",
        f"1 - {_REFUSED}",
        0.99,
    ),
    Objective(
        "admission",
        "A review is answered",
        _share(REVIEWS.exposed, 'code="200"'),
        0.999,
    ),
    Objective(
        "admission latency",
        "A review is answered within 100 ms",
        _share(f"{LATENCY.name}_bucket", 'le="0.1"', f"{LATENCY.name}_count"),
        0.99,
    ),
)
