"""The ways to an API server, and that the environment has no say in them."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from lab.control_plane import ControlPlane
from tests.kube.relay import Relay
from tests.support.waiting import PATIENCE

from transom.kube import kubeconfig
from transom.kube.client import Client, WatchEvent
from transom.kube.connection import connect
from transom.kube.errors import ConfigurationError, ConnectionFailed, StatusError
from transom.kube.resources import NAMESPACES


async def who(kubeconfig: Path | None = None, context: str | None = None) -> str:
    """The user that the server takes us for."""
    connection = connect(str(kubeconfig) if kubeconfig else None, context)
    try:
        return await taken_for(Client(connection))
    finally:
        await connection.close()


async def taken_for(client: Client) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", None, review)
    return str(json.loads(answer)["status"]["userInfo"]["username"])


def edited(kubeconfig: Path, target: Path, **user: object) -> Path:
    value = yaml.safe_load(kubeconfig.read_text())
    value["users"][0]["user"] = user
    target.write_text(yaml.safe_dump(value))
    return target


@pytest.mark.lab
async def test_a_token_in_the_kubeconfig(control_plane: ControlPlane) -> None:
    assert await who(control_plane.kubeconfig) == "admin"


@pytest.mark.lab
async def test_a_token_in_a_file_is_read_again(control_plane: ControlPlane, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("hunter2-not-valid\n")
    connection = connect(str(edited(control_plane.kubeconfig, tmp_path / "config", tokenFile="token")))
    client = Client(connection)
    with pytest.raises(StatusError) as error:
        await client.list_objects(NAMESPACES)
    assert error.value.code == 401
    token.write_text(control_plane.admin_token)
    await client.list_objects(NAMESPACES)
    token.unlink()
    await client.list_objects(NAMESPACES)
    await connection.close()


@pytest.mark.lab
async def test_a_token_in_the_kubeconfig_is_read_again(control_plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = edited(control_plane.kubeconfig, tmp_path / "config", token="hunter2-not-valid")
    connection = connect(str(kubeconfig))
    client = Client(connection)
    with pytest.raises(StatusError):
        await client.list_objects(NAMESPACES)
    edited(control_plane.kubeconfig, kubeconfig, token=control_plane.admin_token)
    await client.list_objects(NAMESPACES)
    kubeconfig.write_text("users: [")
    await client.list_objects(NAMESPACES)
    await connection.close()


@pytest.mark.lab
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_token_from_a_plugin_is_asked_for_once_and_again_after_a_401(
    control_plane: ControlPlane, tmp_path: Path, version: str
) -> None:
    calls, token = tmp_path / "calls", tmp_path / "token"
    token.write_text("hunter2-not-valid")
    script = (
        "import json, os, pathlib, sys; info = json.loads(os.environ['KUBERNETES_EXEC_INFO']);"
        f"pathlib.Path({str(calls)!r}).open('a').write(os.environ['WHO']);"
        "print(json.dumps({**info, 'spec': {}, 'status': {'token': pathlib.Path(sys.argv[1]).read_text()}}))"
    )
    plugin = {
        "apiVersion": f"client.authentication.k8s.io/{version}",
        "command": sys.executable,
        "args": ["-c", script, str(token)],
        "env": [{"name": "WHO", "value": "x"}],
        "interactiveMode": "Never",
    }
    kubeconfig = edited(control_plane.kubeconfig, tmp_path / "config", exec=plugin)
    connection = connect(str(kubeconfig))
    client = Client(connection)
    with pytest.raises(StatusError) as error:
        await client.list_objects(NAMESPACES)
    assert error.value.code == 401
    token.write_text(control_plane.admin_token)
    await asyncio.gather(*(client.list_objects(NAMESPACES) for _ in range(5)))
    await client.list_objects(NAMESPACES)
    await connection.close()
    assert len(calls.read_text()) == 3


@pytest.mark.lab
async def test_a_client_certificate(control_plane: ControlPlane, tmp_path: Path) -> None:
    here = control_plane.client_authority_file.parent
    files = {"client-certificate": str(here / "kubelet-client.crt"), "client-key": str(here / "kubelet-client.key")}
    kubeconfig = edited(control_plane.kubeconfig, tmp_path / "config", **files)
    assert await who(kubeconfig) == "kube-apiserver-kubelet-client"


@pytest.mark.lab
async def test_a_client_certificate_is_read_again(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Requests go over new connections, a watch that was begun goes on; a half-written file costs nothing."""
    here, certificate, key = control_plane.client_authority_file.parent, tmp_path / "tls.crt", tmp_path / "tls.key"

    def rotate(name: str) -> None:
        for suffix, target in (("key", key), ("crt", certificate)):
            fresh = tmp_path / "fresh"
            fresh.write_bytes((here / f"{name}.{suffix}").read_bytes())
            fresh.rename(target)

    rotate("kubelet-client")
    files = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    connection = connect(str(edited(control_plane.kubeconfig, tmp_path / "config", **files)))
    client = Client(connection)
    assert await taken_for(client) == "kube-apiserver-kubelet-client"
    version = (await client.list_objects(NAMESPACES)).resource_version
    async with client.watch(NAMESPACES, version) as batches:
        certificate.write_text("half")
        await asyncio.sleep(1.1)
        assert await taken_for(client) == "kube-apiserver-kubelet-client"
        rotate("other-client")
        async with asyncio.timeout(PATIENCE):
            while await taken_for(client) != "other-client":
                await asyncio.sleep(0.2)
        name = "seen-after-the-rotation"
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        async with asyncio.timeout(PATIENCE):
            found = [event async for event in _first(batches)]
    assert [event.type for event in found] == ["ADDED"]
    await connection.close()


async def _first(batches: AsyncIterator[list[WatchEvent]]) -> AsyncIterator[WatchEvent]:
    async for events in batches:
        for event in events:
            if event.type == "ADDED":
                yield event
                return


@pytest.mark.lab
async def test_the_servers_authority_is_read_again(control_plane: ControlPlane, tmp_path: Path) -> None:
    from lab.authority import Authority

    Authority(tmp_path)
    value = yaml.safe_load(control_plane.kubeconfig.read_text())
    value["clusters"][0]["cluster"]["certificate-authority"] = str(tmp_path / "ca.crt")
    (tmp_path / "config").write_text(yaml.safe_dump(value))
    connection = connect(str(tmp_path / "config"))
    client = Client(connection)
    with pytest.raises(ConnectionFailed, match="certificate verify failed"):
        await taken_for(client)
    (tmp_path / "ca.crt").write_bytes(control_plane.authority_file.read_bytes())
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(ConnectionFailed):
                assert await taken_for(client) == "admin"
                break
            await asyncio.sleep(0.2)
    await connection.close()


@pytest.mark.lab
async def test_inside_a_pod(control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control_plane.run_kubectl("create", "serviceaccount", "inside")
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text(control_plane.create_service_account_token("default", "inside"))
    (account / "namespace").write_text("transom-system")
    (account / "ca.crt").write_bytes(control_plane.authority_file.read_bytes())
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", str(account))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(control_plane.port))
    assert await who() == "system:serviceaccount:default:inside"
    assert await who(control_plane.kubeconfig) == "admin", "a kubeconfig that is named wins"
    control_plane.run_kubectl("delete", "serviceaccount", "inside")


@pytest.mark.lab
async def test_the_environment_decides_nothing(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,::1/128,*bad")
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent")
    assert await who(control_plane.kubeconfig) == "admin"


@pytest.mark.lab
async def test_a_proxy_that_the_kubeconfig_names_is_used(control_plane: ControlPlane, tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(proxy, "127.0.0.1", 0)
    value = yaml.safe_load(control_plane.kubeconfig.read_text())
    value["clusters"][0]["cluster"]["proxy-url"] = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(yaml.safe_dump(value))
    with pytest.raises(ConnectionFailed):
        await who(kubeconfig)
    assert asked == [f"CONNECT 127.0.0.1:{control_plane.port} HTTP/1.1".encode()]
    listener.close()


@pytest.mark.lab
async def test_the_certificate_has_to_name_what_tls_server_name_says(control_plane: ControlPlane, tmp_path: Path) -> None:
    value = yaml.safe_load(control_plane.kubeconfig.read_text())
    kubeconfig = tmp_path / "config"
    value["clusters"][0]["cluster"]["server"] = f"https://localhost:{control_plane.port}"
    kubeconfig.write_text(yaml.safe_dump(value))
    with pytest.raises(ConnectionFailed, match="localhost"):
        await who(kubeconfig)
    value["clusters"][0]["cluster"]["tls-server-name"] = "kubernetes.default.svc"
    kubeconfig.write_text(yaml.safe_dump(value))
    assert await who(kubeconfig) == "admin"


@pytest.mark.lab
async def test_a_server_with_another_authority_is_refused(control_plane: ControlPlane, relay: Relay, tmp_path: Path) -> None:
    from lab.authority import Authority

    other = Authority(tmp_path)
    value = yaml.safe_load(control_plane.kubeconfig.read_text())
    value["clusters"][0]["cluster"]["certificate-authority"] = str(other.certificate_file)
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(yaml.safe_dump(value))
    with pytest.raises(ConnectionFailed, match="certificate verify failed"):
        await who(kubeconfig)


GOOD = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: hunter2-token}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: ns}}]
current-context: x
"""


@pytest.mark.parametrize(
    ("text", "context", "message"),
    [
        (None, None, "no such file"),
        ("users: [", None, "line 1: "),
        ("just text", None, "not a valid kubeconfig"),
        (GOOD, "y", "no context 'y'; the contexts are x"),
        (GOOD.replace("cluster: c,", "cluster: d,"), None, "clusters has no entry of the name that the context has"),
        (GOOD.replace("user: u,", ""), None, "the context names no user"),
        (
            GOOD.replace("token: hunter2-token", "client-certificate: a, client-key: b"),
            None,
            "client-certificate: DIRECTORY/a does not exist",
        ),
        (GOOD.replace("token: hunter2-token", "tokenFile: /dev/null/a"), None, "tokenFile: /dev/null/a does not exist"),
        (GOOD.replace("{token: hunter2-token}", "{exec: {apiVersion: x/v9, command: c}}"), None, "x/v9 is not known"),
        (GOOD.replace("{token: hunter2-token}", "{token: [hunter2-token]}"), None, "Expected `str | null`, got `array`"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, text: str | None, context: str | None, message: str) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        connect(str(path), context)
    assert str(error.value).startswith(f"{path}: ")
    assert message.replace("DIRECTORY", str(tmp_path)) in str(error.value)
    assert "hunter2" not in str(error.value)


def test_several_kubeconfigs_are_one_as_kubectl_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file that has an entry wins; a path is relative to its own file; what is not there is passed over."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "two" / "token").write_text("hunter2")
    users = "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:2'}}]\nusers: [{name: v, user: {tokenFile: token}}]\n"
    (tmp_path / "one" / "config").write_text(GOOD)
    (tmp_path / "two" / "config").write_text(
        f"{users}contexts: [{{name: y, context: {{cluster: c, user: v}}}}]\ncurrent-context: y\n"
    )
    listed = [str(tmp_path / name) for name in ("absent", "one/config", "two/config")]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(listed))
    assert kubeconfig.read_kubeconfig().contexts == ["x", "y"]
    assert kubeconfig.select_context().context == "x"
    other = kubeconfig.select_context(context="y")
    assert other.cluster.server == "https://127.0.0.1:1"
    assert other.user.token_file == str(tmp_path / "two" / "token")
    monkeypatch.setenv("KUBECONFIG", listed[0])
    with pytest.raises(ConfigurationError, match="--kubeconfig or KUBECONFIG can name another"):
        kubeconfig.select_context()
