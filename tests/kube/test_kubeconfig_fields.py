"""Every field of a kubeconfig, as client-go has it: which have an effect, which are refused, and what a server then sees."""

import asyncio
import base64
import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.authority import Authority
from tests.kube.test_transport import Server, asks, connected, data, kubeconfig, listening, tls
from tests.support.repository import DOCS

from lab import golang
from transom.kube.client import Client
from transom.kube.credentials import PluginCredentials, build_exec_cluster
from transom.kube.errors import ConfigurationError, ConnectionFailed
from transom.kube.kubeconfig import ClusterEntry, choose_untrusted_context, select_context
from transom.kube.kubeconfig_fields import KUBECONFIG_FIELDS, Treatment

UPSTREAM = yaml.safe_load(Path(__file__).with_name("client_go_fields.yaml").read_text())
V1 = "client.authentication.k8s.io/v1"


def test_every_field_of_client_go_has_a_treatment() -> None:
    assert {kind: list(fields) for kind, fields in KUBECONFIG_FIELDS.items()} == UPSTREAM["types"]


def test_every_field_that_is_not_used_has_a_reason() -> None:
    for fields in KUBECONFIG_FIELDS.values():
        for name, treatment in fields.items():
            assert treatment.own is Treatment.USED or treatment.reason, name
            assert treatment.foreign is Treatment.USED or treatment.reason or treatment.foreign_reason, name


@pytest.mark.lab
def test_fields_are_those_of_client_go() -> None:
    source = (golang.fetch_module_source(Path(golang.__file__).parent, UPSTREAM["module"]) / UPSTREAM["file"]).read_text()
    for kind, fields in UPSTREAM["types"].items():
        body = re.search(rf"^type {kind} struct {{\n(.*?)^}}", source, re.DOTALL | re.MULTILINE)
        assert body is not None, kind
        assert re.findall(r'^\t\w+ .*`json:"([^",]+)', body[1], re.MULTILINE) == fields, kind


def test_page_has_a_row_for_every_field() -> None:
    rows = [line.split(" | ") for line in (DOCS / "kubeconfig.md").read_text().splitlines() if line.startswith("| `")]
    told = {(kind.strip("| `"), name.strip("`")): (own, foreign) for kind, name, own, foreign, *_ in rows}
    assert told == {
        (kind, name): (treatment.own.value, treatment.foreign.value)
        for kind, fields in KUBECONFIG_FIELDS.items()
        for name, treatment in fields.items()
    }


FOREIGN_VALUES: dict[str, dict[str, Any]] = {
    "Cluster": {"insecure-skip-tls-verify": True, "certificate-authority": "/ca.crt"},
    "AuthInfo": {
        "client-certificate": "/c",
        "client-key": "/k",
        "tokenFile": "/t",
        "as": "root",
        "as-uid": "0",
        "as-groups": ["system:masters"],
        "as-user-extra": {"reason": ["x"]},
        "auth-provider": {"name": "gcp"},
        "exec": {"apiVersion": V1, "command": "id"},
    },
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind in ("Cluster", "AuthInfo")
        for name, treatment in KUBECONFIG_FIELDS[kind].items()
        if treatment.foreign is Treatment.REFUSED
    ],
)
def test_field_that_a_workload_cluster_may_not_set(kind: str, name: str) -> None:
    part = {name: FOREIGN_VALUES[kind][name]}
    cluster, user = (part, {}) if kind == "Cluster" else ({}, part)
    config = kubeconfig({"server": "https://10.0.0.1"} | cluster, {"token": "hunter2"} | user)
    with pytest.raises(ConfigurationError, match=rf"\.{name} is not taken: \w+"):
        choose_untrusted_context(config, "Secret t/c-kubeconfig")


def sent(server: Server, prefix: str) -> list[str]:
    return [line for line in server.heads[-1].splitlines() if line.lower().startswith(prefix)]


@pytest.mark.server
@pytest.mark.parametrize(
    ("user", "headers"),
    [
        ({"as": "viewer"}, ["Impersonate-User: viewer"]),
        (
            {"as": "sudo", "as-uid": "7", "as-groups": ["ops", "dev"], "as-user-extra": {"reason": ["x", "y"], "a/B é": ["z"]}},
            [
                "Impersonate-User: sudo",
                "Impersonate-Uid: 7",
                "Impersonate-Group: ops",
                "Impersonate-Group: dev",
                "Impersonate-Extra-reason: x",
                "Impersonate-Extra-reason: y",
                "Impersonate-Extra-a%2FB%20%C3%A9: z",
            ],
        ),
        ({"as": "", "as-groups": []}, []),
    ],
)
async def test_impersonation_is_sent_with_requests_and_websockets(
    tmp_path: Path, user: dict[str, Any], headers: list[str]
) -> None:
    server = Server()
    async with listening(server) as port:
        way = connected(tmp_path, {"server": f"http://127.0.0.1:{port}"}, {"token": "hunter2"} | user)
        await Client(way).get_json("/version")
        assert sorted(sent(server, "impersonate-")) == sorted(headers)
        async with way.transport.open_websocket("/api/v1/x", [("a", "b")], ["v5.channel.k8s.io"]) as status:
            assert status == 200
        await way.close()
    assert sorted(sent(server, "impersonate-")) == sorted(headers)
    assert server.said("Authorization") == "Bearer hunter2"
    assert len(server.heads) == 2


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"as-groups": ["ops"]}, "user.as-groups is set without user.as"),
        ({"as-uid": "7"}, "user.as-uid is set without user.as"),
        ({"as-user-extra": {"a": ["b"]}}, "user.as-user-extra is set without user.as"),
        ({"as": "a\r\nX: hunter2"}, "control characters"),
        ({"as": "a", "as-groups": ["a\nX: hunter2"]}, "control characters"),
        ({"exec": {"apiVersion": V1, "command": "c", "interactiveMode": "Sometimes"}}, "interactive"),
        ({"exec": {"apiVersion": V1}}, "command"),
    ],
)
def test_user_that_is_refused(tmp_path: Path, user: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        connected(tmp_path, {"server": "https://127.0.0.1:1"}, user)
    assert "hunter2" not in str(caught.value)


@pytest.mark.server
@pytest.mark.parametrize(("cluster", "encoding"), [({}, "gzip"), ({"disable-compression": True}, "identity")])
async def test_compression(tmp_path: Path, cluster: dict[str, Any], encoding: str) -> None:
    server = Server()
    async with listening(server) as port:
        await asks(connected(tmp_path, {"server": f"http://127.0.0.1:{port}"} | cluster, {}))
    assert encoding in (server.said("Accept-Encoding") or "")


def certificate_status(directory: Path, **fields: str) -> str:
    """Return what a plugin prints that has the client certificate of a directory."""
    files = {"clientCertificateData": "client.crt", "clientKeyData": "client.key"}
    status = {field: (directory / name).read_text() for field, name in files.items()} | fields
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


def write_plugin(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def printed(status: dict[str, Any], version: str = V1) -> str:
    return f"cat <<'.'\n{json.dumps({'apiVersion': version, 'kind': 'ExecCredential', 'status': status})}\n.\n"


def plugin(command: str, **fields: Any) -> dict[str, Any]:
    return {"exec": {"apiVersion": V1, "command": command, "interactiveMode": "Never"} | fields}


@pytest.mark.server
@pytest.mark.parametrize("command", ["./bin/plugin", "bin/plugin", "absolute", "of PATH"])
async def test_command_of_a_plugin_is_relative_to_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    elsewhere = tmp_path / "elsewhere" / "bin"
    for directory, token in ((tmp_path / "home" / "bin", "ours"), (elsewhere, "of-the-working-directory")):
        directory.mkdir(parents=True)
        write_plugin(directory / "plugin", printed({"token": token}))
    monkeypatch.chdir(elsewhere.parent)
    monkeypatch.setenv("PATH", f"{tmp_path / 'home' / 'bin'}:/usr/bin:/bin")
    names = {"absolute": str(tmp_path / "home" / "bin" / "plugin"), "of PATH": "plugin"}
    server = Server()
    async with listening(server) as port:
        user = plugin(names.get(command, command))
        await asks(connected(tmp_path / "home", {"server": f"http://127.0.0.1:{port}"}, user))
    assert server.said("Authorization") == "Bearer ours"


async def test_program_that_only_the_working_directory_has_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plugin(tmp_path / "plugin", "touch ran\n" + printed({"token": "x"}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".:/usr/bin:/bin")
    with pytest.raises(ConnectionFailed, match="working directory"):
        await asks(connected(tmp_path, {"server": "http://127.0.0.1:1"}, plugin("plugin")))
    assert not (tmp_path / "ran").exists()


@pytest.mark.server
async def test_client_certificate_of_a_plugin_and_the_next_one(tmp_path: Path) -> None:
    """The plugin is asked again when its answer has expired; the next certificate then serves new connections."""
    context = tls(tmp_path)
    (tmp_path / "later").mkdir()
    (tmp_path / "status").write_text(certificate_status(tmp_path, expirationTimestamp="2001-01-01T00:00:00Z"))
    write_plugin(tmp_path / "plugin", f"echo x >>{tmp_path}/runs; cat {tmp_path}/status")
    server = Server()
    async with listening(server, context) as port:
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.crt"}
        way = connected(tmp_path, cluster, plugin("./plugin"))
        await Client(way).get_json("/version")
        assert server.names == ["me"]
        assert server.said("Authorization") is None
        other = Authority(tmp_path / "later", "later-ca")
        other.issue("client", "renewed")
        context.load_verify_locations(other.certificate_file)
        (tmp_path / "status").write_text(certificate_status(tmp_path / "later", token="hunter2"))
        await Client(way).get_json("/version")
        await Client(way).get_json("/version")
        await way.close()
    assert server.names == ["me", "renewed", "renewed"]
    assert server.said("Authorization") == "Bearer hunter2"
    assert (tmp_path / "runs").read_text().count("x") == 2


class Refusing(Server):
    """Answers with 401 until a client shows the certificate of `name`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        certificate = writer.get_extra_info("peercert") or {}
        self.names += [value for ((key, value),) in certificate.get("subject", ()) if key == "commonName"]
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        status = b"200 OK" if self.names[-1] == self.name else b"401 Unauthorized"
        writer.write(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()


@pytest.mark.server
async def test_plugin_is_asked_again_after_401_without_a_token(tmp_path: Path) -> None:
    context = tls(tmp_path)
    (tmp_path / "later").mkdir()
    other = Authority(tmp_path / "later", "later-ca")
    other.issue("client", "renewed")
    context.load_verify_locations(other.certificate_file)
    for name, directory in (("first", tmp_path), ("second", tmp_path / "later")):
        (tmp_path / name).write_text(certificate_status(directory))
    write_plugin(tmp_path / "plugin", f"cat {tmp_path}/first; cp {tmp_path}/second {tmp_path}/first")
    server = Refusing("renewed")
    async with listening(server, context) as port:
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.crt"}
        await asks(connected(tmp_path, cluster, plugin("./plugin")))
    assert server.names == ["me", "renewed"]


@pytest.mark.server
async def test_plugin_is_not_run_for_a_user_with_a_certificate(tmp_path: Path) -> None:
    context = tls(tmp_path)
    write_plugin(tmp_path / "plugin", f"touch {tmp_path}/ran\n" + printed({"token": "x"}))
    server = Server()
    async with listening(server, context) as port:
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.crt"}
        user = data(tmp_path, "client-certificate", "client-key") | plugin("./plugin")
        await asks(connected(tmp_path, cluster, user))
    assert server.names == ["me"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        (printed({}), {}, "printed no status.token"),
        ("echo '{}'", {}, "another apiVersion"),
        ("echo hunter2", {}, "no valid ExecCredential"),
        (printed({"token": "hunter2"}, "client.authentication.k8s.io/v1beta1"), {}, "another apiVersion"),
        (printed({"clientCertificateData": "hunter2"}), {}, "only one of"),
        (printed({"clientKeyData": "hunter2"}), {}, "only one of"),
        (printed({"clientCertificateData": "hunter2", "clientKeyData": "hunter2"}), {}, "cannot be read"),
        ("exit 3", {}, "exit code 3"),
        ("exit 0", {"interactiveMode": "Always"}, "not a terminal"),
        ("exit 0", {"command": "./missing", "installHint": "run `brew install x`\x1b"}, r"No such file.*brew install x`\\x1b"),
    ],
)
async def test_plugin_that_gives_nothing_usable(tmp_path: Path, text: str, fields: dict[str, Any], message: str) -> None:
    write_plugin(tmp_path / "plugin", text)
    with pytest.raises(ConnectionFailed, match=message) as caught:
        await asks(connected(tmp_path, {"server": "http://127.0.0.1:1"}, {"exec": plugin("./plugin")["exec"] | fields}))
    assert "hunter2" not in str(caught.value)


CLUSTER = {
    "server": "https://10.0.0.1:6443",
    "tls-server-name": "api",
    "proxy-url": "http://p:3128",
    "disable-compression": True,
    "extensions": [
        {"name": "other", "extension": {"x": 1}},
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "06e3"}},
    ],
}


@pytest.mark.parametrize("provide", [True, False])
async def test_plugin_gets_the_cluster_only_where_it_asks_for_it(tmp_path: Path, provide: bool) -> None:
    (tmp_path / "ca.crt").write_text("PEM")
    write_plugin(tmp_path / "plugin", f'echo "$KUBERNETES_EXEC_INFO" >{tmp_path}/info; exit 1')
    cluster = CLUSTER | {"certificate-authority": "ca.crt"}
    user = plugin("./plugin", provideClusterInfo=provide)
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig(cluster, user)))
    chosen = select_context(str(tmp_path / "config"))
    assert chosen.user.exec is not None
    with pytest.raises(ConfigurationError):
        await PluginCredentials(chosen.user.exec, chosen.cluster, chosen.source).get()
    info = json.loads((tmp_path / "info").read_text())
    assert info["spec"].get("cluster") == (
        {
            "server": "https://10.0.0.1:6443",
            "tls-server-name": "api",
            "certificate-authority-data": base64.b64encode(b"PEM").decode(),
            "proxy-url": "http://p:3128",
            "disable-compression": True,
            "config": {"audience": "06e3"},
        }
        if provide
        else None
    )
    assert info["spec"]["interactive"] is False


def test_cluster_that_says_little_gives_a_plugin_little() -> None:
    assert build_exec_cluster(ClusterEntry("https://x")) == {"server": "https://x"}


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks4", "SOCKS5"])
def test_socks_proxy_is_refused_with_a_way_out(tmp_path: Path, scheme: str) -> None:
    with pytest.raises(ConfigurationError, match="SOCKS") as caught:
        connected(tmp_path, {"server": "https://x", "proxy-url": f"{scheme}://hunter2@127.0.0.1:1080"}, {})
    assert "hunter2" not in str(caught.value)
