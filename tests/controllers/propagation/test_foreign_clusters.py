"""Kubeconfigs and API servers of whoever may write a Secret: each ends as a failure that is named, in bounded memory."""

import asyncio
import base64
import contextlib
import gzip
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.authority import Authority
from tests.kube.hostile_kubeconfigs import ANY_NETWORK
from tests.support.management.management import Management

from transom.controllers.propagation.controller import parse_kubeconfig, select_proxy
from transom.kube.client import Client
from transom.kube.connection import Connection, connect_untrusted_cluster
from transom.kube.errors import ApiError, ConfigurationError, ConnectionFailed, StatusError
from transom.kube.kubeconfig import choose_untrusted_context
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import EGRESS_PROXIES
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress

SOURCE = "Secret a/b-kubeconfig"
OWN = Egress(Secret("http://proxy.x:3128"), Secret("http://proxy.x:3128"), "10.0.0.0/8")


def kubeconfig(cluster: dict[str, Any], user: dict[str, Any] | None = None) -> str:
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user or {"token": "hunter2"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def connected(text: str | bytes) -> Connection:
    """As the controller does it."""
    chosen = choose_untrusted_context(parse_kubeconfig(text if isinstance(text, bytes) else text.encode(), SOURCE), SOURCE)
    return connect_untrusted_cluster(chosen, select_proxy(chosen.cluster.server, OWN), ANY_NETWORK)


def beside(text: str) -> str:
    """A good kubeconfig with something more in it."""
    return f"{text}\n{yaml_of(kubeconfig({'server': 'https://10.0.0.1:6443'}))}"


def yaml_of(text: str) -> str:
    """The fields of a JSON object as lines of YAML."""
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in json.loads(text).items())


MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join(['*' + before] * 9)}]}}\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
ALIASES = "a: &a [1]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
REFUSED: list[tuple[str, str | bytes, str]] = [
    ("too large", beside("x: " + "y" * (256 << 10)), "at most 262,144 are read"),
    ("nested merges", beside(MERGES), "more than 10,000 values"),
    ("nested aliases", beside(ALIASES), "more than 10,000 values"),
    ("deep", beside("x: " + "[" * 10_000 + "]" * 10_000), "nested more than 64 levels"),
    ("deep JSON", kubeconfig({"server": "x"})[:-1] + ',"x":' + "[" * 10_000 + "]" * 10_000 + "}", "nested more than 64 levels"),
    ("an alias of itself", beside("x: &x [*x]"), "within its own anchor"),
    ("NUL", beside("x: \0"), "NUL"),
    ("no UTF-8", b"\xff\xfe{", "save it as UTF-8"),
    ("a tag of Python", beside("x: !!python/object/apply:os.system [id]"), "the tag of this value is not supported"),
    ("nothing", "", "not a valid kubeconfig"),
    ("a list", "[]", "not a valid kubeconfig"),
    ("exec by merge", "a: &a {exec: {command: id}}\n" + yaml_of(kubeconfig({"server": "https://x"})).replace(
        '{"token": "hunter2"}', "{<<: *a}"), "user.exec is not taken"),
    ("a proxy by SOCKS", kubeconfig({"server": "https://10.0.0.1", "proxy-url": "socks5://hunter2@x:1080"}), "no usable URL"),
    ("a proxy of no kind", kubeconfig({"server": "https://10.0.0.1", "proxy-url": "gopher://x"}), "no usable URL"),
    ("a port of six digits", kubeconfig({"server": "https://10.0.0.1:123456"}), "no usable URL"),
    ("a proxy's port of six digits", kubeconfig({"server": "https://x", "proxy-url": "http://x:123456"}), "no usable URL"),
    ("no host", kubeconfig({"server": "https://"}), "no usable URL"),
    ("no brackets", kubeconfig({"server": "https://[::1"}), "no usable URL"),
    ("http", kubeconfig({"server": "http://10.0.0.1"}), "cluster.server is not an https URL"),
    ("a token of other letters", kubeconfig({"server": "https://10.0.0.1"}, {"token": "hunter2é"}), "user.token has"),
    ("a token of lines", kubeconfig({"server": "https://10.0.0.1"}, {"token": "hunter2\r\nX: y"}), "user.token has"),
    ("a CA that is none", kubeconfig({"server": "https://10.0.0.1", "certificate-authority-data": "é"}), "cannot be read"),
    ("no verification", kubeconfig({"server": "https://x", "insecure-skip-tls-verify": True}), "is not taken"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), [(text, item) for _, text, item in REFUSED], ids=[name for name, *_ in REFUSED])
def test_kubeconfig_that_is_refused_by_name(text: str | bytes, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        connected(text)
    assert str(caught.value).startswith(SOURCE)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "more",
    [
        "x: " + "1" * 5_000,
        "x: " + "1:" * 50_000 + "1",
        "x: 2001-99-99",
        "x: 0o_\ny: 0x_\nz: 0b_",
        "x: 1e999\ny: .nan\nz: -.inf",
        "x: &a {y: 1}\ny: {<<: *a}",
    ],
    ids=["5,000 digits", "a number of base 60", "a day that is none", "numbers without digits", "infinity", "one merge"],
)
async def test_kubeconfig_with_something_odd_that_nobody_reads(more: str) -> None:
    connection = connected(beside(more))
    assert connection.server == "https://10.0.0.1:6443"
    await connection.close()


@given(st.binary(max_size=200) | st.text("{}[]&*<:-\n \"'|>%!?#,ab019.\\", max_size=120).map(str.encode))
def test_whatever_a_kubeconfig_is_it_ends_as_it_says(data: bytes) -> None:
    with contextlib.suppress(ConfigurationError):
        connected(data)


@given(st.text(max_size=30) | st.text("0123456789:/[]@.%?#xn-é", max_size=30))
def test_whatever_server_and_proxy_are_they_end_as_they_say(text: str) -> None:
    for cluster in ({"server": f"https://{text}"}, {"server": text}, {"server": "https://10.0.0.1", "proxy-url": text}):
        with contextlib.suppress(ConfigurationError):
            connected(kubeconfig(cluster))


@pytest.mark.parametrize("server", ["https://a..b", f"https://{'x' * 64}.example"], ids=repr)
async def test_address_that_is_none_is_a_failed_connection(server: str) -> None:
    connection = connect_untrusted_cluster(
        choose_untrusted_context(json.loads(kubeconfig({"server": server})), SOURCE), permitted=ANY_NETWORK
    )
    try:
        with pytest.raises(ConnectionFailed):
            await Client(connection).get(EGRESS_PROXIES, "cluster")
    finally:
        await connection.close()


class Foreign:
    """An API server that answers as it likes, and its kubeconfig."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.sent = 0
        self.status, self.headers, self.chunks = b"200 OK", b"", [b"{}"]

    def listens(self, directory: Path, port: int) -> None:
        authority = base64.b64encode((directory / "ca.crt").read_bytes()).decode()
        self.kubeconfig = kubeconfig({"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            self.asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 " + self.status + b"\r\nConnection: close\r\n" + self.headers + b"\r\n")
            for chunk in self.chunks:
                writer.write(chunk)
                await writer.drain()
                self.sent += len(chunk)
        writer.close()


@pytest.fixture
async def foreign(tmp_path: Path) -> AsyncIterator[Foreign]:
    authority = Authority(tmp_path)
    authority.issue("server", "api", addresses=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    made = Foreign()
    listener = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
    made.listens(tmp_path, listener.sockets[0].getsockname()[1])
    try:
        yield made
    finally:
        listener.close()


async def answered(foreign: Foreign) -> UnstructuredObject:
    connection = connected(foreign.kubeconfig)
    try:
        return await Client(connection).get(EGRESS_PROXIES, "cluster")
    finally:
        await connection.close()


MIB = b" " * (1 << 20)
ANSWERS: list[tuple[str, bytes, list[bytes], str]] = [
    ("compressed", b"Content-Encoding: gzip\r\n", [gzip.compress(MIB * 30, 1)] * 10, "compressed"),
    ("compressed twice", b"Content-Encoding: gzip, br\r\n", [b"x"], "compressed"),
    ("too long", b"", [MIB] * 64, "more than 4,194,304 bytes"),
    ("too long by what it says", b"Content-Length: 67108864\r\n", [MIB] * 64, "more than 4,194,304 bytes"),
    ("many values", b"", [b'{"metadata":{},"x":[' + b"[]," * 200_000 + b"1]}"], "more than 100,000 values"),
    ("no JSON", b"", [b"<html>"], "malformed"),
    ("no UTF-8", b"", [b'{"metadata":{"name":"\xff"}}'], "not UTF-8"),
    ("a number of 5,000 digits", b"", [b'{"metadata":{"generation":' + b"1" * 5_000 + b"}}"], "out of range"),
    ("cut off", b"Content-Length: 100\r\n", [b"{"], "cut before its end"),
]


@pytest.mark.parametrize(("headers", "chunks", "message"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
async def test_answer_that_is_refused(foreign: Foreign, headers: bytes, chunks: list[bytes], message: str) -> None:
    foreign.headers, foreign.chunks = headers, chunks
    with pytest.raises(ApiError, match=message):
        await answered(foreign)
    assert b"accept-encoding: identity\r\n" in foreign.asked[0].lower()
    # what lies in the buffers of both ends, and no more
    assert foreign.sent < 24 << 20


async def test_deep_answer_is_read_as_far_as_it_goes(foreign: Foreign) -> None:
    deep = b'{"a":' * 9_000 + b"1" + b"}" * 9_000
    foreign.chunks = [b'{"metadata":{"name":"cluster"},"spec":{"x":' + deep + b"}}"]
    assert (await answered(foreign)).metadata.name == "cluster"


@pytest.mark.parametrize(
    "body", [b'{"message":"\xff"}', b'{"message":' + b"[" * 9_000, b"\xff" * 500, b'{"code":"x"}', b'{"code":1e400}'], ids=repr
)
async def test_refusal_in_any_words_is_a_refusal(foreign: Foreign, body: bytes) -> None:
    foreign.status, foreign.chunks = b"503 No", [body]
    with pytest.raises(StatusError) as caught:
        await answered(foreign)
    assert caught.value.code == 503
    assert len(str(caught.value)) < 400


@pytest.mark.lab
async def test_each_failure_is_in_the_condition_of_the_settings(management: Management) -> None:
    texts = {
        "alpha": kubeconfig({"server": "https://10.0.0.1", "proxy-url": "socks5://hunter2@x:1080"}),
        "beta": beside(MERGES),
        "gamma": beside("x: " + "y" * (256 << 10)),
    }
    for name, text in texts.items():
        await management.cluster(name)
        metadata = {"name": f"{name}-kubeconfig", "namespace": management.org}
        data = {"value": base64.b64encode(text.encode()).decode()}
        await management.put({"kind": "Secret", "metadata": metadata, "data": data})
    await management.settings(propagate=True)
    async with management.operator(controllers=("egress", "clusters", "propagation")):

        async def all_said() -> str | None:
            said = (await management.conditions()).get("Propagated", ("", "", ""))[2]
            return said if "not in 3 of 3" in said else None

        message = await management.until(all_said)
    for name, item in (("alpha", "no usable URL"), ("beta", "more than 10,000 values"), ("gamma", "at most 262,144")):
        assert f"{management.org}/{name}-kubeconfig" in message
        assert item in message
    assert "hunter2" not in message
