"""kubeadm's payload, from `payload default` and `payload build` alone: squid, and behind it the publishers' servers."""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from lab.egress import Egress
from lab.mirror import Mirror
from lab.network import Network
from tests.support.repository import DOCS
from tests.support.workers.publishers import HOSTS, beside, published
from tests.support.workers.shipped import shipped
from typer.testing import CliRunner, Result

from transom.cli.program import build_program
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.payloads.shipped_payloads import CNIS, build_kubeadm_payload, read_versions, render_version_table
from transom.sources.payload import parse_payload

KUBERNETES = "v1.36.3"
ARCHIVE = "containerd-2.3.4-windows-amd64.tar.gz"


def test_each_program_has_its_publishers_checksum_file_beside_it() -> None:
    for cni in CNIS:
        payload = parse_payload(build_kubeadm_payload(cni, KUBERNETES)["payload.yaml"])
        fetched = [file for file in payload.files if not (file.content is not None or file.provided)]
        assert len(fetched) >= 6
        for file in fetched:
            assert file.checksums.rpartition("/")[0] == file.url.rpartition("/")[0]
            assert not file.sha256 and not file.source
        names = {file.path.rpartition("\\")[2] for file in fetched}
        assert names >= {
            "containerd.exe",
            "containerd-shim-runhcs-v1.exe",
            "kubelet.exe",
            "kube-proxy.exe",
            "kube-log-runner.exe",
        }


def test_the_page_has_the_table_of_versions() -> None:
    assert render_version_table() in (DOCS / "payload.md").read_text("utf-8")
    for kubernete in read_versions().kubernetes:
        text = build_kubeadm_payload("none", f"v{kubernete.minor}.1")["payload.yaml"].decode()
        assert f"kubernetes: v{kubernete.minor}.1\n" in text and f"containerd-{kubernete.containerd}-windows" in text
        assert not re.search(r"@[A-Z_]+@|^#@", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--kind", "kubeadm"), "--kubernetes-version: name the version"),
        (("--kind", "kubeadm", "--kubernetes-version", "1.36.3"), "'1.36.3' is not a supported Kubernetes version"),
        (("--kind", "kubeadm", "--kubernetes-version", "v1.12.0"), "v1.35, v1.36, v1.37"),
        (("--kind", "kubeadm", "--cni", "weave", "--kubernetes-version", "v1.36.3"), "there are calico, flannel, none"),
        (
            (
                "--kind",
                "k3s",
            ),
            "there are openshift and kubeadm",
        ),
        (("--kubernetes-version", "v1.36.3"), "are of --kind kubeadm"),
    ],
)
def test_what_cannot_be_is_named(arguments: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(build_program(), ["payload", "default", *arguments])
    assert done.exit_code == 2 and said in done.stderr


class Bench:
    """A proxy that wants credentials, the publishers behind it, and a directory to build in."""

    def __init__(self, mirror: Mirror, egress: Egress, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mirror, self.egress, self.monkeypatch = mirror, egress, monkeypatch
        self.directory = path / "payload"
        mirror.files.clear()
        mirror.asked.clear()
        (path / "ca.pem").write_text(egress.certificate)
        (path / "own").mkdir()
        (path / "own" / "csi-proxy.exe").write_bytes(b"MZ csi-proxy")
        self.own = path / "own"
        monkeypatch.setenv("SSL_CERT_FILE", str(path / "ca.pem"))
        monkeypatch.setenv("HTTPS_PROXY", egress.url_with_credentials)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        arguments = ("--kind", "kubeadm", "--cni", "none", "--kubernetes-version", KUBERNETES, "--csi-proxy")
        shipped("default", *arguments, "--output-dir", str(self.directory))
        payload = parse_payload((self.directory / "payload.yaml").read_bytes())
        mirror.files |= published(payload, {})

    def build(self) -> Result:
        return CliRunner().invoke(build_program(), ["payload", "build", str(self.directory), "--from", str(self.own)])

    def refused(self, *said: str) -> None:
        """The build says so, and what is there no operator takes for a payload."""
        done = self.build()
        assert done.exit_code == 1, done.output
        assert all(item in done.stderr for item in said), done.stderr
        assert "hunter2" not in done.output
        checked = CliRunner().invoke(build_program(), ["payload", "check", str(self.directory)])
        assert checked.exit_code == 2 and "run transom payload build" in checked.stderr


@pytest.fixture(scope="module")
def behind() -> Iterator[tuple[Mirror, Egress]]:
    with (
        Network(isolated=False) as network,
        Mirror(HOSTS) as mirror,
        Egress(network, "alice", "hunter2", mirror=mirror) as egress,
    ):
        yield mirror, egress


@pytest.fixture
def bench(behind: tuple[Mirror, Egress], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(*behind, tmp_path, monkeypatch)


def url_of(files: Mapping[str, bytes], name: str) -> str:
    return next(url for url in files if url.endswith(f"/{name}"))


@pytest.mark.lab
def test_default_and_build_make_a_payload(bench: Bench) -> None:
    done = bench.build()
    assert done.exit_code == 0, done.output
    opened = PayloadDirectory.open(bench.directory)
    kubelet = url_of(bench.mirror.files, "kubelet.exe")
    assert opened.artifacts[kubelet].sha256 == hashlib.sha256(bench.mirror.files[kubelet]).hexdigest()
    archive = url_of(bench.mirror.files, ARCHIVE)
    lock = json.loads((bench.directory / "payload.lock").read_bytes())["files"]
    assert lock[archive]["sha256"] == hashlib.sha256(bench.mirror.files[archive]).hexdigest()
    assert lock[archive]["checksums"] == f"{archive}.sha256sum"
    assert set(lock[archive]["members"]) == {"bin/containerd.exe", "bin/containerd-shim-runhcs-v1.exe"}
    # everything that was asked for went by the proxy, with its credentials; each archive once
    assert len(bench.mirror.asked) == len(set(bench.mirror.asked))
    assert {
        request.user
        for request in bench.egress.list_requests()
        if "github.com" in request.url and request.status.endswith("/200")
    } == {"alice"}
    # the archives are not kept, and nothing is fetched again but what the publishers say
    assert {path.name for path in (bench.directory / "downloads").iterdir()} == {
        artifact.sha256 for name, artifact in opened.artifacts.items() if name != "csi-proxy.exe"
    }
    bench.mirror.asked.clear()
    assert bench.build().exit_code == 0
    assert set(bench.mirror.asked) == {item["checksums"] for item in lock.values()}
    assert json.loads((bench.directory / "payload.lock").read_bytes())["files"] == lock
    # the role of kube-proxy is what kubeadm gives its own
    binding, *classes = yaml.safe_load_all((bench.directory / "cluster.yaml").read_text())
    assert {item["kind"] for item in classes} == {"RuntimeClass"}
    assert binding["roleRef"]["name"] == "system:node-proxier"


@pytest.mark.lab
def test_one_byte_changed(bench: Bench) -> None:
    url = url_of(bench.mirror.files, "kubelet.exe")
    bench.mirror.files[url] = bench.mirror.files[url][:-1] + b"?"
    bench.refused(url, "its SHA-256 is", f"and not the one in {url}.sha256")


@pytest.mark.lab
@pytest.mark.parametrize("name", ["kube-proxy.exe", "kube-proxy.exe.sha256", "sha256sums.txt"])
def test_one_file_missing(bench: Bench, name: str) -> None:
    url = url_of(bench.mirror.files, name)
    del bench.mirror.files[url]
    bench.refused(url, "the server answered 404")


@pytest.mark.lab
def test_a_proxy_that_answers_407(bench: Bench) -> None:
    bench.monkeypatch.setenv("HTTPS_PROXY", bench.egress.url)
    bench.refused("the proxy answered 407: it wants credentials, or other ones")
    assert bench.mirror.asked == []


@pytest.mark.lab
def test_a_file_that_is_published_anew(bench: Bench) -> None:
    assert bench.build().exit_code == 0
    url = url_of(bench.mirror.files, "kubelet.exe")
    before = (bench.directory / "payload.lock").read_bytes()
    bench.mirror.files |= beside(url, b"MZ another kubelet", f"{url}.sha256")
    done = bench.build()
    assert done.exit_code == 1 and f"{url}: {url}.sha256 has" in done.stderr and "the file was republished" in done.stderr
    assert (bench.directory / "payload.lock").read_bytes() == before
    # what was built before is still what it was
    assert PayloadDirectory.open(bench.directory).artifacts[url].sha256 in before.decode()


@pytest.mark.lab
@pytest.mark.parametrize(
    ("content", "said"),
    [(b"no archive", "it cannot be read as an archive"), (b"", "it has no bin/containerd.exe")],
)
def test_an_archive_that_is_another(bench: Bench, content: bytes, said: str) -> None:
    url = url_of(bench.mirror.files, ARCHIVE)
    if not content:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz"):
            pass
        content = packed.getvalue()
    bench.mirror.files |= beside(url, content, f"{url}.sha256sum")
    bench.refused(url, said)


@pytest.mark.lab
def test_a_checksum_file_that_says_nothing_of_it(bench: Bench) -> None:
    url = url_of(bench.mirror.files, "sha256sums.txt")
    bench.mirror.files[url] = f"{'a' * 64}  windows_exporter-0.1.0-amd64.exe\n".encode()
    bench.refused(url, "it has no SHA-256 of windows_exporter-0.31.8-amd64.exe")


def test_a_lock_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for name, content in build_kubeadm_payload("none", KUBERNETES).items():
        (tmp_path / name).write_bytes(content)
    for text, item in (("{", "truncated"), ('{"version": 9}', "this Transom reads 1"), ('{"more": 1}', "more")):
        (tmp_path / "payload.lock").write_text(text)
        done = CliRunner().invoke(build_program(), ["payload", "check", str(tmp_path)])
        assert done.exit_code == 2 and "payload.lock: cannot be read" in done.stderr and item in done.stderr
