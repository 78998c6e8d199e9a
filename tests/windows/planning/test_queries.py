"""What is asked of a host, in which pass, and what that costs the host."""

from collections.abc import Callable

import pytest
from tests.windows.authorities import authorities, der, sha1

from transom.windows.host.host_state import DesiredState, ObservedState, Service, ServiceState
from transom.windows.host.queries import ENVIRONMENT, SERVICES, STORES, Queries
from transom.windows.parts import certificates
from transom.windows.planning.planner import plan, predict_state
from transom.windows.planning.queries import (
    PROCESSES,
    build_follow_up_queries,
    build_initial_queries,
    build_requery,
    merge_queries,
    subtract_queries,
)
from transom.windows.registry.edits import CreateKey, Edit, SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_multi_sz, build_sz

SALT = b"0123456789abcdef"
ROOT, CA, DISALLOWED = (certificates.get_store_path(name) for name in ("ROOT", "CA", "Disallowed"))
root, _, issuing = authorities()


def wanted(*, scope: str = "Services", trust: bool = True) -> DesiredState:
    edits: list[Edit] = [CreateKey(rf"{SERVICES}\containerd")]
    if scope in ("Services", "Both"):
        edits = [SetValue(rf"{SERVICES}\containerd", "Environment", build_multi_sz(["HTTP_PROXY=http://p.x"]))]
    if scope in ("Machine", "Both"):
        edits.append(SetValue(ENVIRONMENT, "HTTP_PROXY", build_sz("http://p.x")))
    for store, c in ((ROOT, root), (CA, issuing)) if trust else ():
        edits.append(SetValue(rf"{store}\{sha1(c)}", "Blob", certificates.build_blob(der(c), sha1(c))))
    return DesiredState(Registry().apply_edits(edits))


NOTHING = wanted(scope="", trust=False)


def host(*keys: str) -> ObservedState:
    edits = [CreateKey(path) for path in (rf"{SERVICES}\containerd", STORES, *keys)]
    return ObservedState(Registry().apply_edits(edits), (Service("containerd", ServiceState.RUNNING),), boot=7, dependencies={})


def asked_more(desired: DesiredState, actual: ObservedState) -> Queries | None:
    return build_follow_up_queries(build_initial_queries(desired), plan(desired, actual, SALT))


def test_the_first_questions_ask_for_no_more_than_the_settings_speak_of() -> None:
    assert build_initial_queries(NOTHING) == Queries(services=("containerd",))
    assert build_initial_queries(wanted()) == Queries(services=("containerd",), stores=(ROOT, CA, DISALLOWED))
    assert build_initial_queries(wanted(scope="Machine", trust=False)) == Queries(
        services=("containerd",), environment=True, boot=True
    )


def test_an_expected_change_asks_for_dependants_where_the_processes_allow_it() -> None:
    assert build_initial_queries(wanted(trust=False), change_expected=True).dependants
    assert build_initial_queries(NOTHING, change_expected=True).dependants
    assert not build_initial_queries(wanted(), change_expected=True).dependants
    assert not build_initial_queries(wanted(scope="Machine"), change_expected=True).dependants
    assert not build_initial_queries(wanted(trust=False)).dependants


@pytest.mark.parametrize(
    "desired", [wanted(), wanted(scope="Machine"), wanted(trust=False), wanted(scope="", trust=True), NOTHING]
)
@pytest.mark.parametrize("keys", [(), (ROOT, CA), (CA,)])
def test_a_host_that_is_right_is_asked_once(desired: DesiredState, keys: tuple[str, ...]) -> None:
    right = predict_state(host(*keys), plan(desired, host(*keys), SALT))
    assert not plan(desired, right, SALT)
    assert asked_more(desired, right) is None


CASES: list[tuple[str, DesiredState, ObservedState, Callable[[Queries], object], object]] = [
    ("a restart asks who depends on it", wanted(trust=False), host(), lambda q: q.dependants, True),
    (
        "a new certificate asks the policy stores",
        wanted(),
        host(ROOT, CA),
        lambda q: certificates.get_policy_store_path("ROOT") in q.stores,
        True,
    ),
    ("a store that is not there asks for its parent", wanted(), host(ROOT), lambda q: rf"{STORES}\CA" in q.stores, True),
    ("a store that is there does not", wanted(), host(ROOT, CA), lambda q: rf"{STORES}\CA" in q.stores, False),
    (
        "a certificate found there asks for its content",
        wanted(),
        host(ROOT, CA, rf"{ROOT}\{sha1(root)}"),
        lambda q: q.keys,
        (rf"{ROOT}\{sha1(root)}",),
    ),
]


@pytest.mark.parametrize(("_why", "desired", "actual", "part", "value"), CASES, ids=[case[0] for case in CASES])
def test_what_the_answers_ask_for(
    _why: str, desired: DesiredState, actual: ObservedState, part: Callable[[Queries], object], value: object
) -> None:
    asked = asked_more(desired, actual)
    assert asked is not None
    assert part(asked) == value


@pytest.mark.parametrize("expected", [False, True])
@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize("scope", ["", "Services", "Machine", "Both"])
def test_no_gather_starts_more_than_four_processes_beside_those_for_services(scope: str, trust: bool, expected: bool) -> None:
    desired = wanted(scope=scope, trust=trust)
    actual = host(STORES, ROOT, CA)
    asked = build_initial_queries(desired, change_expected=expected)
    assert asked.processes <= PROCESSES
    assert asked.walk == (trust and scope in ("Machine", "Both"))
    rest = build_follow_up_queries(asked, plan(desired, actual, SALT))
    everything = merge_queries(asked, rest) if rest else asked
    assert subtract_queries(everything, asked).processes <= PROCESSES
    assert build_requery(everything, actual).processes <= PROCESSES


def test_stores_are_walked_where_they_lie_below_one_key() -> None:
    both = Queries(stores=(ROOT, CA, rf"{STORES}\CA", certificates.get_policy_store_path("ROOT")), walk=True)
    assert both.walks == {STORES: (ROOT, CA)}
    assert both.processes == 1 + 1 + 2
    assert not Queries(stores=(ROOT, CA)).walks


def test_removal_asks_for_what_the_ledger_speaks_of() -> None:
    machine = wanted(scope="Machine")
    applied = predict_state(host(ROOT), plan(machine, host(ROOT), SALT))
    asked = asked_more(NOTHING, applied)
    assert asked is not None
    assert asked.environment
    assert asked.boot
    assert set(asked.stores) == {ROOT, CA}
    # keys that were made for the certificates: what else is in them has to be seen
    assert set(asked.keys) == {CA, rf"{STORES}\CA"}
