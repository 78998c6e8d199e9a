"""`transom doctor` as people call it; what it looks for is in tests/diagnosis."""

import asyncio
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.cluster_server import Cluster, serving
from tests.cli.servers import kubeconfig
from tests.support.bundles import egress_proxy, private_key, secret, write
from tests.support.command import run

from transom.windows.host.queries import ENVIRONMENT
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_sz as text
from winsim import Simulator

pytestmark = pytest.mark.server
PASSWORD = "hunter2%^&"
OWN = "/api/v1/namespaces/transom-system"
INSTANCE = {
    "apiVersion": "transom.dev/v1alpha1",
    "kind": "WindowsInstance",
    "metadata": {"name": "win-1", "namespace": "transom-system", "uid": "w"},
    "spec": {"address": "127.0.0.1", "username": "Administrator"},
}
PROXY = egress_proxy({"httpProxy": f"http://u:{PASSWORD}@p.example:1", "noProxy": "*"}, "proxy")
PODS = [
    {
        "metadata": {"name": "transom-0", "namespace": "transom-system"},
        "spec": {"containers": [{"name": "transom", "env": [{"name": "X_TOKEN", "value": "hunter2"}]}]},
        "status": {"containerStatuses": [{"image": "transom:1", "state": {"waiting": {"reason": "ErrImagePull"}}}]},
    }
]
LOG = "GET http://u:hunter2@p.example and hunter2%25%5E%26, Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln\n"
LISTS: dict[str, list[dict[str, Any]]] = {
    "/apis/transom.dev/v1alpha1/egressproxies": [PROXY],
    "/apis/transom.dev/v1alpha1/windowsinstances": [INSTANCE],
    "/apis/coordination.k8s.io/v1/namespaces/transom-system/leases": [],
    "/apis/apps/v1/namespaces/transom-system/deployments": [],
    "/apis/apps/v1/daemonsets": [],
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": [],
    "/api/v1/nodes": [],
    "/api/v1/namespaces": [],
    "/api/v1/pods": PODS,
    f"{OWN}/pods": PODS,
    "/api/v1/configmaps": [],
    f"{OWN}/configmaps": [],
    f"{OWN}/secrets": [secret("proxy", stringData={"password": PASSWORD})],
    "/api/v1/secrets": [{"metadata": {"name": "cloud-private-key", "namespace": "default"}}],
    f"{OWN}/events": [
        {
            "metadata": {"name": "e", "namespace": "transom-system"},
            "involvedObject": {"kind": "WindowsInstance", "name": "win-1"},
            "reason": "Unreachable",
            "message": f"no way to http://u:{PASSWORD}@p.example",
        }
    ],
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with serving(Cluster(LISTS)) as running:
        running.texts[f"{OWN}/pods/transom-0/log"] = LOG
        yield running


def test_each_finding_has_evidence_consequence_and_command(cluster: Cluster, tmp_path: Path) -> None:
    told = run("doctor", "--kubeconfig", kubeconfig(tmp_path / "config", cluster.url), "-o", "json")
    assert told.code == 1, told.err
    found = {finding["id"]: finding for finding in told.json["findings"]}
    assert list(found) == [
        *("base-missing", "reference-elsewhere", "leader-missing", "image-not-pulled", "settings-invalid"),
        "credentials-in-settings",
    ]
    assert "kubectl get secret cloud-private-key -n default -o yaml" in found["reference-elsewhere"]["command"]
    assert all(item["evidence"] and item["consequence"] and item["command"] for item in found.values())
    assert "hunter2" not in told.out
    text = run("doctor", "--kubeconfig", kubeconfig(tmp_path / "config", cluster.url))
    assert text.code == 1
    assert (
        "base-missing  EgressProxy/proxy\n  seen  EgressProxies are proxy: none is named `cluster`\n  so    hosts keep their"
        in text.out
    )
    assert text.out.splitlines()[-1].endswith("6 findings")


def discovery(group: str, *plurals: str) -> dict[str, str]:
    """Return the answers of an API server that has these kinds in a group of Cluster API's providers."""
    resources = [{"name": plural, "kind": KINDS[plural], "verbs": ["get", "list"], "namespaced": True} for plural in plurals]
    resources += [
        {"name": f"{plural}/status", "kind": KINDS[plural], "verbs": ["get"], "namespaced": True} for plural in plurals
    ]
    version = {"groupVersion": f"{group}/v1beta2", "version": "v1beta2"}
    return {
        f"/apis/{group}": json.dumps({"kind": "APIGroup", "name": group, "versions": [version], "preferredVersion": version}),
        f"/apis/{group}/v1beta2": json.dumps({"kind": "APIResourceList", "resources": resources}),
    }


KINDS = {"k0sworkerconfigtemplates": "K0sWorkerConfigTemplate", "kubeadmconfigtemplates": "KubeadmConfigTemplate"}
PROVIDERS = "bootstrap.cluster.x-k8s.io"


def test_label_on_a_kind_that_transom_does_not_edit(cluster: Cluster, tmp_path: Path) -> None:
    """The kinds are those that the server has, whatever their names are."""
    labelled = {"metadata": {"name": "md", "namespace": "org-a", "labels": {"transom.dev/inject": "true"}}, "spec": {}}
    cluster.texts |= discovery(PROVIDERS, *KINDS)
    cluster.lists |= {f"/apis/{PROVIDERS}/v1beta2/{kind}": [labelled] for kind in KINDS}
    told = run("doctor", "--kubeconfig", kubeconfig(tmp_path / "config", cluster.url), "-o", "json")
    found = [finding["object"] for finding in told.json["findings"] if finding["id"] == "machines-without-settings"]
    assert found == ["K0sWorkerConfigTemplate/org-a/md"]
    (url, *_) = [item for item in cluster.asked if "k0sworkerconfigtemplates" in item]
    assert "labelSelector=transom.dev%2Finject%3Dtrue" in url
    cluster.forbidden = (f"/apis/{PROVIDERS}/v1beta2/k0s",)
    told = run("doctor", "--kubeconfig", kubeconfig(tmp_path / "config", cluster.url))
    assert "transom: k0sworkerconfigtemplates could not be read: " in told.err


def test_what_may_not_be_read_is_named_and_is_no_finding(cluster: Cluster, tmp_path: Path) -> None:
    cluster.lists |= {"/apis/transom.dev/v1alpha1/egressproxies": [], "/apis/transom.dev/v1alpha1/windowsinstances": []}
    cluster.forbidden = ("/api/v1/", "/version")
    told = run("doctor", "--kubeconfig", kubeconfig(tmp_path / "config", cluster.url))
    assert told.code == 3, told.err
    for item in ("secrets in transom-system", "configmaps", "nodes", "pods", "namespaces", "the settings"):
        assert f"transom: {item} could not be read: " in told.err
    assert "nothing looks wrong" in told.out


def test_the_definitions_are_missing(cluster: Cluster, tmp_path: Path) -> None:
    cluster.lists = {path: listed for path, listed in cluster.lists.items() if "transom.dev" not in path}
    told = run("doctor", "--kubeconfig", kubeconfig(tmp_path / "config", cluster.url), "-o", "json")
    assert told.json["findings"][0]["id"] == "definitions-missing"


def test_a_directory(tmp_path: Path) -> None:
    key = secret("cloud-private-key", stringData={"private-key.pem": private_key("hunter2")})
    wrong = write(tmp_path, egress_proxy({"httpProxy": "http://p.example:1", "noProxy": "*"}, "proxy"), INSTANCE, key)
    told = run("doctor", "-f", wrong, "-o", "json")
    assert (told.code, [finding["id"] for finding in told.json["findings"]]) == (1, ["base-missing", "key-with-passphrase"])
    good = egress_proxy({"httpProxy": "http://p.example:1", "httpsProxy": "http://p.example:1", "noProxy": "*"})
    right = write(tmp_path, good, INSTANCE, secret("cloud-private-key", stringData={"private-key.pem": private_key()}))
    told = run("doctor", "-f", right)
    assert (told.code, told.err) == (0, "")
    assert told.out.endswith("nothing looks wrong\n")
    assert run("doctor", "-f", right, "--facts").code == 2
    assert run("doctor", "-f", "-").code == 2


async def test_the_bundle_of_a_directory_with_what_hosts_look_like(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    host = await simulator.add_host("win-1")
    url = text("http://u:hunter2@p.x:1")
    host.edit([SetValue(ENVIRONMENT, "BUILD_TOKEN", text("hunter2")), SetValue(ENVIRONMENT, "HTTP_PROXY", url)])
    named = INSTANCE | {"spec": {"address": host.address, "port": host.port, "username": "Administrator"}}
    key = secret("cloud-private-key", stringData={"private-key.pem": simulator.client_key.export_private_key().decode()})
    proxy = egress_proxy({"httpProxy": "http://p.example:1", "httpsProxy": "http://p.example:1", "noProxy": "*"})
    gone = INSTANCE | {"metadata": {"name": "win-2"}, "spec": {"address": "127.0.0.1", "port": 1, "username": "u"}}
    (lab := tmp_path / "lab").mkdir()
    file, files = tmp_path / "bundle.tar.gz", write(lab, proxy, key, named, gone)
    told = await asyncio.to_thread(run, "doctor", "-f", files, "--bundle", str(file), "--facts")
    assert told.code == 0, told.err + told.out
    found = unpacked(file)
    assert [name for name, content in found.items() if "hunter2" in content or "PRIVATE KEY" in content] == []
    environment = json.loads(found["transom/facts/win-1.json"])["environment"]
    assert {name: environment[name] for name in ("BUILD_TOKEN", "HTTP_PROXY")} == {
        "BUILD_TOKEN": "***",
        "HTTP_PROXY": "http://***@p.x:1",
    }
    assert "no connection to port 1" in json.loads(found["transom/facts/win-2.json"])["error"]


def test_the_directory_that_init_makes(tmp_path: Path) -> None:
    """Nothing looks wrong in the manifests of the demo on a simulated host."""
    assert run("init", str(tmp_path / "lab"), "--simulated").code == 0
    told = run("doctor", "-f", str(tmp_path / "lab"))
    assert (told.code, told.err) == (0, ""), told.out


def test_the_bundle_has_no_secret(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "transom.tar.gz"
    told = run("doctor", "--kubeconfig", kubeconfig(tmp_path / "config", cluster.url), "--bundle", str(file))
    assert told.code == 1, told.err
    assert file.stat().st_mode & 0o777 == 0o600
    files = unpacked(file)
    assert files.keys() >= {
        "transom/findings.json",
        "transom/status.json",
        "transom/versions.json",
        "transom/objects/egressproxy.yaml",
        "transom/objects/event.yaml",
        "transom/logs/transom-0.log",
        "transom/hosts/win-1.json",
    }
    assert [name for name, text in files.items() if "hunter2" in text or "c2ln" in text] == []
    assert files["transom/logs/transom-0.log"] == "GET http://***@p.example and ***, Bearer ***\n"
    (sealed,) = yaml.safe_load_all(files["transom/objects/secret.yaml"])
    assert sealed["data"] == {"password": "***"}
    assert json.loads(files["transom/hosts/win-1.json"])["events"][0]["message"] == "no way to http://***@p.example"


def unpacked(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        return {getmember.name: archive.extractfile(getmember).read().decode() for getmember in archive.getmembers()}  # type: ignore[union-attr]
