"""What is brought into a workload cluster for its pods, and what is said of it by its own word."""

from typing import Any

import pytest
from tests.support.management.manifests import base, cluster, credentials, egress_proxy, read

from transom.controllers.propagation.propagated_objects import build_objects, has_objects_to_propagate
from transom.controllers.propagation.propagation_state import PropagationState, build_conditions
from transom.controllers.propagation.propagation_state import read_propagation_state as standing_of
from transom.kube.store import ObjectKey
from transom.pods.environment import build_pod_egress
from transom.proxy.settings import Egress
from transom.sources.objects import ObjectReader

PLACE = ("org-giantswarm", "mycluster")
SELECTOR = {
    "matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}, {"key": "old", "operator": "DoesNotExist"}]
}


def egress(*values: dict[str, Any]) -> Egress:
    found = read(*values, credentials(), cluster(labels={"proxy": "none"}))[1].clusters[PLACE]
    assert found is not None
    return found


def brought(made: Egress) -> dict[str, Any]:
    value: dict[str, Any] = build_objects(made, "transom-system", PLACE)[-1][1]
    return value


def settings_there(*values: dict[str, Any]) -> Egress:
    """The settings as the Transom there reads them."""
    _, settings = read(*values)
    assert settings.own is not None, settings.findings
    return settings.own


def test_pods_there_get_the_proxy_where_a_selector_is_propagated() -> None:
    made = egress(base(propagate=True, propagated={"pods": {"namespaceSelector": SELECTOR}}))
    objects = [value for _, value in build_objects(made, "transom-system", PLACE)]
    assert objects[-1]["spec"]["pods"] == {"namespaceSelector": SELECTOR}
    there = build_pod_egress(settings_there(*objects), "transom-system", None, b"k")
    assert not there.withheld
    assert there.pairs
    assert there.is_selected("x", {"team": "a"})
    without = [value for _, value in build_objects(egress(base(propagate=True)), "transom-system", PLACE)]
    assert "pods" not in without[-1]["spec"]
    assert build_pod_egress(settings_there(*without), "transom-system", None, b"k").withheld


def test_a_cluster_without_a_proxy_gets_settings_that_say_so() -> None:
    layer = egress_proxy("none", mode="Direct", clusterSelector={"matchLabels": {"proxy": "none"}})
    made = egress(base(propagate=True), layer)
    assert has_objects_to_propagate(made)
    (only,) = build_objects(made, "transom-system", PLACE)
    assert only[1]["spec"] == {}
    # nobody's settings at all are nothing to bring
    assert not has_objects_to_propagate(Egress(propagate=True))


def there(value: dict[str, Any], *conditions: tuple[str, str, str, str], generation: int = 2, of_: int = 2) -> dict[str, Any]:
    listed = [
        {"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": of_}
        for kind, status, reason, message in conditions
    ]
    return value | {"metadata": {**value["metadata"], "generation": generation}, "status": {"conditions": listed}}


VALID = ("Valid", "True", "Valid", "")
READY = ("Ready", "True", "Ready", "")


def test_what_a_cluster_says_of_itself() -> None:
    plain = egress(base(propagate=True))
    chosen = egress(base(propagate=True, propagated={"pods": {"namespaceSelector": {}}}))
    value = brought(chosen)
    assert standing_of(chosen, there(value, VALID, READY)) == PropagationState(heard=True)
    assert standing_of(chosen, there(value, VALID, READY)).settled
    # older than what was brought: no word yet
    assert standing_of(chosen, there(value, VALID, READY, of_=1)) == PropagationState()
    assert standing_of(chosen, value) == PropagationState()
    bad = standing_of(chosen, there(value, VALID, ("Ready", "False", "HostsFailed", "1 of 2\x1b[2J" + "x" * 500)))
    assert bad.word.startswith("Ready=HostsFailed: 1 of 2\\x1b[2J")
    assert len(bad.word) == 200
    assert not bad.settled
    called = standing_of(chosen, there(value, VALID, READY, ("PodsInjected", "False", "NotCalled", "no answer")))
    assert called.word == "PodsInjected=NotCalled: no answer"
    withheld = there(brought(plain), VALID, READY, ("PodsInjected", "False", "NoNamespaceSelector", "not set"))
    assert standing_of(plain, withheld) == PropagationState(withheld=True, heard=True)
    # set there by hand, and left to whoever did
    value = brought(plain)
    value["spec"]["pods"] = {"namespaceSelector": {}}
    assert standing_of(plain, there(value, VALID, READY)) == PropagationState(heard=True)


@pytest.mark.parametrize("status", ["x", {"conditions": "x"}, {"conditions": [1, None, {"type": []}]}, {"conditions": [{}]}])
def test_a_server_may_say_anything(status: Any) -> None:
    made = egress(base(propagate=True))
    assert standing_of(made, {"metadata": {"generation": []}, "spec": "x", "status": status}) == PropagationState(withheld=True)
    assert standing_of(made, None) == PropagationState(withheld=True)


def test_one_word_on_all_clusters() -> None:
    def said(**standings: PropagationState) -> tuple[str, str, str]:
        found = build_conditions({ObjectKey("org", name): standing for name, standing in standings.items()})["Propagated"]
        return found.status, found.reason, found.message

    good, withheld = PropagationState(heard=True), PropagationState(withheld=True, heard=True)
    assert said(a=good, b=good) == ("True", "Propagated", "in all of 2 clusters that require it")
    assert said(a=good, b=PropagationState())[2].endswith("; no word of a Transom there yet: org/b")
    status, reason, message = said(a=good, b=withheld, c=PropagationState(word="Ready=X: y"))
    assert (status, reason) == ("False", "PodsWithheld")
    assert message.startswith("spec.propagated.pods.namespaceSelector: not set")
    assert "in 1 of 3 clusters (org/b)" in message
    assert said(a=good, c=PropagationState(word="Ready=X: y"))[1:] == (
        "NotReady",
        "in all of 2 clusters that require it, and 1 not ready: org/c says Ready=X: y",
    )
    assert said(a=withheld, b=PropagationState(failure="b: no way"))[:2] == ("False", "Failed")


def test_the_reader_takes_what_is_brought() -> None:
    made = egress(base(propagate=True, propagated={"pods": {"namespaceSelector": SELECTOR}}))
    reader = ObjectReader()
    for _, value in build_objects(made, "transom-system", PLACE):
        reader.add(value, "", lambda _: (0, 0))
    assert not reader.build_objects().findings
