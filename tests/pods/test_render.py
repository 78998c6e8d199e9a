"""`transom render` prints what the controller would keep in the Namespaces among the manifests."""

from pathlib import Path

import pytest
import yaml
from tests.pods.table import NAMESPACES, OWN, PASSWORD, objects
from tests.support.command import run
from tests.support.operator.bundles import ROOT_1

from transom.proxy.trust import format_pem, parse_bundle

POD = {"name": "web", "namespace": "plain", "labels": {"transom.dev/inject-ca": "true"}}
ALL = {"plain", "team-a", "team-c", "with-ca", "without-ca", "enabled", "kubernetes-like"}


@pytest.mark.parametrize(
    ("settings", "secrets", "bundles"),
    [
        ("plain", set(), {"plain", "with-ca"}),
        ("credentials", ALL, {"plain", "with-ca"}),
        ("userinfo", {"team-a"}, set()),
        ("withheld", set(), {"plain", "with-ca"}),
        ("narrowed", set(), set()),
        ("not-for-pods", set(), set()),
    ],
)
def test_the_objects_of_pods(settings: str, secrets: set[str], bundles: set[str], tmp_path: Path) -> None:
    named = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n, "labels": held}} for n, held in NAMESPACES.items()
    ]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": POD, "spec": {"containers": [{"name": "app", "image": "x"}]}}
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}}
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([*objects(settings), *named, own, pod]))
    (tmp_path / "system.pem").write_text("")
    command = ("render", "-f", str(tmp_path), "--system-ca-file", str(tmp_path / "system.pem"))
    done = run(*command)
    assert done.code == 0, done.err
    made = list(yaml.safe_load_all(done.out))
    found = {(item["kind"], item["metadata"]["name"], item["metadata"]["namespace"]) for item in made}
    wanted = {("Secret", "transom-egress", name) for name in secrets}
    assert found == wanted | {("ConfigMap", "transom-egress-ca", name) for name in bundles}
    for entry in made:
        assert entry["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "transom"}
        if entry["kind"] == "Secret":
            assert set(entry["data"].values()) == {"***"}
        else:
            assert entry["data"] == {"ca-bundle.crt": format_pem(parse_bundle(ROOT_1).certificates)}
    assert PASSWORD not in done.out
    if secrets:
        shown = list(yaml.safe_load_all(run(*command, "--show-secrets").out))
        assert all(item["data"].keys() == {"HTTP_PROXY", "HTTPS_PROXY"} for item in shown if item["kind"] == "Secret")
        assert "***" not in str(shown)
