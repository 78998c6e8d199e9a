"""`transom init`: what is written passes `validate`, and a mistake writes nothing."""

import errno
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from tests.cli.cluster_server import Cluster, serving
from tests.cli.servers import kubeconfig
from tests.cli.terminals import Typist
from tests.support.bundles import certificate, private_key
from tests.support.command import Ran, run
from tests.support.pages import blocks
from tests.support.repository import DOCS

from transom.cli.init_answers import PASSWORD
from transom.proxy.trust import read_bundle

PROXY = ("--proxy", "http://p.corp.example:3128")
NETWORKS = (
    *("--machine-network", "10.0.0.0/16", "--service-network", "10.96.0.0/16", "--pod-network", "10.244.0.0/16"),
    *("--api-host", "api.corp.example"),
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    pem = certificate("Corp CA")
    made = x509.load_pem_x509_certificate(pem.encode())
    (tmp_path / "key").write_text(private_key())
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAAC3Nz me@here\n")
    (tmp_path / "sealed").write_text(private_key("hunter2"))
    (tmp_path / "ca.pem").write_text(pem)
    (tmp_path / "ca.cer").write_bytes(made.public_bytes(Encoding.DER))
    (tmp_path / "ca.p7b").write_bytes(pkcs7.serialize_certificates([made], Encoding.DER))
    (tmp_path / "ca.p7b.pem").write_bytes(pkcs7.serialize_certificates([made], Encoding.PEM))
    (tmp_path / "utf16.pem").write_bytes(pem.replace("\n", "\r\n").encode("utf-16"))
    (tmp_path / "utf16-key").write_bytes(private_key().encode("utf-16"))
    (tmp_path / "comments.pem").write_text("# the CA of the proxy\n")
    return tmp_path


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def test_options_make_a_directory_that_is_valid(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD, "hunter2")
    directory = files / "made"
    options = (*PROXY, "--no-proxy", ".corp.example", "--proxy-user", "alice", *NETWORKS)
    hosts = ("--host", "10.0.0.11", "--host", "win-2.corp.example", "--key", str(files / "key"), "--ca", str(files / "ca.pem"))
    made = run("init", str(directory), *options, *hosts)
    assert (made.code, made.out) == (0, "")
    assert "hunter2" not in made.err
    assert f"transom apply -f {directory}" in made.err
    ran = run("validate", "-f", str(directory), "-o", "json")
    assert (ran.code, ran.json) == (0, [])
    assert {file.stat().st_mode & 0o777 for file in directory.iterdir()} == {0o600}
    assert (directory / ".gitignore").read_text().splitlines()[0] == "secrets.yaml"
    again = run("init", str(directory), *options)
    assert again.code == 2
    assert str(directory) in again.err


def test_the_line_of_the_page_makes_a_directory_that_is_valid(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that `apply` refuses is left open: no finding, so no host is refused for want of a setting."""
    line = next(line for block in blocks(DOCS / "start.md") for line in block.lines if line.startswith("transom init prod --"))
    monkeypatch.chdir(files)
    (files / "key").rename(files / "id_ed25519")
    (files / "ca.pem").rename(files / "corp-ca.pem")
    made = run(*line.split()[1:])
    assert made.code == 0, made.err
    ran = run("validate", "-f", "prod", "-o", "json")
    assert (ran.code, ran.json) == (0, [])


HOSTS = {
    "10.0.0.11": {"address": "10.0.0.11", "username": "Administrator"},
    "10.0.0.11:2222": {"address": "10.0.0.11", "username": "Administrator", "port": 2222},
    "bob@win-1.corp.example": {"address": "win-1.corp.example", "username": "bob"},
    "bob@win-1:2222": {"address": "win-1", "username": "bob", "port": 2222},
    "ssh://bob@win-1:22/": {"address": "win-1", "username": "bob"},
    "fd00::1": {"address": "fd00::1", "username": "Administrator"},
    "[fd00::1]:2222": {"address": "fd00::1", "username": "Administrator", "port": 2222},
    r"CORP\bob@10.0.0.11": {"address": "10.0.0.11", "username": r"CORP\bob"},
    "bob@corp.example@10.0.0.11": {"address": "10.0.0.11", "username": "bob@corp.example"},
    "'10.0.0.11'": {"address": "10.0.0.11", "username": "Administrator"},
}


@pytest.mark.parametrize("text", HOSTS)
def test_a_host_is_written_as_ssh_takes_it(text: str, files: Path) -> None:
    assert run("init", str(files / "made"), *PROXY, "--host", text, "--key", str(files / "key")).code == 0
    (host,) = documents(files / "made" / "hosts.yaml")
    assert host["spec"] == HOSTS[text]
    assert run("validate", "-f", str(files / "made")).code == 0


@pytest.mark.parametrize("name", ["ca.pem", "ca.cer", "ca.p7b", "ca.p7b.pem", "utf16.pem"])
def test_a_ca_is_read_in_the_forms_of_windows(name: str, files: Path) -> None:
    assert run("init", str(files / "made"), *PROXY, "--ca", str(files / name)).code == 0
    (made,) = documents(files / "made" / "ca.yaml")
    assert made["data"]["ca-bundle.crt"].replace("\r", "").strip() == certificate("Corp CA").strip()
    shown = run("trust", "inspect", str(files / name), "-o", "json")
    assert (shown.code, len(shown.json)) == (0, 1)


def test_a_key_that_an_editor_wrote(files: Path) -> None:
    options = (*PROXY, "--host", "10.0.0.11", "--key", str(files / "utf16-key"))
    assert run("init", str(files / "made"), *options).code == 0
    _, key = (
        next(iter(document["stringData"].values()), "")
        for document in [{"stringData": {}}, *documents(files / "made/secrets.yaml")]
    )
    assert key == private_key()


def test_credentials_in_the_url_go_into_a_secret(files: Path) -> None:
    made = run("init", str(files / "made"), "--proxy", "http://bob:hunter2%25@p.x:3128")
    assert (made.code, "hunter2" in made.err) == (0, False)
    (egress,), (credentials,) = documents(files / "made/egress.yaml"), documents(files / "made/secrets.yaml")
    assert egress["spec"]["httpProxy"] == egress["spec"]["httpsProxy"] == "http://p.x:3128"
    assert credentials["stringData"] == {"username": "bob", "password": "hunter2%"}


WRONG = {
    "nothing": ((), "--proxy"),
    "no scheme": (("--proxy", "p.x:1"), "--proxy: must begin with http://"),
    "a fault of the list": ((*PROXY, "--no-proxy", "*.corp.example"), "--no-proxy: "),
    "a list with blanks": ((*PROXY, "--no-proxy", "a.x b.x"), "--no-proxy: "),
    "no network": ((*PROXY, "--pod-network", "10.0.0.0"), "--pod-network: `10.0.0.0`"),
    "host bits that are no mask": ((*PROXY, "--machine-network", "10.0.0.0/33"), "--machine-network: "),
    "a URL for a host": ((*PROXY, "--api-host", "https://api.x:6443"), "--api-host: "),
    "no key": ((*PROXY, "--host", "10.0.0.1"), "--key FILE"),
    "the public key": ((*PROXY, "--host", "10.0.0.1", "--key", "{d}/key.pub"), "{d}/key.pub: the SSH key is not a private key"),
    "a passphrase": ((*PROXY, "--host", "10.0.0.1", "--key", "{d}/sealed"), "{d}/sealed: the SSH key has a passphrase"),
    "a directory": ((*PROXY, "--host", "10.0.0.1", "--key", "{d}"), "--key: {d}: cannot be read"),
    "no host": ((*PROXY, "--host", "http://10.0.0.1", "--key", "{d}/key"), "--host: `http://10.0.0.1`"),
    "a port that is none": ((*PROXY, "--host", "10.0.0.1:99999", "--key", "{d}/key"), "1 to 65535"),
    "a host twice": ((*PROXY, "--host", "10.0.0.1 10.0.0.1", "--key", "{d}/key"), "--host: `10.0.0.1`"),
    "no CA": ((*PROXY, "--ca", "/nowhere"), "--ca: /nowhere: cannot be read"),
    "comments": ((*PROXY, "--ca", "{d}/comments.pem"), "{d}/comments.pem: no certificate found"),
    "the key as CA": ((*PROXY, "--ca", "{d}/key"), "private key"),
    "no password": ((*PROXY, "--proxy-user", "alice"), PASSWORD),
    "a URL for a user": ((*PROXY, "--proxy-user", "http://p.x:1"), "--proxy-user: "),
    "two users": (("--proxy", "http://bob:hunter2@p.x:1", "--proxy-user", "alice"), "--proxy-user"),
    "simulated, and a host": (("--simulated", "--host", "10.0.0.1"), "leave --host and --key out"),
    "simulated, and a cluster": (("--simulated", "--from-cluster"), "--from-cluster"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_and_nothing_written(name: str, files: Path) -> None:
    options, told = WRONG[name]
    made = run("init", str(files / "made"), *(part.replace("{d}", str(files)) for part in options))
    assert made.code == 2
    assert told.replace("{d}", str(files)) in made.err
    assert "hunter2" not in made.err
    assert not (files / "made").exists()


def test_a_repository_that_is_still_empty_is_a_place(files: Path) -> None:
    (files / "made" / ".git").mkdir(parents=True)
    (files / "made" / ".gitignore").write_text("*.bak\n")
    assert run("init", str(files / "made"), *PROXY).code == 0
    assert (files / "made" / ".gitignore").read_text().splitlines() == ["*.bak", "secrets.yaml", ".simulated-*"]


class Typed(io.StringIO):
    def isatty(self) -> bool:
        return True


def asked(monkeypatch: pytest.MonkeyPatch, directory: Path, *answers: str, options: tuple[str, ...] = ()) -> Ran:
    monkeypatch.setattr("sys.stdin", Typed("".join(f"{answer}\n" for answer in answers)))
    return run("init", str(directory), *options)


def test_questions_at_a_terminal(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    networks = ("api.corp.example", "10.0.0.0/16", "10.96.0.0/16", "10.244.0.0/16,fd00::/64")
    answers = ("http://p.corp.example:3128", "", ".corp.example", str(files / "ca.pem"), *networks, "10.0.0.11", "", "{key}")
    made = asked(monkeypatch, files / "made", *(answer.format(key=files / "key") for answer in answers))
    assert made.code == 0, made.err
    (host,), (egress,) = documents(files / "made" / "hosts.yaml"), documents(files / "made" / "egress.yaml")
    assert host["spec"] == {"address": "10.0.0.11", "username": "Administrator"}
    assert egress["spec"]["networks"] == {
        "internalAPIHost": "api.corp.example",
        "machineNetwork": ["10.0.0.0/16"],
        "serviceNetwork": ["10.96.0.0/16"],
        "podNetwork": ["10.244.0.0/16", "fd00::/64"],
    }
    ran = run("validate", "-f", str(files / "made"), "-o", "json")
    assert (ran.code, ran.json) == (0, [])


def test_a_wrong_answer_is_asked_for_again_and_no_other(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question gets its wrong answers first; what comes out is what the right ones say."""
    questions = (
        ("p.corp.example:3128", "socks5://p.x:1", "", "http://p.corp.example:3128"),
        ("http://p.corp.example:3128", ""),
        ("*.corp.example", "a.x;b.x", ".corp.example"),
        ("/nowhere", str(files / "key"), str(files / "comments.pem"), str(files / "ca.cer")),
        ("https://api.corp.example:6443", "api.corp.example"),
        ("10.0.0.0", "10.0.0.0/16"),
        ("10.96.0.0/99", ""),
        ("pods", ""),
        ("http://10.0.0.11", "10.0.0.11:0", "10.0.0.11 10.0.0.11", "10.0.0.11, bob@10.0.0.12:2222"),
        ("http://x", ""),
        (str(files / "key.pub"), str(files / "sealed"), str(files), "/nowhere", str(files / "key")),
    )
    made = asked(monkeypatch, files / "made", *(answer for answers in questions for answer in answers))
    assert made.code == 0, made.err
    one, two = documents(files / "made" / "hosts.yaml")
    assert one["spec"] == {"address": "10.0.0.11", "username": "Administrator"}
    assert two["spec"] == {"address": "10.0.0.12", "username": "bob", "port": 2222}
    (egress,) = documents(files / "made" / "egress.yaml")
    assert egress["spec"]["noProxy"] == ".corp.example"
    assert egress["spec"]["networks"] == {"internalAPIHost": "api.corp.example", "machineNetwork": ["10.0.0.0/16"]}


def test_what_options_say_is_not_asked_for(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = (
        *PROXY,
        "--no-proxy",
        ".x",
        *NETWORKS,
        "--host",
        "10.0.0.11",
        "--key",
        str(files / "key"),
        "--ca",
        str(files / "ca.pem"),
    )
    made = asked(monkeypatch, files / "made", options=whole)
    assert made.code == 0, made.err


def test_the_end_of_the_input_writes_nothing(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = asked(monkeypatch, files / "made", "http://p.corp.example:3128", "")
    assert made.code == 2
    assert "Aborted" not in made.err
    assert not (files / "made").exists()


def test_a_password_is_not_shown_and_ctrl_c_leaves_nothing(files: Path) -> None:
    person = Typist(files, "init", str(files / "made"))
    person.type("Proxy URL", "http://p.corp.example:3128")
    person.type("User name at the proxy", "http://p.corp.example:3128")
    person.type("User name at the proxy", "alice")
    person.type("Password of alice", "hunter2")
    person.interrupt("bypass the proxy")
    assert person.end() == 130
    assert "hunter2" not in person.seen
    assert "Traceback" not in person.seen
    assert not (files / "made").exists()

    person = Typist(files, "init", str(files / "made"))
    person.type("Proxy URL", "\x04")
    assert person.end() == 2
    assert not (files / "made").exists()


def test_a_full_disk_leaves_no_directory_behind(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_part(path: Path, content: bytes, *, private: bool) -> None:
        path.parent.mkdir(parents=True)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("transom.cli.commands.init.replace_file", write_part)
    with pytest.raises(OSError, match="No space left"):
        run("init", str(files / "new" / "made"), "--simulated")
    assert not (files / "new").exists()


CONFIG = "networking:\n  podSubnet: 10.244.0.0/16\n  serviceSubnet: 10.96.0.0/12\n  dnsDomain: cluster.local\n"


def published(server: str) -> str:
    return json.dumps({"clusters": [{"name": "", "cluster": {"server": server}}]})


def node(name: str, *addresses: tuple[str, str], **annotations: str) -> dict[str, Any]:
    listed = [{"type": kind, "address": address} for kind, address in addresses]
    meta = {"name": name, "labels": {"kubernetes.io/os": "windows"}, "annotations": annotations}
    return {"metadata": meta, "status": {"addresses": listed}}


def listed(server: str = "https://api.corp.example:6443") -> dict[str, list[dict[str, Any]]]:
    return {
        "/api/v1/namespaces/kube-system/configmaps": [
            {"metadata": {"name": "kubeadm-config", "namespace": "kube-system"}, "data": {"ClusterConfiguration": CONFIG}}
        ],
        "/api/v1/namespaces/kube-public/configmaps": [
            {"metadata": {"name": "cluster-info", "namespace": "kube-public"}, "data": {"kubeconfig": published(server)}}
        ],
        "/api/v1/nodes": [
            node("win-a", ("Hostname", "win-a"), ("InternalIP", "10.0.0.11")),
            node("win-b", ("InternalIP", "10.0.0.12"), **{"windowsmachineconfig.openshift.io/version": "10.0.0"}),
        ],
    }


def test_a_cluster_says_its_networks_and_nodes(files: Path) -> None:
    with serving(Cluster(listed())) as cluster:
        config = kubeconfig(files / "config", cluster.url)
        options = (*PROXY, "--machine-network", "10.0.0.0/16", "--from-cluster", "--kubeconfig", config)
        made = run("init", str(files / "made"), *options)
        hosts = run("init", str(files / "hosts"), *options, "--from-nodes", "--key", str(files / "key"))
    assert made.code == 0, made.err
    (egress,) = documents(files / "made" / "egress.yaml")
    assert egress["spec"]["networks"] == {
        "internalAPIHost": "api.corp.example",
        "machineNetwork": ["10.0.0.0/16"],
        "serviceNetwork": ["10.96.0.0/12"],
        "podNetwork": ["10.244.0.0/16"],
    }
    assert not (files / "made" / "hosts.yaml").exists()
    assert hosts.code == 0, hosts.err
    (host,) = documents(files / "hosts" / "hosts.yaml")
    assert (host["metadata"]["name"], host["spec"]) == ("win-a", {"address": "10.0.0.11", "username": "Administrator"})
    assert "win-b" in hosts.err
    assert run("validate", "-f", str(files / "hosts"), "-o", "json").json == []


@pytest.mark.parametrize("taken", ["y", "n"])
def test_nodes_are_offered_to_a_person(taken: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Cluster(listed())) as cluster:
        options = (
            *PROXY,
            "--from-cluster",
            "--kubeconfig",
            kubeconfig(files / "config", cluster.url),
            "--ca",
            str(files / "ca.pem"),
        )
        rest = ("bob", str(files / "key")) if taken == "y" else ("",)
        made = asked(monkeypatch, files / "made", "", "10.0.0.0/16", taken, *rest, options=options)
    assert made.code == 0, made.err
    assert (files / "made" / "hosts.yaml").exists() == (taken == "y")
    if taken == "y":
        (host,) = documents(files / "made" / "hosts.yaml")
        assert host["spec"] == {"address": "10.0.0.11", "username": "bob"}


def test_a_person_who_may_read_little_is_told_what_is_left_out(files: Path) -> None:
    forbidden = ("/api/v1/namespaces/kube-system", "/api/v1/nodes", "/apis/networking.k8s.io")
    with serving(Cluster(listed("https://127.0.0.1:6443"), forbidden)) as cluster:
        made = run(
            "init", str(files / "made"), *PROXY, "--from-cluster", "--kubeconfig", kubeconfig(files / "config", cluster.url)
        )
    assert made.code == 0, made.err
    assert "kube-system/kubeadm-config" in made.err
    # no other machine reaches the API server there
    assert "--api-host" in made.err
    assert "networks" not in documents(files / "made" / "egress.yaml")[0]["spec"]


def test_no_cluster_no_directory(files: Path) -> None:
    refused = run("init", str(files / "made"), *PROXY, "--from-cluster", "--kubeconfig", str(files / "nowhere"))
    assert (refused.code, (files / "made").exists()) == (2, False)


def test_a_certificate_is_read_as_openssl_writes_it(files: Path) -> None:
    """PKCS#7 and DER of another program than ours."""
    subprocess.run(
        ["openssl", "crl2pkcs7", "-nocrl", "-certfile", "ca.pem", "-outform", "DER", "-out", "x.p7b"], cwd=files, check=True
    )
    read = read_bundle((files / "x.p7b").read_bytes())
    assert (read.form, [item.subject for item in read.bundle.certificates]) == ("PKCS#7", ["CN=Corp CA,O=Corp\\, Inc"])


def test_no_simulated_host_to_run(tmp_path: Path) -> None:
    told = run("simulate", str(tmp_path))
    assert told.code == 2
    assert "`transom init DIR --simulated` creates one" in told.err
