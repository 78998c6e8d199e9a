"""Conversations at random: whether a review is answered where it is parsed or aiohttp's way cannot be seen from outside."""

import asyncio
import random

import pytest
from tests.support.waiting import PATIENCE
from tests.webhook.caller import Caller, of, reviewed

from transom.webhook import connection

Answer = tuple[bytes, dict[bytes, bytes], bytes]
Conversation = list[tuple[list[bytes], bool]]
"""The pieces of each request, and whether its answer is waited for before the next one."""


def request(draw: random.Random, *, last: bool) -> bytes:
    body = of(reviewed(uid=f"u{draw.randrange(999)}", options="x" * draw.choice((0, 10, 5_000, 30_000, 60_000))))
    path = draw.choice((b"/pods", b"/pods?timeout=10s", b"/pods-with-ca"))
    method, version, headers = b"POST", b"1.1", b"Host: x\r\n"
    if last:
        match draw.randrange(6):
            case 0:
                body = b"{"
            case 1:
                body = of(reviewed(namespace="broken"))
            case 2:
                path = b"/other"
            case 3:
                method, body = b"GET", b""
            case 4:
                version = b"1.0"
            case _:
                headers += b"Connection: close\r\n"
    elif draw.random() < 0.1:
        version, headers = b"1.0", headers + b"Connection: keep-alive\r\n"
    elif draw.random() < 0.1:
        chunks = b"".join(
            b"%x\r\n%b\r\n" % (len(body[at : at + 3000]), body[at : at + 3000]) for at in range(0, len(body), 3000)
        )
        return b"%b %b HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % (method, path, headers, chunks)
    return b"%b %b HTTP/%b\r\n%bContent-Length: %d\r\n\r\n%b" % (method, path, version, headers, len(body), body)


def conversation(draw: random.Random) -> Conversation:
    count, made = draw.randint(2, 6), Conversation()
    for number in range(count):
        text = request(draw, last=number == count - 1)
        cuts = sorted(draw.sample(range(1, len(text)), draw.choice((0, 0, 1, 1, 3))))
        made.append(
            ([text[begin:end] for begin, end in zip((0, *cuts), (*cuts, len(text)), strict=True)], draw.random() < 0.75)
        )
    return made


async def answers(caller: Caller, conversation: Conversation) -> list[Answer]:
    """All of them: the server ends the connection after the last one."""
    reader, writer = await caller.connect()
    found: list[Answer] = []

    async def read() -> None:
        line, *lines = (await reader.readuntil(b"\r\n\r\n")).rstrip().split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines)
        assert headers.pop(b"Date")
        found.append((line, headers, await reader.readexactly(int(headers[b"Content-Length"]))))

    async with asyncio.timeout(PATIENCE):
        for number, (pieces, waits) in enumerate(conversation, 1):
            for piece in pieces:
                writer.write(piece)
                # what is sent now may come by itself, or with what follows
                await asyncio.sleep(0)
            while waits and len(found) < number:
                await read()
        while len(found) < len(conversation):
            await read()
        assert await reader.read() == b""
    writer.close()
    return found


async def test_who_answers_cannot_be_seen(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, usual = list[int](), connection._build_head

    def counted(status: int, length: int, now: int) -> bytes:
        at_once.append(status)
        return usual(status, length, now)

    monkeypatch.setattr(connection, "_build_head", counted)
    made = [conversation(random.Random(seed)) for seed in range(30)]
    for item in made:
        with monkeypatch.context() as patched:
            patched.setattr(connection, "_INSIDES", {"_something_else"})
            before = len(at_once)
            expected = await answers(caller, item)
            assert len(at_once) == before
        assert await answers(caller, item) == expected
    assert 200 in at_once
