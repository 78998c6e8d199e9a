"""The examples of the background documents: what their authors meant."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.bundles import NOW, certificate, config_map, openshift_proxy, write
from tests.support.command import run

from transom.sources.directory import load_objects
from transom.sources.examination import examine_objects

EXAMPLES = Path(__file__).parent / "examples"
RFC = (
    "cluster.local,100.64.0.0/13,100.96.0.0/11,178.170.32.59,172.16.0.0/16,internal.corpdomain.net,example.com,"
    "svc,127.0.0.1,localhost"
)


def lists(*files: str) -> dict[str | None, str]:
    ran = run("no-proxy", "merge", "-o", "json", *(part for file in files for part in ("-f", file)))
    assert ran.code == 0, ran.err
    return {entry["cluster"]: entry["noProxy"] for entry in ran.json}


def test_the_rfc() -> None:
    file = str(EXAMPLES / "rfc.yaml")
    ran = run("validate", "-f", file, "-o", "json")
    assert ran.code == 0
    assert {finding["severity"] for finding in ran.json} == {"warning"}
    assert lists(file)["org-giantswarm/mycluster"] == RFC
    egress = examine_objects(load_objects([file]), NOW).settings.clusters["org-giantswarm", "mycluster"]
    assert egress is not None
    assert egress.http_proxy is not None
    assert egress.http_proxy.reveal() == "http://myProxyUser:mySuperSecretPassword@192.168.52.220:3128"


def test_what_the_rfc_could_not_do() -> None:
    file = str(EXAMPLES / "rfc-limitations.yaml")
    mesh = "members.mesh.corpdomain.net"
    found = lists(file)
    assert [mesh in found[f"org-a/{name}"].split(",") for name in ("one", "two", "three")] == [True, True, False]
    clusters = examine_objects(load_objects([file]), NOW).settings.clusters
    urls = {name: (egress.http_proxy, egress.https_proxy) for (_, name), egress in clusters.items() if egress}
    shown = {name: tuple(url and url.reveal() for url in pair) for name, pair in urls.items()}
    base = "http://192.168.52.220:3128"
    # the unit is replaced whole: nobody's credentials reach somebody else's proxy
    own = ("http://acme:hunter2%2F%25@proxy.customer.example:8080", None)
    assert shown == {"one": (base, base), "two": own, "three": (base, base)}


def test_the_windows_enhancement_on_openshift(tmp_path: Path) -> None:
    bundle = config_map("user-ca-bundle", {"ca-bundle.crt": certificate("Proxy CA")}, "openshift-config")
    files = [str(EXAMPLES / "openshift.yaml"), write(tmp_path, bundle)]
    ran = run("validate", "-o", "json", *(part for file in files for part in ("-f", file)))
    # its enhancement has the password in the URL, which the first boot of a machine cannot use
    found = [(item["severity"], item["field"]) for item in ran.json]
    assert (ran.code, found) == (0, [("warning", "spec.httpProxy"), ("warning", "spec.httpsProxy")])
    own = examine_objects(load_objects(files), NOW).settings.own
    assert own is not None
    assert [held.subject for held in own.trust] == ["CN=Proxy CA,O=Corp\\, Inc"]
    assert own.no_proxy.split(",")[0] == ".cluster.local"
    assert own.readiness_endpoints == ("https://registry.redhat.io",)


def test_the_list_that_the_operator_computed_is_the_one_that_we_compute(tmp_path: Path) -> None:
    objects: list[dict[str, Any]] = list(yaml.safe_load_all((EXAMPLES / "openshift.yaml").read_text("utf-8")))
    computed = objects[0]["status"]["noProxy"]
    del objects[0]["status"], objects[0]["spec"]["trustedCA"]
    assert lists(write(tmp_path, *objects)) == {None: computed}


def test_a_cluster_without_a_proxy(tmp_path: Path) -> None:
    """The epic: "Maintain normal functionality in non-proxied clusters"."""
    directory = write(tmp_path, openshift_proxy({"trustedCA": {"name": ""}}, {}))
    ran = run("validate", "-f", directory, "-o", "json")
    assert (ran.code, ran.json) == (0, [])
    own = examine_objects(load_objects([directory]), NOW).settings.own
    assert own is not None
    assert not own.configured


@pytest.mark.parametrize("defect", ["http://", "http:p.x"])
def test_the_operators_known_defects_are_not_copied(defect: str, tmp_path: Path) -> None:
    assert run("validate", "-f", write(tmp_path, openshift_proxy({"httpProxy": defect}))).code == 2


def test_every_field(tmp_path: Path) -> None:
    files = [
        str(EXAMPLES / "every-field.yaml"),
        write(tmp_path, config_map("corp-ca", {"ca-bundle.crt": certificate("Corp")}, "transom-system")),
    ]
    ran = run("validate", "-o", "json", *(part for file in files for part in ("-f", file)))
    assert (ran.code, ran.json) == (0, [])
    own = examine_objects(load_objects(files), NOW).settings.own
    assert own is not None
    assert own.https_proxy is not None
    assert own.https_proxy.reveal() == "http://user:hunter2%25@proxy.corp.example:3128"
    assert (own.readiness_policy, own.windows.restart, own.consumers) == ("Gate", "Rolling", ("Nodes", "Apps", "Pods"))
