"""The service level objectives, each a ratio of metrics: PromQL, with `{range}` for its time range."""

from typing import Final

import msgspec

from transom.monitoring.metric_definitions import API_REQUESTS, DELAY, HOSTS, LATENCY, LEADER, PASSES, REVIEWS


class Objective(msgspec.Struct, frozen=True):
    """A service level objective: over 30 days, `indicator`, the share of good events from 0 to 1, must be at least `target`."""

    name: str
    meaning: str
    indicator: str
    target: float

    def build_query(self, span: str) -> str:
        """Build the PromQL query of the indicator over a span of time such as `30d`."""
        return self.indicator.replace("{range}", span)


def _build_ratio_query(name: str, selector: str, total_name: str = "") -> str:
    """Build the rate of a selector's series divided by the rate of `total_name`, or of all."""
    return f"sum(rate({name}{{{selector}}}[{{range}}])) / sum(rate({total_name or name}[{{range}}]))"


_FAILED: Final = _build_ratio_query(f"{PASSES.name}_count", 'result="failed"')
_REFUSED: Final = _build_ratio_query(API_REQUESTS.exposed_name, 'code=~"none|5.."')


OBJECTIVES: Final[tuple[Objective, ...]] = (
    Objective(
        "edit to host",
        "A host has new settings within 15 minutes",
        _build_ratio_query(f"{DELAY.name}_bucket", 'le="900.0"', f"{DELAY.name}_count"),
        0.95,
    ),
    Objective(
        "passes",
        "A pass on a host succeeds",
        f"1 - {_FAILED}",
        0.99,
    ),
    Objective(
        "configured hosts",
        "A host is configured",
        f'sum(avg_over_time({HOSTS.name}{{condition="Configured",status="True"}}[{{range}}]))'
        f' / sum(avg_over_time({HOSTS.name}{{condition="Configured"}}[{{range}}]))',
        0.99,
    ),
    Objective(
        "leader",
        "One operator is the leader",
        f"avg_over_time(max({LEADER.name})[{{range}}:])",
        0.999,
    ),
    Objective(
        "API server",
        "The API server answers a request of the operator without a server error",
        f"1 - {_REFUSED}",
        0.99,
    ),
    Objective(
        "admission",
        "The admission server answers a review",
        _build_ratio_query(REVIEWS.exposed_name, 'code="200"'),
        0.999,
    ),
    Objective(
        "admission latency",
        "The admission server answers a review within 100 ms",
        _build_ratio_query(f"{LATENCY.name}_bucket", 'le="0.1"', f"{LATENCY.name}_count"),
        0.99,
    ),
)
