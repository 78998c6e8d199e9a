"""What bad input gets: its HTTP status, while everybody else is answered as ever."""

import asyncio
import contextlib
import itertools
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.pods.table import CASES
from tests.support.waiting import PATIENCE
from tests.webhook.caller import Caller, of, reviewed

from transom.http_server import connection as http_connection
from transom.webhook import connection, server
from transom.webhook.server import MAX_BODY, AdmissionServer

BAD: list[tuple[str, bytes]] = [
    ("empty", b""),
    ("no JSON", b"{"),
    ("no UTF-8", b'{"kind": "\xff\xfe"}'),
    ("a list", b"[]"),
    ("null", b"null"),
    ("another kind", of({"apiVersion": "v1", "kind": "Pod"})),
    ("beta", of({**reviewed(), "apiVersion": "admission.k8s.io/v1beta1"})),
    ("no request", of({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"})),
    ("no uid", of(reviewed(uid=""))),
    ("uid is a number", of(reviewed(uid=1))),
    ("no object", of(reviewed(object=None))),
    ("the object is a text", of(reviewed(object="x"))),
    ("containers are none", of(reviewed(object={"spec": {"containers": {"a": 1}}}))),
    ("no old object", of(reviewed(operation="UPDATE", subResource="ephemeralcontainers"))),
    ("deep", b"[" * 100_000),
]


@pytest.mark.parametrize("body", [body for _, body in BAD], ids=[name for name, _ in BAD])
async def test_what_is_no_review_is_a_bad_request(caller: Caller, body: bytes) -> None:
    code, status = await caller.post(body)
    assert (code, status["kind"], status["apiVersion"], status["code"], status["reason"]) == (
        400,
        "Status",
        "v1",
        400,
        "BadRequest",
    )
    assert status["message"]
    await caller.works()


@pytest.mark.parametrize(
    "request_",
    [
        {"kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "object": {"spec": "x"}},
        {"kind": {"group": "x", "version": "v1", "kind": "Pod"}, "object": {"spec": "x"}},
        {"operation": "DELETE", "object": None},
        {"operation": "UPDATE"},
        {"subResource": "binding", "object": {"spec": "x"}},
    ],
    ids=["another kind", "another group", "deleted", "updated", "a subresource"],
)
async def test_what_is_no_new_pod_is_allowed_as_it_is(caller: Caller, request_: dict[str, Any]) -> None:
    code, answered = await caller.post(of(reviewed(**request_)))
    assert (code, answered["response"]) == (200, {"uid": "u1", "allowed": True})


def deep(**request: Any) -> bytes:
    text = json.dumps(reviewed(**request))
    assert '"NESTED"' in text
    return text.replace('"NESTED"', '{"a":' * 9_000 + "1" + "}" * 9_000).encode()


async def test_a_pod_with_something_deep_is_a_pod(caller: Caller) -> None:
    """Unknown fields and managedFields may be; and it is answered as any other."""
    pod = CASES[0].pod
    _, plain = await caller.post(of(reviewed()))
    metadata = {**pod.get("metadata", {}), "managedFields": [{"fieldsV1": "NESTED"}]}
    for body in (deep(object=pod | {"more": "NESTED"}), deep(object=pod | {"metadata": metadata}), deep(options="NESTED")):
        code, answered = await caller.post(body)
        assert (code, answered["response"]) == (200, plain["response"])
    await caller.works()


async def test_what_is_no_pod_is_allowed_however_deep_it_is(caller: Caller) -> None:
    kind = {"group": "helm.toolkit.fluxcd.io", "version": "v2", "kind": "HelmRelease"}
    code, answered = await caller.post(deep(kind=kind, object={"spec": {"values": "NESTED"}}))
    assert (code, answered["response"]) == (200, {"uid": "u1", "allowed": True})


async def test_headers_of_a_later_request_may_take_no_longer_than_those_of_the_first(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = of(reviewed())
    reader, writer = await caller.connect()
    for _ in range(4):
        writer.write(b"POST /pods HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        headers = await reader.readuntil(b"\r\n\r\n")
        assert headers.split()[1] == b"200"
        length = next(line.split()[1] for line in headers.splitlines() if line.lower().startswith(b"content-length"))
        await reader.readexactly(int(length))
        # after the handshake: what comes at once is in time however long this process stands still
        monkeypatch.setattr(http_connection, "SILENCE_SECONDS", 0.5)
        # a connection that is not used is not closed for that
        await asyncio.sleep(0.6)
    writer.write(b"POST /pods HTTP/1.1\r\nHo")
    async with asyncio.timeout(PATIENCE):
        assert (await reader.readline()).split()[1] == b"408"
        await reader.read()
    writer.close()
    await caller.works()


def sent(body: bytes, path: str = "/pods?timeout=10s") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


async def answered(reader: asyncio.StreamReader) -> tuple[bytes, dict[bytes, bytes], Any]:
    """Status line, headers but the date, and the content of the next answer."""
    async with asyncio.timeout(PATIENCE):
        line, *lines = (await reader.readuntil(b"\r\n\r\n")).rstrip().split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines)
        assert headers.pop(b"Date").endswith(b"GMT")
        return line, headers, json.loads(await reader.readexactly(int(headers[b"Content-Length"])))


@pytest.fixture
async def used(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, Any]]:
    """A connection on which two requests were answered aiohttp's way; the way of all others is blocked. And those answers."""
    reader, writer = await caller.connect()
    writer.write(sent(of(reviewed(uid="u1"))) + sent(of(reviewed(uid="u2"))))
    usual = [await answered(reader) for _ in range(2)]
    assert [content["response"]["uid"] for _, _, content in usual] == ["u1", "u2"]

    async def refuse(self: AdmissionServer, request: web.BaseRequest) -> web.Response:
        return web.Response(status=599, headers={"Content-Type": "application/json"}, body=b"{}")

    with monkeypatch.context() as blocked:
        blocked.setattr(AdmissionServer, "_respond", refuse)
        yield reader, writer, usual[0]
    writer.close()


@pytest.mark.parametrize("parts", [(), (4096,), (10, 130, 1000)], ids=["whole", "as an API server", "four parts"])
async def test_a_review_is_answered_without_a_task_for_it(
    used: tuple[asyncio.StreamReader, asyncio.StreamWriter, Any], parts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REST_SECONDS", PATIENCE)
    reader, writer, usual = used
    for _ in range(3):
        request = sent(of(reviewed(uid="u1", options="x" * 6000)))
        for begin, end in itertools.pairwise((0, *parts, len(request))):
            writer.write(request[begin:end])
            await asyncio.sleep(0.01)
        assert await answered(reader) == usual


async def test_what_is_no_review_ends_the_connection_without_a_task_too(
    used: tuple[asyncio.StreamReader, asyncio.StreamWriter, Any],
) -> None:
    reader, writer, _ = used
    writer.write(sent(b"{"))
    line, headers, content = await answered(reader)
    assert line == b"HTTP/1.1 400 Bad Request"
    assert headers[b"Connection"] == b"close"
    assert (content["reason"], content["message"]) == ("BadRequest", "the body is not JSON")
    assert await reader.read() == b""


async def test_an_aiohttp_whose_insides_are_not_known_goes_its_own_way(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_INSIDES", {"_something_else"})
    reader, writer = await caller.connect()
    request = sent(of(reviewed(uid="u1")))
    for end in (len(request), 200):
        writer.write(request[:end])
        await asyncio.sleep(0.01)
        writer.write(request[end:])
        assert (await answered(reader))[2]["response"]["uid"] == "u1"
    writer.close()


async def test_what_follows_a_review_is_answered_after_it(caller: Caller) -> None:
    for item in (sent(of(reviewed(uid="u2"))), b"nonsense\r\n\r\n"):
        first = sent(of(reviewed(uid="u1")))
        for at in (len(first), len(first) - 10):
            reader, writer = await caller.connect()
            writer.write(sent(of(reviewed(uid="u0"))))
            assert (await answered(reader))[2]["response"]["uid"] == "u0"
            writer.write(first[:at])
            await asyncio.sleep(0.01)
            writer.write(first[at:] + item)
            assert (await answered(reader))[2]["response"]["uid"] == "u1"
            async with asyncio.timeout(PATIENCE):
                assert (await reader.readline()).split()[1] == (b"400" if item.startswith(b"n") else b"200")
            writer.close()


async def test_a_body_that_takes_its_time_is_waited_for(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REST_SECONDS", 0.01)
    reader, writer = await caller.connect()
    request = sent(of(reviewed(uid="u1")))
    for _ in range(3):
        writer.write(request[:200])
        await asyncio.sleep(0.1)
        writer.write(request[200:])
        assert (await answered(reader))[2]["response"]["uid"] == "u1"
    writer.write(request[:200])
    monkeypatch.setattr(server, "BODY_SECONDS", 0.2)
    assert (await answered(reader))[0].split()[1] == b"408"
    writer.close()


async def test_large_bodies(caller: Caller) -> None:
    padding = "x" * (MAX_BODY - len(of(reviewed())) - 100)
    code, _ = await caller.post(of(reviewed(options=padding)))
    assert code == 200
    code, status = await caller.post(b" " * MAX_BODY)
    assert (code, status["reason"]) == (413, "RequestEntityTooLarge")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b" " * (1 << 20)

    with contextlib.suppress(aiohttp.ClientConnectionError):
        code, status = await caller.post(chunks())  # type: ignore[arg-type]
        assert code == 413
    await caller.works()


async def test_another_path_and_another_method(caller: Caller) -> None:
    assert (await caller.post(b"{}", "/other"))[0] == 404
    async with caller.session.get(f"https://127.0.0.1:{caller.port}/pods") as response:
        assert response.status == 405
    await caller.works()


async def test_half_a_body(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.2)
    reader, writer = await caller.connect()
    writer.write(b"POST /pods HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    assert (await reader.readline()).split()[1] == b"408"
    writer.close()
    # and one that is cut
    _, writer = await caller.connect()
    writer.write(b"POST /pods HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    await writer.drain()
    writer.transport.abort()
    # and what is no HTTP
    reader, writer = await caller.connect()
    writer.write(b"hello\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"400"
    writer.close()
    await caller.works()


async def test_a_thousand_connections_that_say_nothing(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "SILENCE_SECONDS", 3.0)
    silent = [await asyncio.open_connection("127.0.0.1", caller.port) for _ in range(900)]
    encrypted = [await caller.connect() for _ in range(100)]
    monkeypatch.undo()
    await caller.works()
    for reader, writer in encrypted:
        assert (await reader.readline()).split()[1] == b"408"
        writer.close()
    for _, writer in silent:
        writer.close()
    await caller.works()


async def test_a_client_certificate_that_expired_is_not_asked_for(caller: Caller) -> None:
    """The API server may show one (AdmissionConfiguration); what it is allowed to do does not depend on it here."""
    from tests.support.bundles import certificate, key

    file = caller.directory / "expired.pem"
    from cryptography.hazmat.primitives import serialization

    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(key().private_bytes(*form) + certificate("client", ends="2021-01-01").encode())
    context = ssl.create_default_context(cafile=str(caller.directory / "ca.crt"))
    context.load_cert_chain(file)
    code, _ = await caller.post(of(reviewed()), ssl=context)
    assert code == 200


async def test_a_fault_of_our_own_costs_one_request(caller: Caller) -> None:
    code, status = await caller.post(of(reviewed(namespace="broken")))
    assert (code, status["reason"]) == (500, "InternalError")
    assert "hunter2" not in json.dumps(status)
    await caller.works()
