"""kube-proxy and the pods' network of Windows workers."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from lab import powershell
from transom.capi.check.worker_inputs import WorkerInputs
from transom.capi.worker.file_content import read_script
from transom.capi.worker.worker_objects import WorkerTemplate, build_worker
from transom.cli.program import build_program


def made(**fields: Any) -> WorkerTemplate:
    return build_worker(WorkerInputs(**{"cluster": "prod", "provider": "aws", **fields}))


def kube_proxy(worker: WorkerTemplate) -> dict[str, Any]:
    (found,) = [item for item in worker.daemons if item["kind"] == "DaemonSet"]
    assert found["metadata"]["name"] == "kube-proxy-windows"
    return found


def container(worker: WorkerTemplate) -> dict[str, Any]:
    (found,) = kube_proxy(worker)["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


CLUSTER = """apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: default}
spec:
  clusterNetwork: {services: {cidrBlocks: [172.30.0.0/16]}, pods: {cidrBlocks: [10.128.0.0/14]}}
  controlPlaneEndpoint: {host: prod.example.com, port: 6443}
"""
NETWORKS = [{"cni": "calico"}, {"cni": "flannel"}, {"cni": "none", "network_name": "l2bridge"}]


@pytest.mark.parametrize("fields", NETWORKS)
def test_kube_proxy_knows_its_node(fields: dict[str, str]) -> None:
    """sig-windows-tools 47ab892: the start script of Calico's image reads NODENAME; others read NODE_NAME."""
    named = {item["name"]: item["valueFrom"]["fieldRef"]["fieldPath"] for item in container(made(**fields))["env"]}
    assert (named["NODENAME"], named["NODE_NAME"]) == ("spec.nodeName", "spec.nodeName")


@pytest.mark.parametrize("fields", NETWORKS)
@pytest.mark.parametrize("version", ["v1.33.0", "v1.36.3", "v1.36.3+vmware.1", "v1.36.3-eks-1a2b3c4"])
def test_images_have_tags_that_upstream_builds(fields: dict[str, str], version: str) -> None:
    """Each version of Kubernetes itself from 1.33 on, with one suffix (`upstream.KUBE_PROXY_OLDEST`)."""
    worker = made(**fields, kubernetes_version=version)
    built = version[: len("v1.36.3")]
    assert container(worker)["image"] == f"sigwindowstools/kube-proxy:{built}-calico-hostprocess"
    assert not [finding for finding in worker.findings if finding.field.startswith("daemonImages")]


def test_an_older_version_has_perhaps_no_image() -> None:
    (found,) = [finding for finding in made(kubernetes_version="v1.32.4").findings if finding.field.startswith("daemonImages")]
    assert found.severity == "warning" and "from v1.33 on" in found.message
    given = made(kubernetes_version="v1.32.4", daemon_images={"kube-proxy": "registry.example.com/kube-proxy:1"})
    assert container(given)["image"] == "registry.example.com/kube-proxy:1"
    assert not [finding for finding in given.findings if finding.field.startswith("daemonImages")]


@pytest.mark.parametrize("fields", NETWORKS)
def test_nothing_that_upstream_withdrew_is_shipped(fields: dict[str, str]) -> None:
    """sig-windows-tools 729ae7c (Flannel) and 5f77809 (Calico): kube-proxy alone, in a namespace that has its account."""
    worker = made(**fields)
    kinds = {"calico": [], "flannel": ["ConfigMap"], "none": ["ConfigMap"]}[fields["cni"]]
    assert [item["kind"] for item in worker.daemons] == ["RuntimeClass", *kinds, "DaemonSet"]
    spec = kube_proxy(worker)["spec"]["template"]["spec"]
    assert (spec["serviceAccountName"], "initContainers" in spec) == ("kube-proxy", False)
    for withdrawn in ("calico-install", "calico-node", "sigwindowstools/flannel", "-flannel-hostprocess", "nanoserver"):
        assert withdrawn not in str(worker.daemons)


def test_calico_is_started_by_upstreams_script_and_others_by_ours() -> None:
    assert container(made())["args"] == ["$env:CONTAINER_SANDBOX_MOUNT_POINT/kube-proxy/start.ps1"]
    other = made(cni="none", network_name="l2bridge", pod_cidr="10.1.0.0/16,fd00::/48")
    assert container(other)["args"] == [
        "$env:CONTAINER_SANDBOX_MOUNT_POINT/transom/start.ps1 -Network l2bridge -ClusterCidr '10.1.0.0/16,fd00::/48' -Dsr true"
    ]
    (script_map,) = [item for item in other.daemons if item["kind"] == "ConfigMap"]
    assert script_map["data"]["start.ps1"] == read_script("kube-proxy-start.ps1").decode()
    assert "host-local.exe" in script_map["data"]["source-vip.ps1"]
    assert "-Network flannel.4096 " in container(made(cni="flannel"))["args"][0]
    assert container(made(cni="flannel", kubernetes_version="v1.32.1"))["args"][0].endswith("-Dsr false")


def test_the_configuration_is_kube_proxys() -> None:
    """kubernetes v1.36.3, staging/src/k8s.io/kube-proxy/config/v1alpha1/types.go."""
    lines = re.search(r"\$lines = @\((.*?)\n\)", read_script("kube-proxy-start.ps1").decode().replace("\r\n", "\n"), re.DOTALL)
    assert lines
    values = {"kubeconfig": r"C:\k\a.conf", "Node": "win-1", "Dsr": "true", "Network": "l2bridge", "address": "10.1.2.3"}
    text = "\n".join(line.strip()[1:-1] for line in lines[1].strip().split("\n"))
    assert yaml.safe_load(re.sub(r"\$(\w+)", lambda item: values[item[1]], text)) == {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": r"C:\k\a.conf"},
        "hostnameOverride": "win-1",
        "mode": "kernelspace",
        "winkernel": {"enableDSR": True, "networkName": "l2bridge", "sourceVip": "10.1.2.3"},
    }


def test_as_a_service_kube_proxy_is_complete() -> None:
    worker = made(daemons="services", pod_cidr="10.1.0.0/16")
    assert [item["kind"] for item in worker.daemons] == ["RuntimeClass", "ClusterRoleBinding"]
    spec = worker.objects[0]["spec"]["template"]["spec"]
    assert spec["postKubeadmCommands"][0].endswith(
        r"-File C:\k\kube-proxy-service.ps1 -Network Calico -ClusterCidr 10.1.0.0/16 -Dsr true"
    )
    files = {file["path"]: base64.b64decode(file["content"]).decode() for file in spec["files"] if "content" in file}
    service, start = files["C:/k/kube-proxy-service.ps1"], files["C:/k/kube-proxy-start.ps1"]
    address = files["C:/k/source-vip.ps1"]
    assert "Calico_ep" in address and "-Network $Network" in start
    for needed in ("--windows-service", "actions= restart/10000", "-Node $node", "/ru SYSTEM", "kube-log-runner.exe"):
        assert needed in service
    for needed in ("networkName:", "sourceVip:", "kubelet.conf", "Restart-Service -Name 'kube-proxy'"):
        assert needed in start
    assert (
        powershell.find_syntax_errors(service)
        == powershell.find_syntax_errors(start)
        == powershell.find_syntax_errors(address)
        == []
    )


def test_calicos_operator_is_told_the_clusters_own_networks(tmp_path: Path) -> None:
    manifest = tmp_path / "cluster.yaml"
    manifest.write_text(CLUSTER)
    arguments = ["capi", "worker", "--cluster", "prod", "--provider", "aws", "-f", str(manifest), "--part", "network"]
    done = CliRunner().invoke(build_program(), arguments)
    assert done.exit_code == 0, done.stderr
    installation, endpoint = yaml.safe_load_all(done.stdout)
    assert (installation["apiVersion"], installation["kind"]) == ("operator.tigera.io/v1", "Installation")
    assert installation["spec"] == {
        "serviceCIDRs": ["172.30.0.0/16"],
        "calicoNetwork": {
            "bgp": "Disabled",
            "windowsDataplane": "HNS",
            "ipPools": [{"cidr": "10.128.0.0/14", "encapsulation": "VXLAN", "natOutgoing": "Enabled"}],
        },
    }
    assert endpoint["metadata"] == {"name": "kubernetes-services-endpoint", "namespace": "tigera-operator"}
    assert endpoint["data"] == {"KUBERNETES_SERVICE_HOST": "prod.example.com", "KUBERNETES_SERVICE_PORT": "6443"}
    assert "strictAffinity" in done.stderr
    services = CliRunner().invoke(build_program(), [*arguments[:-2], "--daemons", "services", "-o", "json"])
    assert "-ClusterCidr 10.128.0.0/14 " in services.stdout


@pytest.mark.parametrize(
    ("cidr", "pools"),
    [("", None), ("10.1.0.0/16", ["10.1.0.0/16"]), ("10.1.0.0/16,fd00::/48", ["10.1.0.0/16", "fd00::/48"])],
)
def test_pools_of_calico_are_vxlan(cidr: str, pools: list[str] | None) -> None:
    """Calico's operator: pools are IP-in-IP by default, which it rejects without BGP; Windows has VXLAN alone."""
    installation = made(pod_cidr=cidr).network[0]
    printed = installation["spec"]["calicoNetwork"].get("ipPools")
    assert (printed and [pool["cidr"] for pool in printed]) == pools
    assert {pool["encapsulation"] for pool in printed or ()} <= {"VXLAN"}
    assert bool(pools) == any("merge replaces the list ipPools" in note for note in made(pod_cidr=cidr).notes)
    assert bool(pools) != any("the pods' network is unknown" in note for note in made(pod_cidr=cidr).notes)


AWS_CLUSTER: dict[str, Any] = {"kind": "AWSCluster", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2"}
CALICO_RULES = [
    {"protocol": "tcp", "fromPort": 179, "toPort": 179},
    {"protocol": "4", "fromPort": -1, "toPort": 65535},
]


def aws(*rules: dict[str, Any], **network: Any) -> dict[str, Any]:
    return {**AWS_CLUSTER, "spec": {"network": {**({"cni": {"cniIngressRules": list(rules)}} if rules else {}), **network}}}


def openstack(groups: Any, version: str = "v1beta1") -> dict[str, Any]:
    return {
        "kind": "OpenStackCluster",
        "apiVersion": f"infrastructure.cluster.x-k8s.io/{version}",
        "spec": {} if groups is None else {"managedSecurityGroups": groups},
    }


def opened(protocol: str, port: int) -> dict[str, Any]:
    return {"direction": "ingress", "protocol": protocol, "portRangeMin": port, "portRangeMax": port}


PORTS: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("aws", "calico", aws(), ["UDP 4789", "TCP 5473"]),
    ("aws", "calico", AWS_CLUSTER, ["UDP 4789", "TCP 5473"]),
    ("aws", "calico", aws(*CALICO_RULES), ["UDP 4789", "TCP 5473"]),
    ("aws", "calico", aws({"protocol": "udp", "fromPort": 4789, "toPort": 4789}), ["TCP 5473"]),
    ("aws", "calico", aws({"protocol": "-1", "fromPort": -1, "toPort": 65535}), []),
    ("aws", "calico", aws({"protocol": "tcp", "fromPort": 4789, "toPort": 5473}), ["UDP 4789"]),
    ("aws", "calico", aws(securityGroupOverrides={"node": "sg-1"}), []),
    ("aws", "calico", aws(additionalNodeIngressRules=[{"protocol": "udp", "fromPort": 0, "toPort": 65535}]), ["TCP 5473"]),
    ("aws", "flannel", aws(), ["UDP 4789"]),
    ("openstack", "calico", openstack(None), []),
    ("openstack", "calico", openstack({}), ["UDP 4789", "TCP 5473"]),
    ("openstack", "calico", openstack({"allowAllInClusterTraffic": True}), []),
    ("openstack", "calico", openstack({"allNodesSecurityGroupRules": [opened("udp", 4789)]}), ["TCP 5473"]),
    (
        "openstack",
        "calico",
        openstack({"clusterNodesSecurityGroupRules": [opened("udp", 4789), opened("tcp", 5473)]}, "v1beta2"),
        [],
    ),
    (
        "openstack",
        "calico",
        openstack({"allNodesSecurityGroupRules": [{**opened("udp", 4789), "direction": "egress"}]}),
        ["UDP 4789", "TCP 5473"],
    ),
]


@pytest.mark.parametrize(("provider", "cni", "cluster", "closed"), PORTS)
def test_closed_ports_between_nodes_are_reported(provider: Any, cni: Any, cluster: dict[str, Any], closed: list[str]) -> None:
    worker = build_worker(WorkerInputs(**{"cluster": "prod", "provider": provider, "cni": cni}), infrastructure=cluster)
    messages = [finding.message for finding in worker.findings if finding.message.startswith("closed between nodes")]
    assert len(messages) == bool(closed)
    for port in ("UDP 4789", "TCP 5473"):
        assert any(port in message for message in messages) == (port in closed)
    assert worker.objects


@pytest.mark.parametrize(
    ("provider", "cni", "noted"),
    [
        ("aws", "calico", True),
        ("aws", "flannel", True),
        ("aws", "none", False),
        ("openstack", "calico", True),
        ("azure", "calico", False),
        ("gcp", "calico", False),
    ],
)
def test_ports_between_nodes_are_noted_where_a_provider_closes_them(provider: str, cni: str, noted: bool) -> None:
    fields = {"cni": cni, "network_name": "mine" if cni == "none" else "", "provider": provider}
    fields |= {"image": "x"} if provider == "azure" else {}
    notes = made(**fields, machine_name_prefix="win").notes
    assert any("4789" in note for note in notes) == noted


def test_an_aws_cluster_of_the_manifests_is_checked(tmp_path: Path) -> None:
    manifest = tmp_path / "cluster.yaml"
    manifest.write_text(
        CLUSTER
        + """  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSCluster, name: prod}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSCluster
metadata: {name: prod, namespace: default}
spec: {region: eu-west-1}
"""
    )
    arguments = ["capi", "worker", "--cluster", "prod", "--provider", "aws", "-f", str(manifest)]
    result = CliRunner().invoke(build_program(), arguments)
    assert result.exit_code == 0, result.stderr
    assert "AWSCluster/prod" in result.stderr and "UDP 4789" in result.stderr


@pytest.mark.parametrize(
    ("namespaces", "flags", "code"),
    [
        (["org-a"], [], 0),
        (["default", "org-a"], [], 0),
        (["org-a", "org-b"], [], 2),
        (["org-a"], ["--cluster-namespace", "default"], 2),
        (["org-a"], ["--cluster-namespace", "org-a"], 0),
    ],
)
def test_the_only_cluster_of_a_name_is_found(tmp_path: Path, namespaces: list[str], flags: list[str], code: int) -> None:
    manifest = tmp_path / "cluster.yaml"
    manifest.write_text("---\n".join(CLUSTER.replace("namespace: default", f"namespace: {name}") for name in namespaces))
    arguments = ["capi", "worker", "--cluster", "prod", "--provider", "aws", "-f", str(manifest), *flags]
    result = CliRunner().invoke(build_program(), arguments)
    assert result.exit_code == code, result.stderr
    if code == 0:
        made = {item["metadata"]["namespace"] for item in yaml.safe_load_all(result.stdout)}
        assert made == {"default" if "default" in namespaces else "org-a"}


def test_an_ipv6_address_of_the_api_server_loses_its_brackets() -> None:
    _, endpoint = made(api_server="[fd00::1]:6443").network
    assert endpoint["data"] == {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"cni": "none"}, "networkName", "what HNS calls it"),
        ({"cni": "none", "network_name": "a b"}, "networkName", "letters, digits"),
        ({"cni": "calico", "network_name": "mine"}, "networkName", "calico calls its network Calico"),
        ({"service_cidr": "10.0.0.1/8"}, "serviceCidr", "is not a valid network"),
        ({"pod_cidr": "10.1.0.0/16,x"}, "podCidr", "'x' is not a valid network"),
        ({"api_server": "https://prod"}, "apiServer", "host:port"),
        ({"daemon_images": {"calico-node": "x"}}, "daemonImages", "only kube-proxy"),
    ],
)
def test_refused(fields: dict[str, Any], field: str, said: str) -> None:
    worker = made(**fields)
    assert worker.objects == ()
    assert [finding for finding in worker.findings if finding.field.startswith(field) and said in finding.message], (
        worker.findings
    )


def test_wins_is_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "inputs.yaml"
    file.write_text("{cluster: prod, provider: aws, daemons: wins}")
    commands = (
        (["worker", "--cluster", "prod", "--provider", "aws", "--daemons", "wins"], "--daemons: "),
        (["worker", "--inputs", str(file)], f"{file}: daemons: "),
        (["image", "--provider", "aws", "--daemons", "wins"], "--daemons: "),
    )
    for arguments, place in commands:
        done = CliRunner().invoke(build_program(), ["capi", *arguments])
        assert (done.exit_code, done.stdout) == (2, "")
        assert f"{place}wins is not released any more: HostProcess containers replaced it" in done.stderr
