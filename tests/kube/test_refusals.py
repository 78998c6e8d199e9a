"""Rights that requests lack: from the words of the API server to a state that ends."""

import pytest

from transom.kube.refusals import Refusals

USER = 'User "system:serviceaccount:transom-system:transom"'
PATCH = "/apis/transom.dev/v1alpha1/egressproxies/cluster/status"


def refused(verb: str, resource: str, group: str = "", namespace: str = "") -> str:
    place = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return f'x is forbidden: {USER} cannot {verb} resource "{resource}" in API group "{group}" {place}'


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("message", "right"),
    [
        (refused("list", "secrets", namespace="transom-system"), "list secrets in transom-system"),
        (refused("patch", "egressproxies/status", "transom.dev"), "patch egressproxies.transom.dev/status"),
        (refused("create", "pods/eviction", namespace="shop"), "create pods/eviction in shop"),
        (refused("watch", "nodes") + ': RBAC: clusterrole.rbac.authorization.k8s.io "transom" not found', "watch nodes"),
        ('pods "x" is forbidden: exceeded quota: mem-cpu-demo', ""),
        ('secrets "x" is forbidden: unable to create new content in namespace n because it is being terminated', ""),
        ('admission webhook "v.example" denied the request: no', ""),
        ("HTTP 403", ""),
        ("", ""),
    ],
)
def test_a_refusal_names_the_right_that_is_missing(message: str, right: str) -> None:
    clock = Clock()
    refusals = Refusals(clock)
    refusals.note_refusal("GET", "/api/v1/namespaces/transom-system/secrets", message)
    clock.now += 30
    assert [str(item) for item in refusals.list_lasting(30)] == ([right] if right else [])


def test_it_lasts_from_the_first_refusal_to_the_first_success() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    message = refused("patch", "egressproxies/status", "transom.dev")
    for _ in range(3):
        refusals.note_refusal("PATCH", PATCH, message)
        assert refusals.list_lasting(30) == ()
        clock.now += 10
    assert len(refusals.list_lasting(30)) == 1
    # what needs other rights says nothing about this one
    for method, path in (
        ("GET", PATCH),
        ("PATCH", "/apis/transom.dev/v1alpha1/egressproxies/cluster"),
        ("PATCH", "/apis/transom.dev/v1alpha1/namespaces/a/windowsinstances/x/status"),
        ("GET", "/apis/transom.dev/v1alpha1/egressproxies"),
    ):
        refusals.note_success(method, path)
    assert len(refusals.list_lasting(30)) == 1
    refusals.note_success("PATCH", PATCH)
    assert refusals.list_lasting(0) == ()
    # and it begins again from there
    refusals.note_refusal("PATCH", PATCH, message)
    clock.now += 29
    assert refusals.list_lasting(30) == ()


def test_one_request_can_lack_two_rights_one_after_the_other() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    path = "/api/v1/namespaces/a/secrets/x"
    for verb in ("create", "patch"):
        refusals.note_refusal("PATCH", path, refused(verb, "secrets", namespace="a"))
    clock.now += 60
    assert len(refusals.list_lasting(30)) == 2
    refusals.note_success("PATCH", "/api/v1/namespaces/a/secrets/another")
    assert refusals.list_lasting(0) == ()


def test_a_host_of_a_thousand_is_one_right() -> None:
    refusals = Refusals(Clock())
    for number in range(1000):
        path = f"/apis/transom.dev/v1alpha1/namespaces/transom-system/windowsinstances/win-{number}/status"
        message = refused("patch", "windowsinstances/status", "transom.dev", "transom-system")
        refusals.note_refusal("PATCH", path, message)
    assert len(refusals.list_lasting(0)) == 1


def test_what_is_not_asked_for_any_more_is_forgotten() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    refusals.note_refusal("DELETE", "/api/v1/nodes/gone", refused("delete", "nodes"))
    clock.now += 600
    assert len(refusals.list_lasting(30)) == 1
    clock.now += 301
    assert refusals.list_lasting(30) == ()


def test_a_server_that_names_ever_new_kinds_is_bounded() -> None:
    refusals = Refusals(Clock())
    for number in range(5000):
        refusals.note_refusal("GET", f"/apis/g/v1/kind-{number}", refused("list", f"kind-{number}", "g"))
    assert len(refusals.list_lasting(0)) <= 256
    assert len(refusals._rights) <= 256


def test_who_works_without_it_waives_it() -> None:
    refusals = Refusals(Clock())
    message = refused("list", "awsclusters", "infrastructure.cluster.x-k8s.io")
    refusals.note_refusal("GET", "/apis/infrastructure.cluster.x-k8s.io/v1beta2/awsclusters", message)
    refusals.forget_refused_request(message)
    assert refusals.list_lasting(0) == ()


def test_a_right_that_one_caller_can_do_without_is_still_missing_to_another() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    path = "/apis/controlplane.cluster.x-k8s.io/v1beta1/kubeadmcontrolplanes"
    message = refused("list", "kubeadmcontrolplanes", "controlplane.cluster.x-k8s.io")
    refusals.note_refusal("GET", path, message)
    refusals.forget_refused_request(message)
    clock.now += 60
    assert refusals.list_lasting(30) == ()
    for _ in range(3):
        refusals.note_refusal("GET", path, message)
        refusals.note_refusal("GET", path, message)
        refusals.forget_refused_request(message)
        clock.now += 30
    assert len(refusals.list_lasting(30)) == 1


@pytest.mark.parametrize("kind", ["secrets", "endpointslices.discovery.k8s.io", "leases.coordination.k8s.io"])
def test_the_name_of_the_object_is_known_for_the_review_of_the_right(kind: str) -> None:
    refusals = Refusals(Clock())
    message = f'{kind} "kubernetes" is forbidden: {refused("get", kind.partition(".")[0], kind.partition(".")[2], "default")}'
    right = refusals.note_refusal("GET", "/apis/x/v1/namespaces/default/y/kubernetes", message)
    assert right is not None
    assert refusals.get_last_refused_name(right) == "kubernetes"
