"""The merged NO_PROXY: the table, row by row."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.bundles import NOW, certificate, cluster, config_map, egress_proxy, openshift_proxy, write
from tests.support.command import run

from transom.sources.directory import load_objects
from transom.sources.examination import examine_objects

TABLE: list[dict[str, Any]] = yaml.load(
    (Path(__file__).parent / "tables" / "merging.yaml").read_text("utf-8"), yaml.CSafeLoader
)
KUBEADM = "networking: {podSubnet: 10.244.0.0/16, serviceSubnet: '10.96.0.0/12,fd00:10:96::/112', dnsDomain: corp.local}\n"
INFO = "clusters: [{name: '', cluster: {server: 'https://k8s-api.corp.example:6443'}}]\n"
PLATFORM = {"type": "AWS", "aws": {"region": "us-west-2"}}
OBJECTS: dict[str, dict[str, Any]] = {
    "network": {
        "apiVersion": "config.openshift.io/v1",
        "kind": "Network",
        "metadata": {"name": "cluster"},
        "spec": {"clusterNetwork": [{"cidr": "10.0.0.0/30", "hostPrefix": 31}], "serviceNetwork": ["10.0.0.4/30"]},
        "status": {"clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}], "serviceNetwork": ["172.30.0.0/16"]},
    },
    "infrastructure": {
        "apiVersion": "config.openshift.io/v1",
        "kind": "Infrastructure",
        "metadata": {"name": "cluster"},
        "status": {"apiServerInternalURI": "https://api-int.prod.example.com:6443", "platformStatus": PLATFORM},
    },
    "kubeadm-config": config_map("kubeadm-config", {"ClusterConfiguration": KUBEADM}, "kube-system"),
    "cluster-info": config_map("cluster-info", {"kubeconfig": INFO}, "kube-public"),
    "service-cidr": {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "more"},
        "spec": {"cidrs": ["10.112.0.0/16"]},
    },
}


def manifests(row: dict[str, Any]) -> list[dict[str, Any]]:
    objects = [OBJECTS[name] for name in row.get("objects", ())]
    if "base" not in row and "openshift" not in row:
        spec = {"httpProxy": "http://p.x:1", "noProxy": row.get("user", ""), "networks": row.get("networks", {})}
        objects.append(egress_proxy(spec))
    elif row.get("base"):
        objects.append(egress_proxy(row["base"]))
    if "openshift" in row:
        objects.append(openshift_proxy(**row["openshift"]))
    objects += [egress_proxy(spec, name) for name, spec in row.get("layers", {}).items()]
    for name, differs in row.get("clusters", {}).items():
        objects.append(cluster(name, differs.get("labels"), **differs.get("spec", {})))
    return [*objects, config_map("corp-ca", {"ca-bundle.crt": certificate("Root")})]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["row"]) for row in TABLE])
def test_row(row: dict[str, Any], tmp_path: Path) -> None:
    examined = examine_objects(load_objects([write(tmp_path, *manifests(row))]), NOW)
    assert not examined.errors
    if "own" in row:
        assert examined.settings.own is not None
        assert examined.settings.own.no_proxy == row["own"]
    lists = {name: egress and egress.no_proxy for (_, name), egress in examined.settings.clusters.items()}
    assert lists == row.get("lists", {})


@pytest.mark.parametrize(
    ("known", "host"),
    [
        ((), "10.1.2.3"),
        (("cluster-info",), "k8s-api.corp.example"),
        (("cluster-info", "infrastructure"), "api-int.prod.example.com"),
    ],
)
def test_the_server_of_the_kubeconfig_is_the_last_word_on_the_api_servers_host(
    known: tuple[str, ...], host: str, tmp_path: Path
) -> None:
    objects = load_objects([write(tmp_path, egress_proxy({"httpProxy": "http://p.x:1"}), *(OBJECTS[name] for name in known))])
    own = examine_objects(objects, NOW, "https://10.1.2.3:6443").settings.own
    assert own is not None
    assert own.api_server_known
    named = {"10.1.2.3", "k8s-api.corp.example", "api-int.prod.example.com"}
    assert named & set(own.no_proxy.split(",")) == {host}


def test_the_table_has_sixty_rows() -> None:
    assert len(TABLE) >= 60
    assert len({row["row"] for row in TABLE}) == len(TABLE)


def machine(name: str, *addresses: tuple[str, str], cluster: str = "prod") -> dict[str, Any]:
    listed = [{"type": kind, "address": address} for kind, address in addresses]
    head = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": name, "namespace": "org-x"}}
    return {**head, "spec": {"clusterName": cluster}, "status": {"addresses": listed}}


@pytest.mark.parametrize(
    ("items", "addresses", "outside"),
    [
        ("10.0.0.0/16", [("InternalIP", "10.0.1.5"), ("ExternalIP", "203.0.113.7")], ()),
        ("10.0.0.0/16", [("InternalIP", "10.1.1.5")], ("10.1.1.5",)),
        ("10.0.0.0/16", [("ExternalIP", "203.0.113.7"), ("Hostname", "m1")], ("203.0.113.7",)),
        ("10.0.1.5", [("InternalIP", "10.0.1.5"), ("InternalIP", "fd00::5")], ("fd00::5",)),
        ("fd00::/64", [("InternalIP", "fd00:0::5")], ()),
        ("*", [("InternalIP", "10.1.1.5")], ()),
        ("m1.example", [("InternalDNS", "m1.example")], ()),
        ("", [("InternalIP", "no address"), ("InternalIP", "")], ()),
    ],
)
def test_machines_that_no_item_covers(
    items: str, addresses: list[tuple[str, str]], outside: tuple[str, ...], tmp_path: Path
) -> None:
    base = egress_proxy({"httpProxy": "http://p.x:1", "noProxy": items})
    examined = examine_objects(load_objects([write(tmp_path, base, cluster("prod"), machine("m", *addresses))]), NOW)
    told = [finding for finding in examined.findings if finding.field == "spec.infrastructureRef"]
    assert [item.object for item in told] == (["Cluster/org-x/prod"] if outside else [])
    for address in outside:
        assert f"of its Machines no item of NO_PROXY covers {address}: the API server reaches kubelets there" in told[0].message
        assert "in noProxy, or in networks.machineNetwork, of a layer" in told[0].message


def test_a_layer_names_the_machines_network(tmp_path: Path) -> None:
    base, layer = (
        egress_proxy({"httpProxy": "http://p.x:1"}),
        egress_proxy({"networks": {"machineNetwork": ["10.1.0.0/16"]}}, "l"),
    )
    examined = examine_objects(
        load_objects([write(tmp_path, base, layer, cluster("prod"), machine("m", ("InternalIP", "10.1.1.5")))]), NOW
    )
    assert not [finding for finding in examined.findings if finding.field == "spec.infrastructureRef"]
    layer = egress_proxy({"networks": {"machineNetwork": ["10.1.0.0/16", "x"], "podNetwork": ["10.0.0.0/8"]}}, "l")
    examined = examine_objects(load_objects([write(tmp_path, base, layer, cluster("prod"))]), NOW)
    assert {error.field for error in examined.errors} == {"spec.networks.machineNetwork[1]", "spec.networks.podNetwork"}


def test_a_network_that_is_everything_is_named(tmp_path: Path) -> None:
    network = {"services": {"cidrBlocks": ["0.0.0.0/0"]}, "pods": {"cidrBlocks": ["::/0"]}}
    base = egress_proxy({"httpProxy": "http://p.x:1", "networks": {"machineNetwork": ["0.0.0.0/0"]}})
    examined = examine_objects(load_objects([write(tmp_path, base, cluster("prod", clusterNetwork=network))]), NOW)
    assert {finding.field for finding in examined.findings if "is every address" in finding.message} == {
        "spec.clusterNetwork.services.cidrBlocks[0]",
        "spec.clusterNetwork.pods.cidrBlocks[0]",
        "spec.networks.machineNetwork[0]",
    }


def test_a_network_of_the_clusters_objects_that_is_everything_is_named(tmp_path: Path) -> None:
    status = {"serviceNetwork": ["0.0.0.0/0", "172.30.0.0/16"], "clusterNetwork": [{"cidr": "10.0.0.0/0"}]}
    network = {"apiVersion": "config.openshift.io/v1", "kind": "Network", "metadata": {"name": "cluster"}, "status": status}
    objects = load_objects([write(tmp_path, egress_proxy({"httpProxy": "http://p.x:1"}), network)])
    examined = examine_objects(objects, NOW)
    assert {finding.field for finding in examined.findings if "is every address" in finding.message} == {
        "status.serviceNetwork",
        "status.clusterNetwork",
    }
    assert examined.settings.own.no_proxy == ".cluster.local,.svc,127.0.0.1,172.30.0.0/16,localhost"


@pytest.mark.parametrize(("services", "told"), [("10.96.0.0/29", 1), ("10.96.0.0/28", 0)])
def test_a_services_network_without_an_address_for_dns_is_named(services: str, told: int, tmp_path: Path) -> None:
    network = {"services": {"cidrBlocks": [services]}, "pods": {"cidrBlocks": ["10.244.0.0/16"]}}
    directory = write(tmp_path, egress_proxy({"httpProxy": "http://p.x:1"}), cluster("prod", clusterNetwork=network))
    fields = [
        finding.field for finding in examine_objects(load_objects([directory]), NOW).findings if "too small" in finding.message
    ]
    assert fields == ["spec.clusterNetwork.services.cidrBlocks[0]"] * told


GCP_ITEMS = "169.254.169.254,metadata,metadata.google.internal,metadata.google.internal."


@pytest.mark.parametrize(
    ("kind", "spec", "status", "items"),
    [
        (
            "AWSCluster",
            {
                "region": "eu-west-1",
                "network": {
                    "vpc": {"cidrBlock": "10.1.0.0/16", "secondaryCidrBlocks": [{"ipv4CidrBlock": "100.70.0.0/16"}]},
                    "subnets": [{"cidrBlock": "10.1.3.0/24"}, {"cidrBlock": "10.2.0.0/24"}, {"id": "subnet-1"}],
                },
            },
            {},
            "169.254.169.254,.eu-west-1.compute.internal,10.1.0.0/16,100.70.0.0/16,10.2.0.0/24",
        ),
        (
            "AzureCluster",
            {"networkSpec": {"vnet": {"cidrBlocks": ["10.1.0.0/16"]}, "subnets": [{"cidrBlocks": ["10.1.0.0/24"]}]}},
            {},
            "169.254.169.254,168.63.129.16,10.1.0.0/16",
        ),
        (
            "GCPCluster",
            {"region": "europe-west1", "network": {"subnets": [{"cidrBlock": "10.1.0.0/20"}]}},
            {},
            "169.254.169.254,metadata,metadata.google.internal,metadata.google.internal.,10.1.0.0/20",
        ),
        (
            "OpenStackCluster",
            {"managedSubnets": [{"cidr": "10.6.0.0/24"}]},
            {"network": {"subnets": [{"cidr": "10.7.0.0/24"}]}},
            "169.254.169.254,10.6.0.0/24,10.7.0.0/24",
        ),
        ("AWSCluster", {"network": {"vpc": {"cidrBlock": "0.0.0.0/0"}, "subnets": "x"}, "region": 7}, {}, "169.254.169.254"),
        ("AWSCluster", {"network": {"vpc": {"cidrBlock": "10.0.0.0/8,*"}}, "region": "x,*"}, {}, "169.254.169.254"),
        (
            "GCPManagedCluster",
            {"region": "europe-west1", "network": {"subnets": [{"cidrBlock": "10.1.0.0/20"}]}},
            {},
            "169.254.169.254,metadata,metadata.google.internal,metadata.google.internal.,10.1.0.0/20",
        ),
        ("VSphereCluster", {"network": {"vpc": {"cidrBlock": "10.1.0.0/16"}}}, {}, ""),
        ("NutanixCluster", {"network": {"vpc": {"cidrBlock": "10.1.0.0/16"}}}, {}, ""),
    ],
)
def test_networks_and_region_of_the_infrastructure_object(
    kind: str, spec: dict[str, Any], status: dict[str, Any], items: str, tmp_path: Path
) -> None:
    meta = {"name": "infra", "namespace": "org-x"}
    group = "infrastructure.cluster.x-k8s.io/v1beta1"
    infrastructure = {"apiVersion": group, "kind": kind, "metadata": meta, "spec": spec, "status": status}
    prod = cluster("prod", infrastructureRef={"kind": kind, "name": "infra"})
    other = cluster("other", infrastructureRef={"kind": kind, "name": "another"})
    directory = write(tmp_path, egress_proxy({"httpProxy": "http://p.x:1"}), prod, other, infrastructure)
    lists = {item["cluster"]: item["noProxy"] for item in run("no-proxy", "merge", "-f", directory, "-o", "json").json}
    before, _, added = lists["org-x/prod"].partition(",svc,127.0.0.1,localhost")
    assert added.removeprefix(",") == items
    assert lists["org-x/other"].startswith(before)
    assert "10.1.0.0" not in lists["org-x/other"]


@pytest.mark.parametrize(
    ("kind", "spec", "items"),
    [
        (
            "AWSManagedControlPlane",
            {
                "region": "eu-west-1",
                "network": {"vpc": {"cidrBlock": "10.1.0.0/16"}, "subnets": [{"cidrBlock": "10.1.3.0/24"}]},
                "secondaryCidrBlock": "100.70.0.0/16",
            },
            "169.254.169.254,.eu-west-1.compute.internal,10.1.0.0/16,100.70.0.0/16",
        ),
        (
            "ROSAControlPlane",
            {"region": "us-east-1", "network": {"machineCIDR": "10.1.0.0/16", "podCIDR": "10.128.0.0/14"}},
            "169.254.169.254,.ec2.internal,10.1.0.0/16",
        ),
        (
            "AzureManagedControlPlane",
            {"virtualNetwork": {"cidrBlock": "10.1.0.0/8", "subnet": {"cidrBlock": "10.2.0.0/16"}}},
            "169.254.169.254,168.63.129.16,10.1.0.0/8",
        ),
        ("GCPManagedControlPlane", {"network": {"subnets": [{"cidrBlock": "10.1.0.0/20"}]}}, GCP_ITEMS),
    ],
)
def test_networks_and_region_of_a_managed_control_plane(kind: str, spec: dict[str, Any], items: str, tmp_path: Path) -> None:
    group = "infrastructure" if kind.startswith(("Azure", "GCP")) else "controlplane"
    metadata = {"name": "plane", "namespace": "org-x"}
    plane = {"apiVersion": f"{group}.cluster.x-k8s.io/v1beta1", "kind": kind, "metadata": metadata, "spec": spec}
    managed = {"AWS": "AWSManagedCluster", "ROS": "ROSACluster", "Azu": "AzureManagedCluster", "GCP": "GCPManagedCluster"}
    references = {
        "infrastructureRef": {"kind": managed[kind[:3]], "name": "prod"},
        "controlPlaneRef": {"kind": kind, "name": "plane"},
    }
    directory = write(tmp_path, egress_proxy({"httpProxy": "http://p.x:1"}), cluster("prod", **references), plane)
    _, prod = run("no-proxy", "merge", "-f", directory, "-o", "json").json
    assert prod["noProxy"].partition(",svc,127.0.0.1,localhost,")[2] == items


def test_each_item_has_its_reason(tmp_path: Path) -> None:
    base = egress_proxy({"httpProxy": "http://p.x:1", "noProxy": "a.com,svc", "networks": {"platform": {"type": "GCP"}}})
    layer = egress_proxy({"noProxy": "a.com,b.com", "networks": {"machineNetwork": ["10.1.0.0/16"]}}, "west")
    aws = {"infrastructureRef": {"kind": "AWSCluster"}}
    directory = write(tmp_path, base, layer, cluster("prod", **aws))
    own, prod = run("no-proxy", "merge", "-f", directory, "-o", "json").json
    assert prod["noProxy"] == ",".join(item["item"] for item in prod["items"])
    assert {item["item"]: item["reason"] for item in prod["items"]} == {
        "cluster.local": "the cluster's DNS domain",
        "100.64.0.0/13": "the network of Services",
        "100.96.0.0/11": "the network of pods",
        "178.170.32.59": "the API server",
        "a.com": "spec.noProxy of EgressProxy/cluster",
        "svc": "spec.noProxy of EgressProxy/cluster",
        "b.com": "spec.noProxy of EgressProxy/west",
        "127.0.0.1": "the machine itself",
        "localhost": "the machine itself",
        "169.254.169.254": "the platform, AWS",
        "10.1.0.0/16": "spec.networks.machineNetwork of EgressProxy/west",
    }
    assert own["noProxy"] == ",".join(item["item"] for item in own["items"])
    reasons = {item["item"]: item["reason"] for item in own["items"]}
    assert reasons["metadata.google.internal"] == "the platform, GCP"
    assert reasons["a.com"] == "spec.noProxy of EgressProxy/cluster"
    text = run("no-proxy", "merge", "-f", directory, "--reasons").out
    assert "  10.1.0.0/16: spec.networks.machineNetwork of EgressProxy/west\n" in text
