from hypothesis import given
from hypothesis import strategies as st

from transom.controllers.egress.host_counts import WAITS, HostCounts, HostTally
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.kube.objects import ObjectMeta
from transom.proxy.status import StatusCondition
from transom.windows.nodes.windows_instance import WindowsInstanceStatus

NAMES = ("win-1", "win-2", "win-3")


def host(
    name: str,
    status: str = "True",
    reason: str = "Ready",
    *,
    settings: str = "now",
    judged: int = 1,
    paused: bool = False,
    cluster: bool = False,
) -> CachedInstance:
    ready = StatusCondition("Ready", status, reason, observed_generation=judged)
    spec = {"paused": paused} | ({"clusterRef": {"name": "other"}} if cluster else {})
    return CachedInstance(ObjectMeta(name, generation=1), spec, WindowsInstanceStatus(conditions=(ready,), settings=settings))


def counts(*hosts: CachedInstance) -> HostCounts:
    tally = HostTally()
    for item in hosts:
        tally.record_change(None, item)
    return tally.get_counts("now")


def test_a_host_counts_by_what_is_said_of_it() -> None:
    assert counts(host("win-1")) == HostCounts(updated=1)
    assert counts(host("win-1", settings="before")) == HostCounts(waiting=1)
    assert counts(host("win-1", judged=0)) == HostCounts(waiting=1)
    assert counts(host("win-1", "Unknown", "NotChecked")) == HostCounts(waiting=1)
    assert counts(*(host(f"win-{reason}", "False", reason) for reason in WAITS)) == HostCounts(waiting=len(WAITS))
    assert counts(host("win-2", "False", "Unreachable"), host("win-1", "False", "Held")) == HostCounts(
        failed=("win-1", "win-2")
    )
    assert counts(host("win-1", "False", "Unreachable", judged=0)) == HostCounts(waiting=1)
    assert counts(host("win-1", paused=True), host("win-2", cluster=True)) == HostCounts()
    assert HostTally().get_counts(None) == HostCounts()


def test_settings_that_nobody_knows_are_nobodys() -> None:
    tally = HostTally()
    tally.record_change(None, host("win-1", settings=""))
    assert tally.get_counts(None) == HostCounts(waiting=1)


hosts = st.builds(
    host,
    st.just(""),
    st.sampled_from(["True", "False", "Unknown"]),
    st.sampled_from(["Ready", "Unreachable", *sorted(WAITS)[:2]]),
    settings=st.sampled_from(["now", "before", ""]),
    judged=st.integers(0, 1),
    paused=st.booleans(),
    cluster=st.booleans(),
)


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.none() | hosts), max_size=20))
def test_what_was_told_adds_up_to_what_is_there(steps: list[tuple[str, CachedInstance | None]]) -> None:
    tally = HostTally()
    there: dict[str, CachedInstance] = {}
    for name, drawn in steps:
        after = None if drawn is None else CachedInstance(ObjectMeta(name, generation=1), drawn.spec, drawn.status)
        before = {settings: tally.get_counts(settings) for settings in ("now", "before")}
        counted = tally.record_change(there.pop(name, None), after)
        if after is not None:
            there[name] = after
        for settings, was in before.items():
            anew = HostTally()
            for item in there.values():
                anew.record_change(None, item)
            assert tally.get_counts(settings) == anew.get_counts(settings)
            assert counted or tally.get_counts(settings) == was
