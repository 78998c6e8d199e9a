"""What one stranger's review costs: time of the event loop, memory meanwhile, and memory afterwards."""

import gc
import time
import timeit
from typing import Any

import pytest
from tests.pods.table import decoded, pod_egress
from tests.support.event_loop import measure_cost
from tests.webhook.caller import Caller, of, reviewed
from tests.webhook.hostile_reviews import LISTS, REVIEWS, BuildPod, build_pod

from transom.pods.patch import PodPatcher
from transom.pods.pod_size import MAX_CONTAINERS, MAX_ITEMS
from transom.webhook import review
from transom.webhook.server import MAX_BODY

MAX_SECONDS = 0.5
"""Of the event loop for one review: the API server waits ten times as long."""
MAX_MEMORY = 64 << 20
"""Bytes for one review. The limit of a replica is 192Mi, and it has some 60 MiB of its own."""
CA = {"transom.dev/inject-ca": "true"}


@pytest.mark.parametrize("name", REVIEWS)
async def test_a_review_costs_little_and_the_next_one_is_answered(caller: Caller, name: str) -> None:
    body = REVIEWS[name]("1")
    assert len(body) < MAX_BODY
    await caller.works()
    gc.collect()
    with measure_cost() as cost:
        code, _ = await caller.post(body)
    assert code in (200, 400)
    assert cost.longest < MAX_SECONDS, cost.callback
    assert cost.growth < MAX_MEMORY
    await caller.works()


@pytest.mark.parametrize("name", LISTS)
def test_the_cost_grows_with_each_list_no_faster_than_its_length(name: str) -> None:
    """Read and decided below and above the bounds: eight times the items, less than sixteen times the time."""
    for settings in ("plain", "credentials"):
        patcher = PodPatcher(pod_egress(settings))
        for most, least_seconds in ((MAX_CONTAINERS, 0.01), (20_000, 0.03)):
            assert grows_slowly(patcher, LISTS[name], most, least_seconds), settings


def grows_slowly(patcher: PodPatcher, build: BuildPod, most: int, least_seconds: float) -> bool:
    """Return True if one of five attempts keeps the bound: beside other tests, page faults can take twice the time."""
    for _ in range(5):
        few, many = (measure(patcher, build, count) for count in (most // 8, most))
        if many < max(16 * few, least_seconds):
            return True
    return False


def measure(patcher: PodPatcher, build: BuildPod, count: int) -> float:
    """Return the fewest CPU seconds of five reviews of such a pod; timeit runs them without garbage collection."""
    body = of(reviewed(object=build(count)))

    def run() -> None:
        request = review.parse_review_request(body)
        made = review.build_request_patch(request, CA, patcher)
        assert made is not None
        review.build_answer(request, review.limit_patch(made, body))

    return min(timeit.repeat(run, timer=time.thread_time, number=1, repeat=5))


@pytest.mark.parametrize(
    ("most", "build"),
    [
        (MAX_CONTAINERS, lambda count: build_pod({"containers": [{"name": f"c{number}"} for number in range(count)]})),
        (MAX_CONTAINERS, lambda count: build_pod({"initContainers": [{"name": f"c{number}"} for number in range(count - 1)]})),
        (MAX_ITEMS, lambda count: build_pod({"containers": [{"name": "a", "env": [{"name": "x"}] * count}]})),
        (MAX_ITEMS, lambda count: build_pod({"containers": [{"name": "a", "envFrom": [{"prefix": "x"}] * count}]})),
        (MAX_ITEMS, lambda count: build_pod({"containers": [{"name": "a", "volumeMounts": [{"name": "x"}] * count}]})),
        (MAX_ITEMS, lambda count: build_pod({"volumes": [{"name": "x"}] * count})),
    ],
    ids=["containers", "init containers", "variables", "envFrom", "mounts", "volumes"],
)
async def test_a_pod_of_too_many_items_starts_as_it_is_and_its_user_is_told(caller: Caller, most: int, build: BuildPod) -> None:
    code, answered = await caller.post(of(reviewed(object=build(most))))
    assert (code, answered["response"].get("patchType")) == (200, "JSONPatch")
    code, answered = await caller.post(of(reviewed(object=build(most + 1))))
    assert_left_alone(code, answered)
    assert f"{most:,}" in answered["response"]["warnings"][0]


def assert_left_alone(code: int, answered: Any) -> None:
    response = answered["response"]
    assert (code, response["allowed"], response.get("patch")) == (200, True, None)
    assert len(response["warnings"]) == 1
    assert response["warnings"][0].startswith("transom: no settings for this pod: ")
    assert response["auditAnnotations"]["proxy"].startswith("not given: ")


async def test_a_review_of_too_many_values_is_allowed_and_its_user_is_told(caller: Caller) -> None:
    pod = build_pod({"containers": [{}] * 250_000})
    for request in ({"object": pod}, {"oldObject": pod, "operation": "UPDATE", "subResource": "ephemeralcontainers"}):
        assert_left_alone(*await caller.post(of(reviewed(**request))))
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    code, answered = await caller.post(of(reviewed(kind=kind, object=pod)))
    assert (code, answered["response"]) == (200, {"uid": "u1", "allowed": True})


async def test_commas_and_brackets_in_a_text_are_no_values(caller: Caller) -> None:
    """`last-applied-configuration` is full of them."""
    value = '{"a": [1, 2]}, ' * 60_000
    for pod in (
        build_pod({"containers": [{"name": "app", "args": [value, '\\"' * 1_000, value]}]}),
        build_pod({"containers": [{"name": "app", "env": [{"name": "x", "value": value}]}]}),
    ):
        code, answered = await caller.post(of(reviewed(object=pod)))
        assert (code, answered["response"]["patchType"]) == (200, "JSONPatch")


async def test_annotations_of_more_than_kubernetes_takes(caller: Caller) -> None:
    for annotations in ({"a": "x" * (300 << 10)}, {f"a{number}": "x" * 1_000 for number in range(300)}):
        assert_left_alone(*await caller.post(of(reviewed(object=build_pod({}, annotations=annotations)))))
    code, answered = await caller.post(of(reviewed(object=build_pod({}, annotations={"a": "x" * (250 << 10)}))))
    assert (code, answered["response"]["patchType"]) == (200, "JSONPatch")


@pytest.mark.parametrize("namespace", ["..", ".", "a/b", "a?b", "a b", "A", "-a", "a-", "a.b", "a\n", "x" * 64, "ä"])
async def test_a_namespace_that_cannot_exist_is_refused(caller: Caller, namespace: str) -> None:
    for request in ({"namespace": namespace}, {"namespace": None, "object": build_pod({}, namespace=namespace)}):
        code, status = await caller.post(of(reviewed(**request)))
        assert (code, status["reason"]) == (400, "BadRequest")
        assert namespace not in status["message"].removeprefix("request.").replace("object.metadata.", "") or namespace in ".a"


async def test_a_uid_that_no_api_server_sends_is_refused(caller: Caller) -> None:
    for length, wanted in ((128, 200), (129, 400)):
        assert (await caller.post(of(reviewed(uid="u" * length))))[0] == wanted


async def test_long_texts_of_a_review_are_short_in_its_answer(caller: Caller) -> None:
    for name in ("long container name that keeps its proxy", "long container name", "long unknown value"):
        code, answered = await caller.post(REVIEWS[name]("1"))
        assert code == 200
        response = answered["response"]
        texts = [*response.get("warnings", ()), *response["auditAnnotations"].values()]
        assert all(len(text) <= 2_020 for text in texts)


def test_no_list_of_the_pod_type_is_without_a_hostile_one() -> None:
    """A list or a mapping that is added to the type needs a line in LISTS."""
    import msgspec

    from transom.pods import pod_types

    fields = {
        field.encode_name
        for var in vars(pod_types).values()
        if isinstance(var, type) and issubclass(var, msgspec.Struct) and var is not pod_types._Base
        for field in msgspec.structs.fields(var)
        if "list" in str(field.type) or "dict" in str(field.type) or "Any" in str(field.type)
    }
    texts = "".join(str(build(2)) for build in LISTS.values())
    assert {field for field in fields if f"'{field}'" not in texts} == set()
    assert decoded(build_pod({})).spec.containers
