"""Writes that are refused although the right exists: from the answers of an API server to a state that ends."""

import pytest

from transom.kube.errors import build_status_error
from transom.kube.refused_writes import RefusedWrites

HOSTS = "/apis/transom.dev/v1alpha1/namespaces/transom-system/windowsinstances"
SETTINGS = "/apis/transom.dev/v1alpha1/egressproxies/cluster/status"
CONFIG_MAPS = "/api/v1/namespaces/transom-system/configmaps"
QUOTA = 'configmaps "transom-rollouts" is forbidden: exceeded quota: q, requested: count/configmaps=1'


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def refuse(refused: RefusedWrites, clock: Clock, method: str, path: str, code: int, message: str) -> None:
    """As often as a key that fails does, for half a minute."""
    for _ in range(4):
        refused.note_refusal(method, path, build_status_error(code, "", message))
        clock.now += 10


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [
        ("POST", CONFIG_MAPS, "create configmaps in transom-system: no"),
        ("PUT", f"{CONFIG_MAPS}/transom-rollouts", "update configmaps in transom-system: no"),
        ("PATCH", f"{HOSTS}/win-1/status", "patch windowsinstances.transom.dev/status in transom-system: no"),
        ("PATCH", f"{HOSTS}/win-1", "patch windowsinstances.transom.dev in transom-system: no"),
        ("PATCH", SETTINGS, "patch egressproxies.transom.dev/status: no"),
        ("DELETE", "/api/v1/nodes/win-1", "delete nodes: no"),
        ("PATCH", "/api/v1/namespaces/team-a", "patch namespaces: no"),
    ],
)
def test_a_write_is_named_by_verb_kind_and_namespace(method: str, path: str, text: str) -> None:
    clock = Clock()
    refused = RefusedWrites(clock)
    refuse(refused, clock, method, path, 500, "no")
    assert [str(item) for item in refused.list_lasting(30)] == [text]


@pytest.mark.parametrize(
    ("method", "code", "lasts"),
    [
        ("POST", 403, True),
        ("POST", 422, True),
        ("POST", 500, True),
        ("POST", 503, True),
        # its writer knows what to do
        ("POST", 409, False),
        ("POST", 404, False),
        ("POST", 429, False),
        ("POST", 401, False),
        ("GET", 500, False),
    ],
)
def test_what_a_writer_expects_is_no_state(method: str, code: int, *, lasts: bool) -> None:
    clock = Clock()
    refused = RefusedWrites(clock)
    refuse(refused, clock, method, CONFIG_MAPS, code, QUOTA)
    assert bool(refused.list_lasting(30)) == lasts


def test_it_lasts_from_the_first_refusal_to_a_success_of_the_same_kind() -> None:
    clock = Clock()
    refused = RefusedWrites(clock)
    refused.note_refusal("PATCH", f"{HOSTS}/win-1/status", build_status_error(500, "", "no"))
    clock.now += 300
    assert refused.list_lasting(30) == (), "one refusal may be the object's"
    refused.note_refusal("PATCH", f"{HOSTS}/win-2/status", build_status_error(500, "", "no"))
    assert len(refused.list_lasting(30)) == 1
    for method, path in (("PATCH", f"{HOSTS}/win-1"), ("PUT", f"{HOSTS}/win-1/status"), ("PATCH", SETTINGS)):
        refused.note_success(method, path)
    assert len(refused.list_lasting(30)) == 1
    refused.note_success("PATCH", f"{HOSTS}/win-9/status")
    assert refused.list_lasting(0) == ()


def test_a_refusal_that_is_not_repeated_is_forgotten() -> None:
    clock = Clock()
    refused = RefusedWrites(clock)
    refuse(refused, clock, "POST", CONFIG_MAPS, 403, QUOTA)
    clock.now += 500
    assert refused.list_lasting(30) == ()


def test_a_message_of_a_stranger_is_short_and_has_no_control_characters() -> None:
    clock = Clock()
    refused = RefusedWrites(clock)
    refuse(refused, clock, "POST", CONFIG_MAPS, 403, "a\nb\x1b[2J" + "x" * 5000)
    (write,) = refused.list_lasting(30)
    assert write.why.isprintable()
    assert len(write.why) <= 300


def test_its_memory_is_bounded() -> None:
    clock = Clock()
    refused = RefusedWrites(clock)
    for number in range(1000):
        path = f"/api/v1/namespaces/n{number}/configmaps"
        for _ in range(2):
            refused.note_refusal("POST", path, build_status_error(403, "", QUOTA))
    assert len(refused.list_lasting(0)) < 100


@pytest.mark.parametrize(
    ("method", "path", "ends"),
    [
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/transom-system/leases/transom", True),
        # neither of these has to reach etcd
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", False),
        ("PATCH", SETTINGS, False),
    ],
)
def test_a_renewed_lease_shows_that_etcd_is_not_full_any_more(method: str, path: str, *, ends: bool) -> None:
    """The event that was refused may never be sent again."""
    clock = Clock()
    refused = RefusedWrites(clock)
    refuse(refused, clock, "POST", "/api/v1/namespaces/transom-system/events", 500, "etcdserver: mvcc: database space exceeded")
    refuse(refused, clock, "POST", CONFIG_MAPS, 403, QUOTA)
    refused.note_success(method, path)
    left = {item.resource for item in refused.list_lasting(30)}
    assert left == ({"configmaps"} if ends else {"configmaps", "events"})


def test_a_process_that_does_not_work_any_more_has_nothing_to_report() -> None:
    clock = Clock()
    refused = RefusedWrites(clock)
    refuse(refused, clock, "POST", CONFIG_MAPS, 403, QUOTA)
    refused.forget_all()
    assert refused.list_lasting(0) == ()
