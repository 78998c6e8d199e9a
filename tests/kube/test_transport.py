"""What a kubeconfig says about the way and about who asks, as a server and a proxy hear it."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.authority import Authority
from tests.kube.hostile_kubeconfigs import ANY_NETWORK
from tests.support.waiting import PATIENCE

from transom.kube import connection
from transom.kube.client import Client
from transom.kube.connection import Connection, connect, connect_untrusted_cluster
from transom.kube.errors import ConfigurationError, ConnectionFailed
from transom.kube.kubeconfig import choose_untrusted_context
from transom.kube.transport import FOREIGN

pytestmark = pytest.mark.server
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def kubeconfig(cluster: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def connected(directory: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Connection:
    (directory / "config").write_text(yaml.safe_dump(kubeconfig(cluster, user)))
    return connect(str(directory / "config"))


async def asks(way: Connection) -> None:
    try:
        await Client(way).get_json("/version")
    finally:
        await way.close()


@contextlib.asynccontextmanager
async def listening(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as listener:
        yield listener.sockets[0].getsockname()[1]


class Server:
    """Answers each request with 200; keeps its head and who its certificate says asks."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.names: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                certificate = writer.get_extra_info("peercert") or {}
                self.names += [value for ((key, value),) in certificate.get("subject", ()) if key == "commonName"]
                writer.write(HELLO)
        writer.close()

    def said(self, name: str) -> str | None:
        lines = dict(line.split(": ", 1) for line in self.heads[-1].splitlines()[1:] if line)
        return lines.get(name)


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("user", "at", "said"),
    [
        ({}, "", None),
        ({"token": "hunter2"}, "", "Bearer hunter2"),
        ({"token": 12345}, "", "Bearer 12345"),
        ({"token": "hunter2", "tokenFile": "token"}, "", "Bearer hunter2-of-the-file"),
        ({"token": "hunter2", "username": "me", "password": "hunter2"}, "", "Bearer hunter2"),
        ({"username": "me", "password": "hunter2é"}, "", basic("me:hunter2é")),
        ({"token": "", "tokenFile": "", "username": "me", "password": "hunter2"}, "", basic("me:hunter2")),
        ({}, "me:hunter2%25@", basic("me:hunter2%")),
        ({"token": "hunter2"}, "me:hunter2@", "Bearer hunter2"),
    ],
)
async def test_who_asks(tmp_path: Path, user: dict[str, Any], at: str, said: str | None) -> None:
    (tmp_path / "token").write_text("hunter2-of-the-file\n")
    server = Server()
    async with listening(server) as port:
        await asks(connected(tmp_path, {"server": f"http://{at}127.0.0.1:{port}/base/"}, user))
    assert server.heads[0].startswith("GET /base/version HTTP/1.1\r\n")
    assert server.said("Authorization") == said
    assert server.said("User-Agent") == "transom"


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def tls(directory: Path) -> ssl.SSLContext:
    """A server that asks for a certificate; its own, its clients' and their authority lie in the directory."""
    authority = Authority(directory)
    authority.issue("server", "api", addresses=("127.0.0.1",))
    authority.issue("client", "me")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(directory / "ca.crt"))
    context.load_cert_chain(directory / "server.crt", directory / "server.key")
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def data(directory: Path, *names: str) -> dict[str, str]:
    files = {"client-certificate": "client.crt", "client-key": "client.key", "certificate-authority": "ca.crt"}
    return {f"{name}-data": encoded(directory / files[name]) for name in names}


CLIENT_FILES = {"client-certificate": "client.crt", "client-key": "client.key"}


@pytest.mark.parametrize("inline", [(), ("client-key",), ("client-certificate", "client-key")], ids=len)
async def test_certificate_of_the_client_in_files_and_inline(tmp_path: Path, inline: tuple[str, ...]) -> None:
    server, context = Server(), tls(tmp_path)
    user = {key: value for key, value in CLIENT_FILES.items() if key not in inline} | data(tmp_path, *inline)
    async with listening(server, context) as port:
        await asks(connected(tmp_path, {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.crt"}, user))
    assert server.names == ["me"]


@pytest.mark.parametrize(
    ("cluster", "reached"),
    [
        ({"certificate-authority": "ca.crt"}, True),
        ({"certificate-authority-data": "of the server"}, True),
        ({"certificate-authority": "other.crt", "certificate-authority-data": "of the server"}, True),
        ({"certificate-authority": "other.crt"}, False),
        ({"certificate-authority": "other.crt", "insecure-skip-tls-verify": True}, False),
        ({"insecure-skip-tls-verify": True}, True),
        ({}, False),
    ],
)
async def test_server_is_believed_by_what_the_kubeconfig_says(tmp_path: Path, cluster: dict[str, Any], reached: bool) -> None:
    server, context = Server(), tls(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "other.crt").write_bytes(Authority(tmp_path / "elsewhere").certificate_file.read_bytes())
    if "certificate-authority-data" in cluster:
        commented = "# Őrizet\n".encode() + (tmp_path / "ca.crt").read_bytes()
        cluster |= {"certificate-authority-data": base64.b64encode(commented).decode()}
    async with listening(server, context) as port:
        expected = contextlib.nullcontext() if reached else pytest.raises(ConnectionFailed, match="certificate verify failed")
        with expected:
            await asks(connected(tmp_path, cluster | {"server": f"https://127.0.0.1:{port}"}, {}))


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({}, {"client-certificate-data": "aHVudGVyMg=="}, "no client-key is set"),
        ({}, {"client-certificate-data": "aHVudGVyMg==", "client-key-data": "aHVudGVyMg=="}, "cannot be read"),
        ({"certificate-authority-data": "aHVudGVyMg=="}, {}, "cannot be read"),
        ({"proxy-url": "socks5://me:hunter2@proxy.x:1080"}, {}, "the proxy has no usable URL"),
        ({"server": "api.example:6443"}, {}, "the server has no usable URL"),
        ({}, {"auth-provider": {"name": "gcp"}}, "auth-provider is not known"),
    ],
)
def test_kubeconfig_that_cannot_be_used(tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        connected(tmp_path, {"server": "https://127.0.0.1:1"} | cluster, user)
    assert str(caught.value).startswith(str(tmp_path / "config"))
    assert "hunter2" not in str(caught.value)


async def test_proxy_by_tls_is_believed_by_the_system_and_the_server_behind_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authority of a cluster says nothing about the proxy before it, and the system's nothing about the cluster."""
    # the machine may stand still for seconds
    monkeypatch.setattr(connection, "FOREIGN", FOREIGN._replace(connect=PATIENCE, silence=PATIENCE))
    (tmp_path / "system").mkdir()
    server, behind = Server(), tls(tmp_path)
    authority = Authority(tmp_path / "system")
    authority.issue("proxy", "proxy", addresses=("localhost",))
    before = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    before.load_cert_chain(tmp_path / "system" / "proxy.crt", tmp_path / "system" / "proxy.key")
    heads: list[str] = []

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(65536):
                writer.write(chunk)
        writer.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(heads[-1].split(" ")[1].rpartition(":")[2]))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))

    async with listening(server, behind) as port, listening(tunnel, before) as proxy:
        way = f"https://me:hunter2%25@localhost:{proxy}"

        async def reaches(cluster: dict[str, Any]) -> None:
            config = kubeconfig(cluster | {"server": f"https://127.0.0.1:{port}"}, {"token": "hunter2"})
            await asks(connect_untrusted_cluster(choose_untrusted_context(config, "here"), way, ANY_NETWORK))

        own = data(tmp_path, "certificate-authority")
        with pytest.raises(ConnectionFailed, match="certificate verify failed"):
            await reaches(own)
        assert heads == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate_file))
        await reaches(own)
        # believed by the system's authority alone, which the proxy's is
        of_proxy = base64.b64encode(authority.certificate_file.read_bytes()).decode()
        # asyncio of Python 3.11 fails to tell what failed within a tunnel by TLS
        with pytest.raises(ConnectionFailed, match=r"certificate verify failed|TLS-in-TLS"):
            await reaches({"certificate-authority-data": of_proxy})
    assert f"Proxy-Authorization: {basic('me:hunter2%')}\r\n" in heads[0]
    assert server.said("Proxy-Authorization") is None
    assert len(server.heads) == 1


async def test_proxy_that_refuses_is_told(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 hunter2\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with listening(refuse) as port:
        cluster = {"server": "https://api.example", "proxy-url": f"http://me:hunter2@127.0.0.1:{port}"}
        with pytest.raises(ConnectionFailed, match="the proxy answers with HTTP 407") as caught:
            await asks(connected(tmp_path, cluster, {}))
    assert "hunter2" not in str(caught.value)
