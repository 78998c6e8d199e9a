"""The commands: their JSON, their text, their exit codes, and the files that `render` writes."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import bundles
from tests.support.command import run

from transom.windows.registry.reg import parse_export

HOST = {
    "apiVersion": "transom.dev/v1alpha1",
    "kind": "WindowsInstance",
    "metadata": {"name": "win-1"},
    "spec": {"address": "10.0.0.7", "username": "Administrator"},
}
KEY = bundles.secret("cloud-private-key", stringData={"private-key.pem": bundles.private_key()})
NETWORKS = {
    "machineNetwork": ["10.0.0.0/16"],
    "serviceNetwork": ["172.30.0.0/16"],
    "podNetwork": ["10.128.0.0/14"],
    "internalAPIHost": "api.x",
}


def test_findings_as_json(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    file = tmp_path / "sub" / "settings.yml"
    file.write_text(
        "apiVersion: transom.dev/v1alpha1\nkind: EgressProxy\nmetadata: {name: cluster}\nspec:\n"
        "  httpProxy: http://p.x:1\n  networks:\n    serviceNetwork: [10.0.0.0/16, ten]\n"
    )
    ran = run("validate", "-f", str(tmp_path), "-o", "json")
    assert ran.code == 2
    (error,) = [finding for finding in ran.json if finding["severity"] == "error"]
    assert error == {
        "severity": "error",
        "file": str(file),
        "object": "EgressProxy/cluster",
        "field": "spec.networks.serviceNetwork[1]",
        "message": "is not a CIDR, for example 10.0.0.0/16",
        "line": 7,
        "column": 35,
    }


def test_findings_for_people(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "apiVersion: transom.dev/v1alpha1\nkind: EgressProxy\nmetadata: {name: cluster}\nspec:\n"
        "  httpProxy: http://u:hunter2^@p.x:1\n  noProxy: a.com,*.b.com\n"
    )
    lines = run("validate", "-f", str(file)).out.splitlines()
    assert lines[0].split() == ["SEVERITY", "WHERE", "OBJECT", "FIELD", "MESSAGE"]
    at = next(number for number, line in enumerate(lines) if "`*.b.com`" in line)
    assert f"{file}:6:12" in lines[at]
    assert lines[at + 1] == "    6 | noProxy: a.com,*.b.com"
    assert lines[at + 2] == "      |                ^^^^^^^"
    assert not [line for line in lines if "httpProxy: ***" in line], "nothing is seen of a line that is hidden"
    assert lines[-1] == "1 EgressProxy: 2 errors"


def placed(value: dict[str, Any], namespace: str = "transom-system") -> dict[str, Any]:
    return value | {"metadata": value["metadata"] | {"namespace": namespace}}


def test_nothing_wrong(tmp_path: Path) -> None:
    base = bundles.egress_proxy({"httpProxy": "http://p.x:1", "networks": NETWORKS})
    ran = run("validate", "-f", bundles.write(tmp_path, base, placed(HOST), placed(KEY)))
    assert (ran.code, ran.out) == (0, "1 EgressProxy, 1 WindowsInstance: nothing is wrong\n")


def test_objects_without_a_namespace_are_warned_of(tmp_path: Path) -> None:
    """`kubectl apply` of the same files would put a private key somewhere else."""
    base = bundles.egress_proxy({"httpProxy": "http://p.x:1", "networks": NETWORKS})
    ran = run("validate", "-o", "json", "-f", bundles.write(tmp_path, base, HOST, KEY))
    (finding,) = ran.json
    assert (ran.code, finding["severity"], finding["field"]) == (0, "warning", "metadata")
    assert "nor does 1 more object" in finding["message"]
    # other commands take them as they always did, without a word
    assert "namespace" not in run("render", "-f", str(tmp_path)).err


def test_an_instance_in_another_namespace_is_nobodys(tmp_path: Path) -> None:
    base = bundles.egress_proxy({"httpProxy": "http://p.x:1", "networks": NETWORKS})
    directory = bundles.write(tmp_path, base, placed(HOST, "default"), placed(KEY))
    ran = run("validate", "-o", "json", "-f", directory)
    (finding,) = ran.json
    assert (ran.code, finding["severity"], finding["field"]) == (0, "warning", "metadata.namespace")
    assert "is not transom-system: apply and the operator skip this host" in finding["message"]
    for command in ("diff", "apply"):
        done = run(command, "-o", "json", "-f", directory)
        (host,) = done.json["hosts"]
        # a diff has not compared it
        assert (done.code, host["name"], host["result"]) == (3 if command == "diff" else 1, "default/win-1", "skipped")
        assert "its namespace is not transom-system" in host["error"]


def test_warnings_alone_are_no_failure(tmp_path: Path) -> None:
    directory = bundles.write(
        tmp_path, bundles.egress_proxy({"httpProxy": "http://p.x:1", "noProxy": "10.0.0", "networks": NETWORKS})
    )
    assert run("validate", "-f", directory).code == 0
    assert [finding["severity"] for finding in run("validate", "-f", directory, "-o", "json").json] == ["warning"]


def test_json_files_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = json.dumps(bundles.egress_proxy({"noProxy": "😀"}))
    assert "\\ud83d\\ude00" in proxy
    (tmp_path / "a.json").write_text(proxy)
    (tmp_path / "b.txt").write_text("not read")
    messages = [finding["message"] for finding in run("validate", "-f", str(tmp_path), "-o", "json").json]
    assert any("item 1 `😀`" in message for message in messages)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(proxy.encode())))
    ran = run("validate", "-f", "-", "-o", "json")
    assert {finding["file"] for finding in ran.json} == {"-"}


def test_no_file_and_no_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nobody"))
    ran = run("validate")
    assert ran.code == 2
    assert "-f PATH reads manifests instead" in ran.err


def test_another_namespace(tmp_path: Path) -> None:
    bundle = bundles.config_map("ca", {"ca-bundle.crt": bundles.certificate("Root")}, "elsewhere")
    directory = bundles.write(tmp_path, bundles.egress_proxy({"trustedCA": {"name": "ca"}}), bundle)
    assert run("validate", "-f", directory).code == 2
    assert run("validate", "-f", directory, "--namespace", "elsewhere").code == 0


def test_merge(tmp_path: Path) -> None:
    directory = bundles.write(tmp_path, bundles.egress_proxy({"httpProxy": "http://p.x:1"}), bundles.cluster("prod"))
    ran = run("no-proxy", "merge", "-f", directory, "-o", "json")
    assert [{name: item[name] for name in ("cluster", "noProxy")} for item in ran.json] == [
        {"cluster": None, "noProxy": ".cluster.local,.svc,127.0.0.1,localhost"},
        {
            "cluster": "org-x/prod",
            "noProxy": "cluster.local,100.64.0.0/13,100.96.0.0/11,178.170.32.59,svc,127.0.0.1,localhost",
        },
    ]
    assert run("no-proxy", "merge", "-f", directory).out.splitlines()[0] == f"this cluster: {ran.json[0]['noProxy']}"


def test_merge_of_invalid_settings(tmp_path: Path) -> None:
    ran = run("no-proxy", "merge", "-f", bundles.write(tmp_path, bundles.egress_proxy({"noProxy": "a.com"})), "-o", "json")
    assert (ran.code, ran.out) == (2, "")
    assert "spec.noProxy" in ran.err


def test_merge_without_a_base(tmp_path: Path) -> None:
    ran = run("no-proxy", "merge", "-f", bundles.write(tmp_path, bundles.cluster("prod")), "-o", "json")
    assert ran.json == [{"cluster": "org-x/prod", "noProxy": "", "items": []}]


def test_a_list_of_one_cluster_is_printed_alone(tmp_path: Path) -> None:
    ran = run(
        "no-proxy", "merge", "-f", bundles.write(tmp_path, bundles.egress_proxy({"httpProxy": "http://p.x:1", "noProxy": "*"}))
    )
    assert ran.out == "*\n"


def injected(name: str, value: str, label: str = "transom.dev/inject-trusted-cabundle") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app", "labels": {label: value}}}


def test_render_injects_bundles(tmp_path: Path) -> None:
    system = tmp_path / "system.pem"
    system.write_text("# the system's\n" + bundles.certificate("System") + bundles.certificate("Root"))
    openshift = "config.openshift.io/inject-trusted-cabundle"
    objects = [
        bundles.egress_proxy({"trustedCA": {"name": "ca"}}),
        bundles.config_map("ca", {"ca-bundle.crt": "# ours\n" + bundles.certificate("Root")}),
        injected("both", "true"),
        injected("alone", "bundle-only"),
        injected("none", "false"),
        injected("openshift", "true", openshift),
    ]
    rendered = run("render", "-f", bundles.write(tmp_path, *objects), "--system-ca-file", str(system)).out
    data = {item["metadata"]["name"]: item["data"]["ca-bundle.crt"] for item in yaml.safe_load_all(rendered)}
    both = bundles.certificate("System") + bundles.certificate("Root")
    assert data == {"both": both, "alone": bundles.certificate("Root"), "openshift": both}
    (tmp_path / "proxy.yaml").write_text(yaml.safe_dump(bundles.openshift_proxy({})))
    assert run("render", "-f", str(tmp_path), "--system-ca-file", str(system)).out == ""


def test_render_writes_files(tmp_path: Path) -> None:
    spec = {"httpProxy": "http://p.x:1", "credentialsSecret": {"name": "creds"}, "trustedCA": {"name": "ca"}}
    objects = [
        bundles.egress_proxy(spec | {"networks": NETWORKS, "windows": {"powerShell": True}}),
        bundles.secret("creds", stringData={"username": "user", "password": bundles.PASSWORD}),
        bundles.config_map("ca", {"ca-bundle.crt": bundles.certificate("Root")}),
        injected("alone", "bundle-only"),
        HOST,
        KEY,
    ]
    (tmp_path / "in").mkdir()
    out = tmp_path / "out"
    ran = run("render", "-f", bundles.write(tmp_path / "in", *objects), "--output-dir", str(out))
    assert ran.code == 0, ran.err
    files = {str(path.relative_to(out)): path for path in out.rglob("*") if path.is_file()}
    of_host = {"hosts/win-1/desired.reg", "hosts/win-1/profile.ps1"}
    assert set(files) == {"objects/app/configmap-alone.yaml", *of_host, ".transom-written"}
    profile = files["hosts/win-1/profile.ps1"].read_text()
    assert ("'http://p.x:1'" in profile, "hunter2" in profile) == (True, False)
    assert {path.stat().st_mode & 0o777 for path in files.values()} == {0o600}
    value = parse_export(files["hosts/win-1/desired.reg"].read_bytes()).find_value(
        r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services\kubelet", "Environment"
    )
    assert value is not None
    assert value.to_texts()[0] == "HTTP_PROXY=http://user:hunter2%25%5E%26%21%22%5C%C3%A9%20x@p.x:1"
    assert "hunter2" not in ran.out + ran.err
    assert run("render", "-f", str(tmp_path / "in"), "--output-dir", str(out)).code == 0


def test_render_of_invalid_settings(tmp_path: Path) -> None:
    ran = run("render", "-f", bundles.write(tmp_path, bundles.egress_proxy({"noProxy": "a.com"})))
    assert (ran.code, ran.out) == (2, "")
