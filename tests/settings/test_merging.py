"""The merged NO_PROXY: the table, row by row."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.settings.bundles import NOW, certificate, cluster, config_map, egress_proxy, openshift_proxy, write

from transom.sources.directory import load
from transom.sources.examination import examine

TABLE: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "tables" / "merging.yaml").read_text("utf-8"))
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
    examined = examine(load([write(tmp_path, *manifests(row))]), NOW)
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
    objects = load([write(tmp_path, egress_proxy({"httpProxy": "http://p.x:1"}), *(OBJECTS[name] for name in known))])
    own = examine(objects, NOW, "https://10.1.2.3:6443").settings.own
    assert own is not None
    assert own.api_server_known
    named = {"10.1.2.3", "k8s-api.corp.example", "api-int.prod.example.com"}
    assert named & set(own.no_proxy.split(",")) == {host}


def test_the_table_has_sixty_rows() -> None:
    assert len(TABLE) >= 60
    assert len({row["row"] for row in TABLE}) == len(TABLE)
