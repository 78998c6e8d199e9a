"""Pods that are older than the settings, counted by who made them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import yaml
from tests.pods.json_patch import applied
from tests.pods.table import decoded, objects, pod_egress
from tests.support.command import run

from transom.pods.outdated_pods import OutdatedWorkload, find_outdated, is_outdated
from transom.pods.patch import build_patch

PLAIN, STAR = pod_egress("plain"), pod_egress("star")
SPEC = {"containers": [{"name": "app", "image": "x"}]}


def pod(name: str, owner: tuple[str, str] | None = None, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "shop", **metadata}
    if owner:
        meta["ownerReferences"] = [{"apiVersion": "x", "kind": owner[0], "name": owner[1], "uid": "u", "controller": True}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec or SPEC}


def given(value: dict[str, Any], egress: Any = PLAIN) -> dict[str, Any]:
    return applied(value, build_patch(decoded(value), "shop", {}, egress).operations)


def test_which_pods_are_older() -> None:
    own = [{"name": name, "value": "x"} for name in ("http_proxy", "HTTPS_PROXY", "no_proxy")]
    cases = [
        (pod("new"), PLAIN, True),
        (given(pod("current")), PLAIN, False),
        (given(pod("older")), STAR, True),
        (given(pod("left")), pod_egress("none"), True),
        (pod("refuses", annotations={"transom.dev/inject-proxy": "false"}), PLAIN, False),
        (pod("its-own", spec={"containers": [{"name": "app", "image": "x", "env": own}]}), PLAIN, False),
        ({**pod("finished"), "status": {"phase": "Succeeded"}}, PLAIN, False),
        ({**given(pod("finished-older")), "status": {"phase": "Failed"}}, STAR, False),
        (pod("without"), pod_egress("none"), False),
        (pod("ca-alone", labels={"transom.dev/inject-ca": "true"}), pod_egress("trust-alone"), False),
        (pod("withheld"), pod_egress("withheld"), False),
    ]
    for value, egress, wanted in cases:
        assert is_outdated(decoded(value), {}, egress) == wanted, value["metadata"]["name"]
    assert not is_outdated(decoded(pod("x")), {"transom.dev/inject": "disabled"}, PLAIN)


RUNNING = [
    pod("web-5d4-a", ("ReplicaSet", "web-5d4"), labels={"pod-template-hash": "5d4"}),
    pod("web-5d4-b", ("ReplicaSet", "web-5d4"), labels={"pod-template-hash": "5d4"}),
    given(pod("web-7c9-a", ("ReplicaSet", "web-7c9"), labels={"pod-template-hash": "7c9"})),
    pod("db-0", ("StatefulSet", "db")),
    pod("job-x", ("Job", "job")),
    pod("alone"),
    given(pod("current")),
]
WANTED = [
    OutdatedWorkload("shop", "Deployment", "web", 3, 2, "kubectl rollout restart deployment/web -n shop"),
    OutdatedWorkload("shop", "Job", "job", 1, 1, None),
    OutdatedWorkload("shop", "Pod", "alone", 1, 1, None),
    OutdatedWorkload("shop", "StatefulSet", "db", 1, 1, "kubectl rollout restart statefulset/db -n shop"),
]


def test_they_are_counted_by_owner() -> None:
    assert find_outdated(map(decoded, RUNNING), {}, PLAIN) == WANTED
    assert find_outdated(map(decoded, RUNNING), {"shop": {"transom.dev/inject": "disabled"}}, PLAIN) == []


def test_kube_proxy_keeps_what_kubeadm_gave_it() -> None:
    proxy, old = "http://proxy.corp.example:3128", "http://u:hunter2@old.example:1"

    def running(value: str) -> Any:
        spec = {"containers": [{"name": "kube-proxy", "image": "x", "env": [{"name": "http_proxy", "value": value}]}]}
        return decoded(pod("kube-proxy-x", ("DaemonSet", "kube-proxy"), spec))

    def found(value: str, variables: dict[str, str] | None) -> list[OutdatedWorkload]:
        one = running(value)
        moved = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, namespace="kube-system"))
        return find_outdated([moved], {}, PLAIN, variables)

    assert found(proxy, {"HTTP_PROXY": proxy}) == []
    assert found(proxy, None) == []
    for value, variables in ((old, {"HTTP_PROXY": proxy}), (old, {})):
        (told,) = found(value, variables)
        assert (told.kind, told.name, told.pods, told.outdated) == ("DaemonSet", "kube-proxy", 1, 1)
        assert told.restart is not None
        assert told.restart.endswith(
            "daemonset/kube-proxy HTTP_PROXY- http_proxy- HTTPS_PROXY- https_proxy- NO_PROXY- no_proxy-"
        )
        assert "hunter2" not in repr(told)


def test_the_command(tmp_path: Path) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kubernetes", "namespace": "default"}}
    made = [*objects("plain"), *RUNNING, {**service, "spec": {"clusterIP": "10.96.0.1"}}]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(made))
    done = run("pods", "outdated", "-f", str(tmp_path), "-o", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)[0] == {
        "namespace": "shop",
        "kind": "Deployment",
        "name": "web",
        "pods": 3,
        "outdated": 2,
        "restart": "kubectl rollout restart deployment/web -n shop",
    }
    done = run("pods", "outdated", "-f", str(tmp_path))
    assert "Deployment/shop/web: 2 of 3 pods; kubectl rollout restart deployment/web -n shop\n" in done.out
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([*objects("credentials"), *RUNNING]))
    done = run("pods", "outdated", "-f", str(tmp_path))
    assert (done.code, "transom-webhook cannot be read" in done.err) == (2, True)
