"""`transom manifests`: accepted by a real API server as it comes, and nothing in it needs more than the restricted standard."""

import json
import os
import subprocess
from typing import Any

import pytest
import yaml
from lab.control_plane import ControlPlane
from lab.kubernetes import ControlPlaneError
from tests.support.process import run

from transom.manifests.definitions import build_crds

IMAGE = f"registry.example/transom@sha256:{0:064}"
PROXY_IMAGE = f"registry.example/kube-rbac-proxy@sha256:{0:064}"


def transom(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("manifests", *arguments)


def objects(*arguments: str) -> list[dict[str, Any]]:
    done = transom(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return [item for item in yaml.load_all(done.stdout, yaml.CSafeLoader) if item]


def kinds(*arguments: str) -> list[str]:
    return [obj["kind"] for obj in objects(*arguments)]


def test_what_is_needed_first_comes_first() -> None:
    shown = kinds()
    ranks = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "Deployment")
    assert [shown.index(kind) for kind in ranks] == sorted(shown.index(kind) for kind in ranks)
    assert shown[0] == "Namespace"
    assert max(index for index, kind in enumerate(shown) if kind == "CustomResourceDefinition") < shown.index("ServiceAccount")


@pytest.mark.parametrize(
    ("part", "first", "last"),
    [
        ("crds", "CustomResourceDefinition", "CustomResourceDefinition"),
        ("rbac", "Namespace", "RoleBinding"),
        ("operator", "Namespace", "PodDisruptionBudget"),
        ("webhook", "Namespace", "PodDisruptionBudget"),
        ("policies", "Namespace", "NetworkPolicy"),
    ],
)
def test_one_part(part: str, first: str, last: str) -> None:
    shown = kinds("--part", part)
    assert (shown[0], shown[-1]) == (first, last)
    assert len(shown) < len(kinds())


def test_json_is_the_same_list() -> None:
    done = transom("-o", "json")
    assert json.loads(done.stdout)["items"] == objects()


def test_the_roles_follow_the_controllers() -> None:
    def verbs(controllers: str) -> set[tuple[str, str]]:
        return {
            (resource, verb)
            for obj in objects("--part", "rbac", "--controllers", controllers)
            if obj["kind"] in ("Role", "ClusterRole") and obj["metadata"]["name"] == "transom"
            for rule in obj["rules"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    egress, windows, both = verbs("egress"), verbs("hosts"), verbs("egress, hosts")
    assert egress | windows == both
    assert egress - windows == {("configmaps", "patch"), ("egressproxies", "patch"), ("egressproxies/status", "patch")}
    assert windows - egress == {
        ("configmaps", "create"),
        ("configmaps", "update"),
        ("windowsinstances", "patch"),
        ("windowsinstances/status", "patch"),
        ("secrets", "patch"),
        ("machines", "get"),
        ("namespaces", "list"),
        ("namespaces", "watch"),
    }
    assert not {verb for _, verb in both} & {"*", "delete", "deletecollection", "impersonate", "escalate", "bind"}


def test_the_admission_server_comes_with_the_controller_that_keeps_what_its_pods_refer_to() -> None:
    def there(*arguments: str) -> bool:
        return "transom-webhook" in {obj["metadata"]["name"] for obj in objects(*arguments)}

    assert there("--controllers", "egress,pods")
    assert there("--part", "rbac")
    assert not there("--controllers", "egress,windows")
    assert not there("--controllers", "egress,windows", "--part", "rbac")
    assert there("--controllers", "egress,windows", "--part", "webhook")


def test_a_name_stands_for_all_that_belongs_together() -> None:
    def rbac(names: str) -> list[dict[str, Any]]:
        return objects("--part", "rbac", "--controllers", names)

    assert rbac("windows") == rbac("hosts,instances,strays,userdata,certificates,nodes,keys")
    assert rbac("egress,windows,pods") == objects("--part", "rbac")


def test_others_secrets_are_for_those_with_cluster_api() -> None:
    """Without it no rule holds for Secrets of every namespace that does not name them."""

    def wide(*arguments: str) -> set[str]:
        rules = [rule for obj in objects(*arguments) if obj["kind"] == "ClusterRole" for rule in obj["rules"]]
        return {
            verb for rule in rules if "secrets" in rule["resources"] and "resourceNames" not in rule for verb in rule["verbs"]
        }

    assert wide() == set()
    assert wide("--cluster-api") == {"get", "create", "patch", "delete"}
    everything = objects("--controllers", "egress,windows,pods,fleet")
    assert objects("--cluster-api") == objects("--cluster-api", "--controllers", "egress,windows,pods") == everything
    assert objects("--cluster-api", "--controllers", "egress,fleet") == objects("--controllers", "egress,fleet")


def test_everything_is_in_the_namespace_that_was_asked_for() -> None:
    shown = objects("--namespace", "elsewhere", "--image", IMAGE)
    assert "transom-system" not in json.dumps(shown)
    deployment = next(item for item in shown if item["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == IMAGE
    assert container["args"][:2] == ["run", "--namespace=elsewhere"]


@pytest.mark.parametrize("controllers", ["everything", "egress,nothing", "", ","])
def test_a_controller_that_does_not_exist(controllers: str) -> None:
    done = transom("--controllers", controllers)
    assert done.returncode == 2
    assert "egress; windows (hosts, " in done.stderr
    assert done.stdout == ""


@pytest.mark.lab
def test_a_cluster_takes_it_as_it_comes_and_twice(control_plane: ControlPlane) -> None:
    text = transom().stdout
    try:
        assert "created" in control_plane.run_kubectl("apply", "-f", "-", input=text)
        again = control_plane.run_kubectl("apply", "-f", "-", input=text).splitlines()
        # kubectl always patches a PodDisruptionBudget: its strategic merge replaces the spec as a whole
        others = [line for line in again if not line.startswith("poddisruptionbudget")]
        assert [line for line in others if not line.endswith(" unchanged")] == []
        deployment = next(obj for obj in objects() if obj["kind"] == "Deployment")
        template = deployment["spec"]["template"]
        metadata = {**template["metadata"], "name": "from-template", "namespace": "transom-system"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        others = [pod | {"spec": spec, "metadata": metadata | {"name": name}} for name, spec in with_payloads().items()]
        pods = {"apiVersion": "v1", "kind": "List", "items": [pod, *others]}
        control_plane.run_kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pods))
        del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
        with pytest.raises(ControlPlaneError, match='violates PodSecurity "restricted'):
            control_plane.run_kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pod))
    finally:
        control_plane.forget(build_crds())
        control_plane.run_kubectl("delete", "--ignore-not-found", "-f", "-", "--wait=false", input=text)


def with_payloads() -> dict[str, Any]:
    """The operator's pods with a payload, each way that it comes into them."""
    image = ("--payload-image", IMAGE)
    ways = {"volume": image, "copied": (*image, "--payload-copied"), "claim": ("--payload-claim", "workers")}
    found = {}
    for name, way in ways.items():
        (deployment,) = (obj for obj in objects("--part", "operator", *way) if obj["kind"] == "Deployment")
        found[name] = deployment["spec"]["template"]["spec"]
    return found


def test_a_payload_is_read_where_the_operator_looks_for_it() -> None:
    volumes = {"volume": "image", "copied": "emptyDir", "claim": "persistentVolumeClaim"}
    for name, spec in with_payloads().items():
        (mount,) = (volume_mount for volume_mount in spec["containers"][0]["volumeMounts"] if volume_mount["name"] == "payload")
        assert (mount["mountPath"], mount["readOnly"]) == ("/payload", True)
        (volume,) = (volume for volume in spec["volumes"] if volume["name"] == "payload")
        assert volumes[name] in volume
        assert ("initContainers" in spec) == (name == "copied")


def test_the_payload_of_its_publishers_lies_where_pods_can_write() -> None:
    (deployment,) = (
        obj for obj in objects("--part", "operator", "--payload-kubeadm", "v1.36.3") if obj["kind"] == "Deployment"
    )
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--payload-kubeadm=v1.36.3", "--payload-cni=calico", "--payload-cache=/var/cache/transom"} < set(arguments)


@pytest.mark.parametrize("image", ["localhost/transom:1", "registry:5000/transom", "r.example/a/transom@sha256:" + "0" * 64])
def test_an_image_with_a_registry(image: str) -> None:
    shown = objects("--part", "operator", "--image", image)
    assert image in json.dumps(shown)


@pytest.mark.parametrize("image", ["transom:1", "team/transom:1"])
def test_an_image_without_a_registry_is_refused_unless_told(image: str) -> None:
    done = transom("--image", image)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--image: {image} names no registry" in done.stderr
    assert image in json.dumps(objects("--image", image, "--any-registry"))


def test_without_an_image_one_is_asked_for() -> None:
    """But for the parts that name none."""
    environment = {name: value for name, value in os.environ.items() if name != "TRANSOM_IMAGE"}
    done = run("manifests", environment=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--image: name the image in your registry" in done.stderr
    assert run("manifests", "--part", "crds", "--part", "rbac", environment=environment).returncode == 0
    assert "image: transom:" in run("manifests", "--any-registry", environment=environment).stdout


def test_metrics_behind_a_proxy() -> None:
    """Transom answers the pod itself alone, and the Service and the NetworkPolicy lead to the proxy."""
    shown = objects("--metrics-proxy", PROXY_IMAGE)
    deployments = [item for item in shown if item["kind"] == "Deployment"]
    assert len(deployments) == 2
    for deployment in deployments:
        transom_itself, proxy = deployment["spec"]["template"]["spec"]["containers"]
        assert transom_itself["args"][-1] == "--local-metrics"
        assert proxy["image"] == PROXY_IMAGE
        assert proxy["securityContext"] == transom_itself["securityContext"]
    ports = [port for item in shown if item["kind"] == "Service" for port in item["spec"]["ports"] if port["name"] == "metrics"]
    assert [(port["port"], port["targetPort"]) for port in ports] == [(8443, "metrics")] * 2
    allowed = [
        rule["ports"][0]["port"] for item in shown if item["kind"] == "NetworkPolicy" for rule in item["spec"]["ingress"]
    ]
    assert sorted(map(str, allowed)) == ["8443", "8443", "https"]
    accounts = next(item for item in shown if item["metadata"]["name"] == "transom-metrics-proxy" and "subjects" in item)[
        "subjects"
    ]
    assert [account["name"] for account in accounts] == ["transom", "transom-webhook"]
    assert not any("metrics" in obj["metadata"]["name"] for obj in objects())


@pytest.mark.parametrize(
    ("arguments", "there"),
    [
        (("--openshift",), True),
        (("--openshift", "--controllers", "egress"), False),
        ((), False),
    ],
)
def test_metrics_of_hosts_on_openshift(arguments: tuple[str, ...], there: bool) -> None:
    shown = objects(*arguments)
    kinds = {item["kind"] for item in shown}
    assert {"ServiceMonitor", "PrometheusRule"} <= kinds if there else not {"ServiceMonitor", "PrometheusRule"} & kinds
    (namespace,) = (item for item in shown if item["kind"] == "Namespace")
    assert ("openshift.io/cluster-monitoring" in namespace["metadata"]["labels"]) == there
    assert ("transom-cloud-node-manager" in {item["metadata"]["name"] for item in shown}) == there


@pytest.mark.lab
@pytest.mark.parametrize("more", [(), ("--metrics-proxy", "x/y:1", "--cluster-api", "--openshift")])
def test_policies_and_the_proxy_are_taken(control_plane: ControlPlane, more: tuple[str, ...]) -> None:
    place = f"bounded-{len(more)}"
    parts = ("--part", "policies", "--part", "operator", "--part", "webhook")
    text = transom(*parts, "--namespace", place, *more).stdout
    try:
        taken = control_plane.run_kubectl("apply", "-f", "-", input=text)
        assert taken.count("networkpolicy.networking.k8s.io/") == 2
        assert taken.count("validatingadmissionpolicy.") == taken.count("validatingadmissionpolicybinding.") == 4
        for name in ("transom", "transom-webhook"):
            held = json.loads(control_plane.run_kubectl("get", "networkpolicy", name, "-n", place, "-o", "json"))
            deployment = json.loads(control_plane.run_kubectl("get", "deployment", name, "-n", place, "-o", "json"))
            assert held["spec"]["podSelector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
            template = deployment["spec"]["template"]
            metadata = {**template["metadata"], "name": "from-template", "namespace": place}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
            pod["spec"].pop("priorityClassName", None)
            control_plane.run_kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pod))
    finally:
        control_plane.run_kubectl("delete", "--ignore-not-found", "-f", "-", "--wait=false", input=text)
