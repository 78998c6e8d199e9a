"""Files that users own: no command replaces one that it did not write as it is, unless `--force` says so."""

import base64
import hashlib
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from tests.support.bundles import certificate, config_map, egress_proxy, private_key, secret, write
from tests.support.command import run

from transom.cli.output_files import RECORD

INSTANCE = {
    "apiVersion": "transom.dev/v1alpha1",
    "kind": "WindowsInstance",
    "metadata": {"name": "win-1", "namespace": "transom-system"},
    "spec": {"address": "127.0.0.1", "port": 1, "username": "Administrator"},
}
NETWORKS = {
    "machineNetwork": ["10.0.0.0/16"],
    "serviceNetwork": ["10.96.0.0/16"],
    "podNetwork": ["10.244.0.0/16"],
    "internalAPIHost": "api.corp.example",
}
CLUSTER = {
    "apiVersion": "cluster.x-k8s.io/v1beta1",
    "kind": "Cluster",
    "metadata": {"name": "prod", "namespace": "default"},
    "spec": {"controlPlaneEndpoint": {"host": "api.prod", "port": 6443}},
}


class Writer(NamedTuple):
    """A command that writes files: its arguments (`{d}` is the place, `{m}` manifests), and a file that it writes."""

    arguments: tuple[str, ...]
    file: str


WRITERS = {
    "init": Writer(("init", "{d}", "--simulated"), "egress.yaml"),
    "render": Writer(("render", "-f", "{m}", "--output-dir", "{d}"), "hosts/win-1/desired.reg"),
    "render --first-machine": Writer(("render", "-f", "{m}", "--first-machine", "--output-dir", "{d}"), "commands.sh"),
    "manifests": Writer(("manifests", "--image", "r.example/t:1", "--output-dir", "{d}"), "kustomization.yaml"),
    "manifests --olm-bundle": Writer(
        ("manifests", "--image", "r.example/t:1", "--olm-bundle", "r.example/b:1", "--output-dir", "{d}"), "bundle.Dockerfile"
    ),
    "payload default": Writer(("payload", "default", "--output-dir", "{d}"), "payload.yaml"),
    "capi worker": Writer(
        ("capi", "worker", "--cluster", "prod", "--provider", "aws", "--output-dir", "{d}"),
        "default/machinedeployment-prod-win.yaml",
    ),
    "capi image": Writer(("capi", "image", "--provider", "aws", "--output-dir", "{d}"), "windows.pkr.hcl"),
}


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    directory = tmp_path / "manifests"
    directory.mkdir()
    return write(
        directory,
        egress_proxy(
            {
                "httpProxy": "http://p.x:1",
                "httpsProxy": "http://p.x:1",
                "noProxy": ".corp.example",
                "trustedCA": {"name": "ca"},
                "networks": NETWORKS,
            }
        ),
        config_map("ca", {"ca-bundle.crt": certificate("Root")}),
        secret("cloud-private-key", stringData={"private-key.pem": private_key()}),
        INSTANCE,
    )


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_the_users_is_replaced_by_force_alone(name: str, manifests: str, tmp_path: Path) -> None:
    writer, directory = WRITERS[name], tmp_path / "out"
    arguments = [part.format(d=directory, m=manifests) for part in writer.arguments]
    made = run(*arguments)
    assert made.code == 0, made.err
    whole = contents(directory)
    edited = directory / writer.file
    edited.write_bytes(edited.read_bytes() + b"# mine\n")
    kept = contents(directory)

    refused = run(*arguments)
    assert refused.code == 2
    assert str(edited if name != "init" else directory) in refused.err
    assert "--force" in refused.err
    assert contents(directory) == kept

    assert run(*arguments, "--force").code == 0
    assert b"# mine" not in edited.read_bytes()
    assert contents(directory).keys() == whole.keys()


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "init"])
def test_what_the_command_wrote_it_replaces(name: str, manifests: str, tmp_path: Path) -> None:
    """Also what an earlier version of the settings, or of Transom, made of it; nothing else of the directory changes."""
    writer, directory = WRITERS[name], tmp_path / "out"
    arguments = [part.format(d=directory, m=manifests) for part in writer.arguments]
    directory.mkdir()
    (directory / "README.md").write_text("mine")
    assert run(*arguments).code == 0
    assert run(*arguments).code == 0
    written = (directory / writer.file).read_bytes()
    # as if this version wrote something else there
    record = (directory / RECORD).read_text()
    (directory / writer.file).write_bytes(b"of before")
    (directory / RECORD).write_text(
        record.replace(hashlib.sha256(written).hexdigest(), hashlib.sha256(b"of before").hexdigest())
    )
    again = run(*arguments)
    if hashlib.sha256(written).hexdigest() in record:
        assert again.code == 0
        assert (directory / writer.file).read_bytes() == written
    else:
        # files with secrets are known by their time, and this one has another
        assert again.code == 2
    assert (directory / "README.md").read_text() == "mine"


def test_no_hash_of_a_file_with_a_password_is_kept(manifests: str, tmp_path: Path) -> None:
    assert run("render", "-f", manifests, "--output-dir", str(tmp_path / "out")).code == 0
    assert "sha256" not in (tmp_path / "out" / RECORD).read_text()
    changed = Path(manifests, "manifests.yaml") if Path(manifests).is_dir() else Path(manifests)
    changed.write_text(changed.read_text().replace("http://p.x:1", "http://other.x:1"))
    assert run("render", "-f", manifests, "--output-dir", str(tmp_path / "out")).code == 0


def test_a_clone_of_a_repository_is_written_to_as_its_origin(tmp_path: Path) -> None:
    """Git keeps no times: what may be public is known by its content."""
    arguments = ("manifests", "--image", "r.example/t:1", "--output-dir")
    assert run(*arguments, str(tmp_path / "origin")).code == 0
    shutil.copytree(tmp_path / "origin", tmp_path / "clone", copy_function=shutil.copyfile)
    again = run("manifests", "--image", "r.example/t:2", "--output-dir", str(tmp_path / "clone"))
    assert again.code == 0, again.err


def test_several_files_are_named_and_none_is_written(tmp_path: Path) -> None:
    for name in ("payload.yaml", "source-vip.ps1"):
        (tmp_path / name).write_text("mine")
    refused = run("payload", "default", "--output-dir", str(tmp_path))
    assert refused.code == 2
    assert str(tmp_path / "payload.yaml") in refused.err
    assert str(tmp_path / "source-vip.ps1") in refused.err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"payload.yaml": "mine", "source-vip.ps1": "mine"}


def test_a_bundle_for_support_replaces_no_file(manifests: str, tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_text("mine")
    refused = run("doctor", "-f", manifests, "--bundle", str(tmp_path / "b.tar.gz"))
    assert (refused.code, (tmp_path / "b.tar.gz").read_text()) == (2, "mine")
    assert str(tmp_path / "b.tar.gz") in refused.err
    assert run("doctor", "-f", manifests, "--bundle", str(tmp_path / "b.tar.gz"), "--force").code in (0, 1, 3)
    assert (tmp_path / "b.tar.gz").read_bytes()[:2] == b"\x1f\x8b"


@pytest.mark.parametrize("command", [("verify", "host", "127.0.0.1"), ("verify", "cluster")])
def test_a_report_of_checks_replaces_none_but_its_like(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "notes.xml").write_text("mine")
    refused = run(*command, "--junit", str(tmp_path / "notes.xml"))
    assert (refused.code, (tmp_path / "notes.xml").read_text()) == (2, "mine")
    assert str(tmp_path / "notes.xml") in refused.err


PAYLOAD = {
    "apiVersion": "transom.dev/v1alpha1",
    "kind": "Payload",
    "version": "v1.36.3",
    "kubernetes": "v1.36.3",
    "files": [{"path": r"C:\k\a.txt", "source": "a.txt"}],
    "variables": [{"name": "X", "script": "x.ps1"}],
}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    directory = tmp_path / "sources"
    directory.mkdir()
    (directory / "a.txt").write_text("new")
    (directory / "x.ps1").write_text("new")
    return directory


def test_a_build_of_a_payload_leaves_edited_scripts(tmp_path: Path, sources: Path) -> None:
    directory = tmp_path / "payload"
    directory.mkdir()
    (directory / "payload.yaml").write_text(yaml.safe_dump(PAYLOAD))
    (directory / "x.ps1").write_text("mine")
    refused = run("payload", "build", str(directory), "--from", str(sources))
    assert (refused.code, (directory / "x.ps1").read_text()) == (2, "mine"), refused.err
    assert str(directory / "x.ps1") in refused.err
    assert not (directory / "a.txt").exists()
    run("payload", "build", str(directory), "--from", str(sources), "--force")
    assert (directory / "x.ps1").read_text() == "new"


def test_a_file_with_a_hash_is_what_payload_yaml_says(tmp_path: Path, sources: Path) -> None:
    """An old program in a payload is of no use to anybody: no word is asked for it."""
    directory = tmp_path / "payload"
    directory.mkdir()
    files = [{"path": r"C:\k\a.txt", "source": "a.txt", "sha256": hashlib.sha256(b"new").hexdigest()}]
    (directory / "payload.yaml").write_text(yaml.safe_dump(PAYLOAD | {"files": files, "variables": []}))
    (directory / "a.txt").write_text("old")
    run("payload", "build", str(directory), "--from", str(sources))
    assert (directory / "a.txt").read_text() == "new"


def test_a_copy_of_a_payload_leaves_edits_of_the_target(tmp_path: Path, sources: Path) -> None:
    (sources / "payload.yaml").write_text(yaml.safe_dump(PAYLOAD))
    target = tmp_path / "target"
    first = run("payload", "copy", str(sources), str(target))
    assert first.code == 0, first.err
    assert run("payload", "copy", str(sources), str(target)).code == 0
    (target / "payload.yaml").write_text("mine")
    refused = run("payload", "copy", str(sources), str(target))
    assert (refused.code, (target / "payload.yaml").read_text()) == (2, "mine")
    assert run("payload", "copy", str(sources), str(target), "--force").code == 0


def test_downloads_beside_a_template_are_left(tmp_path: Path) -> None:
    held, image = tmp_path / "held", tmp_path / "image"
    held.mkdir()
    listed = run("capi", "image", "--provider", "openstack", "--offline", "-o", "json").json
    for item in listed:
        (held / item["file"]).write_bytes(base64.b64encode(item["file"].encode()))
    arguments = ("capi", "image", "--provider", "openstack", "--output-dir", str(image), "--downloads", str(held))
    made = run(*arguments)
    if made.code:
        # what the publisher's hashes refuse is another test's
        pytest.fail(made.err)
    theirs = image / "downloads" / listed[0]["file"]
    theirs.write_text("mine")
    refused = run(*arguments)
    assert (refused.code, theirs.read_text()) == (2, "mine")
    assert str(theirs) in refused.err


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
