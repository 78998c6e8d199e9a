"""Readiness endpoints through a proxy: a real one on 127.0.0.1 that tunnels, forwards, asks for credentials, and counts."""

import asyncio
import base64
import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID
from tests.support.bundles import config_map, egress_proxy, key, secret, write
from tests.support.command import run

from transom.http.readiness import probe
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import parse_bundle
from transom.proxy.url import escape

pytestmark = pytest.mark.server

CREDENTIALS = base64.b64encode(b"user:hunter2%^&").decode()
USERINFO = "user:hunter2%25%5E%26"


def server_certificate() -> str:
    """Self-signed, for 127.0.0.1."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    begins = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    ends = begins + datetime.timedelta(days=300)
    serial = x509.random_serial_number()
    builder = x509.CertificateBuilder(name, name, key().public_key(), serial, begins, ends)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = builder.add_extension(alternative, False).add_extension(x509.BasicConstraints(True, None), True)
    return builder.sign(key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


CERTIFICATE = server_certificate()


class Proxy:
    """Answers absolute-form requests itself, with `statuses` in turn (the last one for ever), and tunnels CONNECT."""

    def __init__(self, statuses: tuple[int, ...] = (200,), credentials: str | None = None) -> None:
        self.statuses = list(statuses)
        self.credentials = credentials
        self.requests: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(head.split("\r\n", 1)[0])
            if self.credentials and f"Proxy-Authorization: Basic {self.credentials}" not in head:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            elif head.startswith("CONNECT"):
                await self.tunnel(head.split()[1], reader, writer)
            else:
                status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nLocation: http://elsewhere/\r\n\r\n".encode())
            await writer.drain()

    @staticmethod
    async def tunnel(target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = target.rsplit(":", 1)
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while data := await source.read(4096):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))


@contextlib.asynccontextmanager
async def proxy(proxy: Proxy) -> AsyncIterator[Proxy]:
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    async with server:
        yield proxy


@contextlib.asynccontextmanager
async def endpoint(directory: Path) -> AsyncIterator[str]:
    """An https server that answers 204."""
    (directory / "cert.pem").write_text(CERTIFICATE)
    form = serialization.PrivateFormat.PKCS8
    (directory / "key.pem").write_bytes(key().private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "cert.pem", directory / "key.pem")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v2/"


def egress(http: int, https: int, *endpoints: str, bundle: str = "", userinfo: str = "") -> Egress:
    at = f"{userinfo}@" if userinfo else ""
    urls = (Secret(f"http://{at}127.0.0.1:{http}"), Secret(f"http://{at}127.0.0.1:{https}"))
    return Egress(*urls, trust=parse_bundle(bundle).certificates, readiness_endpoints=endpoints)


@pytest.mark.parametrize(
    ("statuses", "failure", "tries"),
    [
        ((200,), None, 1),
        ((301,), None, 1),
        ((404,), "it answers 404", 3),
        ((502, 500, 200), None, 3),
        ((502, 200), None, 2),
        ((407,), "the proxy asks for other credentials (407)", 3),
    ],
)
async def test_statuses(statuses: tuple[int, ...], failure: str | None, tries: int) -> None:
    async with proxy(Proxy(statuses)) as through:
        (answer,) = await probe(egress(through.port, 1, "http://registry.example/v2/"), pause=0)
    assert answer.failure == failure
    assert through.requests == ["GET http://registry.example/v2/ HTTP/1.1"] * tries


async def test_each_scheme_through_its_own_proxy(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as secure, proxy(Proxy()) as for_http, proxy(Proxy()) as for_https:
        settings = egress(for_http.port, for_https.port, "http://registry.example/", secure, bundle=CERTIFICATE)
        assert [answer.failure for answer in await probe(settings, pause=0)] == [None, None]
    assert [request.split()[0] for request in for_http.requests] == ["GET"]
    assert [request.split()[0] for request in for_https.requests] == ["CONNECT"]


async def test_without_the_bundle_the_endpoint_is_not_trusted(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as secure, proxy(Proxy()) as through:
        (answer,) = await probe(egress(1, through.port, secure), pause=0)
    assert answer.failure == "the certificate of the endpoint is not trusted: is the proxy's CA in trustedCA?"


async def test_credentials(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as secure, proxy(Proxy(credentials=CREDENTIALS)) as through:
        both = (secure, "http://registry.example/")
        right = await probe(egress(through.port, through.port, *both, bundle=CERTIFICATE, userinfo=USERINFO), pause=0)
        wrong = await probe(egress(through.port, through.port, *both, bundle=CERTIFICATE, userinfo="user:hunter2"), pause=0)
    assert [answer.failure for answer in right] == [None, None]
    assert [answer.failure for answer in wrong] == ["the proxy asks for other credentials (407)"] * 2


@pytest.mark.parametrize(
    ("username", "password"),
    [
        ("user", "hunter2-pässword"),
        ("user", "hunter2-пароль€"),
        ("usér", "hunter2-p@/:%#?w"),
        ("user:name", "hunter2"),
        ("user", ""),
    ],
)
async def test_credentials_are_sent_in_utf8(username: str, password: str, tmp_path: Path) -> None:
    """As Go and curl send them, whatever the endpoint's scheme: the proxy compares bytes."""
    encoded = base64.b64encode(f"{username}:{password}".encode()).decode()
    async with endpoint(tmp_path) as secure, proxy(Proxy(credentials=encoded)) as through:
        both, userinfo = (secure, "http://registry.example/"), f"{escape(username)}:{escape(password)}"
        answers = await probe(egress(through.port, through.port, *both, bundle=CERTIFICATE, userinfo=userinfo), pause=0)
    assert [answer.failure for answer in answers] == [None, None]


async def test_an_https_endpoint_where_httpproxy_stands_alone(tmp_path: Path) -> None:
    """As OpenShift's operator tries it (cluster-network-operator, pkg/controller/proxyconfig, validateReadinessEndpoints)."""
    async with endpoint(tmp_path) as secure, proxy(Proxy()) as through:
        settings = msgspec.structs.replace(egress(through.port, 1, secure, bundle=CERTIFICATE), https_proxy=None)
        assert [answer.failure for answer in await probe(settings, pause=0)] == [None]
    assert [request.split()[0] for request in through.requests] == ["CONNECT"]


async def test_a_proxy_that_is_not_there(unused_tcp_port: int) -> None:
    (answer,) = await probe(egress(unused_tcp_port, 1, "http://registry.example/", userinfo=USERINFO), pause=0)
    assert answer.failure == "the proxy cannot be reached"


@pytest.mark.parametrize("endpoint", ["http://registry.example", "https://registry.example"])
async def test_the_hop_whose_name_does_not_exist_is_named(endpoint: str) -> None:
    """No name but the proxy's is resolved here, where there is a proxy."""
    proxy = Secret("http://proxy.corp.invalid:3128")
    (answer,) = await probe(Egress(http_proxy=proxy, https_proxy=proxy, readiness_endpoints=(endpoint,)), pause=0)
    assert answer.failure == "the name of the proxy cannot be resolved"
    direct = f"{endpoint.partition(':')[0]}://registry.invalid"
    (answer,) = await probe(Egress(readiness_endpoints=(direct,)), pause=0)
    assert answer.failure == "the name of the endpoint cannot be resolved"


@pytest.mark.parametrize(("policy", "severity", "code"), [("Gate", "error", 2), ("Report", "warning", 0)])
def test_validate_probe(policy: str, severity: str, code: int, unused_tcp_port: int, tmp_path: Path) -> None:
    spec = {
        "httpProxy": f"http://127.0.0.1:{unused_tcp_port}",
        "credentialsSecret": {"name": "creds"},
        "readinessEndpoints": ["http://registry.example/"],
        "readinessPolicy": policy,
    }
    credentials = secret("creds", stringData={"username": "user", "password": "hunter2%^&"})
    directory = write(tmp_path, egress_proxy(spec), credentials, config_map("x", {}))
    assert run("validate", "-f", directory).code == 0
    ran = run("validate", "-f", directory, "--probe", "-o", "json")
    assert ran.code == code
    (finding,) = [finding for finding in ran.json if finding["field"] == "spec.readinessEndpoints[0]"]
    assert finding["severity"] == severity
    assert finding["message"] == "http://registry.example through the proxy, 3 tries: the proxy cannot be reached"
    assert "hunter2" not in ran.out + ran.err


def test_validate_probe_without_an_endpoint(tmp_path: Path) -> None:
    directory = write(tmp_path, egress_proxy({"httpProxy": "http://proxy.example:3128"}), config_map("x", {}))
    ran = run("validate", "-f", directory, "--probe", "-o", "json")
    assert ran.code == 0
    assert [finding["severity"] for finding in ran.json if finding["field"] == "spec.readinessEndpoints"] == ["warning"]
    assert not [finding for finding in run("validate", "-f", directory, "-o", "json").json if "readiness" in finding["field"]]
