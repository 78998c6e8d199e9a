"""`transom payload`: the shipped payload, the schema, and a directory that is built through a proxy."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.egress import Egress
from lab.network import Network
from tests.support.repository import DOCS
from tests.support.workers.payloads import TEXT, write
from tests.support.workers.shipped import FACTS, PROVIDED, shipped
from typer.testing import CliRunner

from transom.cli.program import build_program
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.proxy.settings import Egress as Settings
from transom.sources.payload import parse_payload
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import SERVICES
from transom.windows.payload.worker import Artifact, Facts, build_desired
from transom.windows.registry.registry import Registry


@pytest.mark.parametrize(("platform", "more"), [("AWS", set()), ("Azure", {"cloud-node-manager"})])
def test_the_shipped_payload_waits_for_the_subnet_and_then_renders_its_configuration(platform: str, more: set[str]) -> None:
    payload = parse_payload(shipped("default").encode())
    artifacts = {file.source: Artifact("0" * 64, 1) for file in payload.files if file.source}
    empty = ObservedState(Registry(), computer_name="WIN-1")
    facts = Facts(node_ip="10.0.0.7", network="OVNKubernetes", platform=platform, variables=FACTS)
    waiting = build_desired(payload, artifacts, facts, Settings(), empty)
    needs = {w.service: w.needs for w in waiting.waiting}
    assert needs["kube-proxy"] in ("SUBNET", "SOURCE_VIP")
    assert needs["kubelet"] in ("kubelet-ca", "bootstrap-kubeconfig")
    assert "containerd" in {service.name for service in waiting.state.services}

    annotations = {"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.1.0/24"}
    facts = Facts(
        node_ip="10.0.0.7",
        network="OVNKubernetes",
        platform=platform,
        variables=FACTS,
        node={"metadata": {"annotations": annotations}},
        provided=PROVIDED,
    )
    made = build_desired(
        payload,
        artifacts,
        facts,
        Settings(),
        ObservedState(Registry(), computer_name="WIN-1", outputs={"SOURCE_VIP": "10.132.1.9", "PROVIDER_ADDRESS": "10.0.0.7"}),
    )
    assert made.waiting == ()
    order = [service.name for service in made.state.services]
    assert set(order) == {"containerd", "kubelet", "hybrid-overlay-node", "kube-proxy", "csi-proxy", "windows_exporter"} | more
    assert order.index("containerd") < order.index("kubelet") < order.index("hybrid-overlay-node") < order.index("kube-proxy")
    texts = {path: made.contents[sha].reveal() for path, sha in made.state.files.items() if sha in made.contents}
    assert json.loads(texts[r"C:\k\cni\config\cni.conf"])["ipam"]["subnet"] == "10.132.1.0/24"
    assert yaml.safe_load(texts[r"C:\k\kube-proxy.conf"])["winkernel"]["sourceVip"] == "10.132.1.9"
    assert yaml.safe_load(texts[r"C:\k\kubelet.conf"])["clusterDNS"] == ["172.30.0.10"]
    assert not any(re.search(r"\$\{", text) for text in texts.values())
    # the overlay trusts the API server's CA, and nobody else
    overlay = made.state.registry.find_value(rf"{SERVICES}\hybrid-overlay-node", "ImagePath")
    assert overlay is not None
    (authority,) = re.findall(r"--k8s-cacert (\S+)", overlay.decode_text())
    assert texts[authority] == "server"
    assert "--hybrid-overlay-vxlan-port 9898" in overlay.decode_text()
    kubelet = made.state.registry.find_value(rf"{SERVICES}\kubelet", "ImagePath")
    assert kubelet is not None
    assert ("--image-credential-provider-config=" in kubelet.decode_text()) == (platform == "AWS")
    assert made.state.readers[r"C:\k\kubelet-ca.crt"] == ()
    assert made.state.readers[r"C:\k\bootstrap-ca.crt"] == ("hybrid-overlay-node",)


def test_the_schema_knows_every_field_of_the_shipped_payload() -> None:
    schema = json.loads(shipped("schema"))

    def fits(value: Any, part: dict[str, Any]) -> None:
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].rpartition("/")[2]]
        if isinstance(value, dict) and "properties" in part:
            assert set(value) <= set(part["properties"]) and set(part["required"]) <= set(value)
            for name, held in value.items():
                fits(held, part["properties"][name])
        elif isinstance(value, list):
            for held in value:
                fits(held, part["items"])

    fits(yaml.safe_load(shipped("default")), schema)
    assert json.loads((DOCS / "schemas/payload.json").read_text()) == schema
    assert schema["$defs"]["PayloadFile"]["additionalProperties"] is False


@pytest.fixture
def built(tmp_path: Path) -> Path:
    return write(tmp_path / "from")


def test_files_are_copied_and_checked(built: Path, tmp_path: Path) -> None:
    target = tmp_path / "payload"
    target.mkdir()
    (target / "payload.yaml").write_text(TEXT)
    incomplete = CliRunner().invoke(build_program(), ["payload", "check", str(target)])
    assert incomplete.exit_code == 2
    assert f"{target}/payload.yaml: files[0].source: {target}/bin/containerd.exe cannot be read" in incomplete.stderr
    assert "3 services, 6 files" in shipped("build", str(target), "--from", str(built))
    told = json.loads(shipped("check", str(target), "-o", "json"))
    assert (told["version"], told["services"]) == ("1.36.3-1", ["kubelet", "containerd", "kube-proxy"])
    assert {k: v for k, v in told["files"][1].items() if k != "sha256"} == {"source": "bin/kubelet.exe", "bytes": 3000}
    assert PayloadDirectory.open(target).artifacts["bin/kubelet.exe"].size == 3000


@pytest.mark.lab
def test_a_url_is_fetched_through_the_proxy_and_its_hash_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the registry's list of tags, which is the same each time, through what squid decrypts
    with Network(isolated=False) as network, Egress(network) as egress:
        url = f"https://{egress.format_image('none').partition('/')[0]}/v2/x/tags/list"
        certificate = tmp_path / "ca.pem"
        certificate.write_text(egress.certificate)
        monkeypatch.setenv("HTTPS_PROXY", egress.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        head = "apiVersion: transom.dev/v1alpha1\nkind: Payload\nversion: 1.0.0\nkubernetes: v1.36.3\nfiles:\n"
        directory = tmp_path / "payload"
        directory.mkdir()
        (directory / "payload.yaml").write_text(head + rf"- {{path: 'C:\k\m', url: '{url}', sha256: {'a' * 64}}}")
        wrong = CliRunner().invoke(build_program(), ["payload", "build", str(directory)])
        assert wrong.exit_code == 1 and "its SHA-256 is" in wrong.stderr
        found = re.search(r"its SHA-256 is ([0-9a-f]{64})", wrong.stderr)
        assert found and not list((directory / "downloads").iterdir())
        (directory / "payload.yaml").write_text(head + rf"- {{path: 'C:\k\m', url: '{url}', sha256: {found[1]}}}")
        assert "1 files" in shipped("build", str(directory))
        (kept,) = (directory / "downloads").iterdir()
        assert hashlib.sha256(kept.read_bytes()).hexdigest() == found[1] == kept.name
        assert any(request.url.startswith("registry.corp.example") for request in egress.list_requests())
