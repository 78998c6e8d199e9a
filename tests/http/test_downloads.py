"""Files from servers that send more than anybody asked for, or never what was asked for."""

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from transom.http import downloads
from transom.http.downloads import DownloadError, HashError, Route, download, fetch_checksum

CONTENT = b"program" * 1_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MOST = 1 << 20


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "MAX_DOWNLOAD", MOST)


@asynccontextmanager
async def listening(handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """Run a server; its URL."""
    server = web.Server(handle)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        await server.shutdown(0.1)


@asynccontextmanager
async def serving(answer: Callable[[web.BaseRequest, web.StreamResponse], object]) -> AsyncIterator[tuple[str, list[int]]]:
    """Run a server that answers like this; its URL, and the bytes that it sent."""
    sent: list[int] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        answer(request, response)
        sent.append(0)
        await response.prepare(request)
        while response.status in (200, 206) and sent[-1] < 64 * MOST:
            await response.write(b"x" * 100_000)
            sent[-1] += 100_000
        return response

    async with listening(handle) as address:
        yield f"{address}/kubelet.exe", sent


async def fetch(url: str, directory: Path) -> None:
    way = Route()
    async with way.open_session() as session:
        await download(way, session, url, SHA256, directory / "kubelet.exe")


def tell_length(request: web.BaseRequest, response: web.StreamResponse) -> None:
    response.content_length = 1 << 40


def continue_part(request: web.BaseRequest, response: web.StreamResponse) -> None:
    response.set_status(206)
    response.enable_chunked_encoding()


@pytest.mark.parametrize(
    "answer",
    [lambda _, response: response.enable_chunked_encoding(), tell_length, continue_part],
    ids=["chunks", "length", "range"],
)
async def test_a_file_without_an_end_does_not_fill_the_disk(
    answer: Callable[[web.BaseRequest, web.StreamResponse], object], tmp_path: Path
) -> None:
    (tmp_path / "kubelet.exe.part").write_bytes(CONTENT[:100])
    async with serving(answer) as (url, sent):
        with pytest.raises(HashError, match=f"more than {MOST:,} bytes"):
            await fetch(url, tmp_path)
        assert len(sent) == 1
    assert list(tmp_path.iterdir()) == []


async def test_a_server_that_has_no_range_of_anything_is_asked_twice(tmp_path: Path) -> None:
    (tmp_path / "kubelet.exe.part").write_bytes(CONTENT[:100])
    async with serving(lambda _, response: response.set_status(416)) as (url, sent):
        with pytest.raises(DownloadError, match="the server answered 416"):
            await fetch(url, tmp_path)
        assert len(sent) == 2


@asynccontextmanager
async def sending(segments: tuple[bytes, ...], **headers: str) -> AsyncIterator[tuple[str, list[str]]]:
    """Run a server that sends these bytes one after the other; its URL, and the encodings that it was asked for."""
    accepted: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        accepted.append(request.headers.get("Accept-Encoding", ""))
        response = web.StreamResponse(headers={name.replace("_", "-"): value for name, value in headers.items()})
        await response.prepare(request)
        for segment in segments:
            await response.write(segment)
            await asyncio.sleep(0.05)
        return response

    async with listening(handle) as address:
        yield f"{address}/kubelet.tar.gz", accepted


async def test_an_archive_that_is_called_an_encoding_stays_an_archive(tmp_path: Path) -> None:
    archive = gzip.compress(CONTENT)
    way = Route()
    async with sending((archive,), Content_Encoding="gzip") as (url, accepted), way.open_session() as session:
        await download(way, session, url, hashlib.sha256(archive).hexdigest(), tmp_path / "kubelet.tar.gz")
        assert accepted == ["identity"]
    assert (tmp_path / "kubelet.tar.gz").read_bytes() == archive


async def test_checksums_may_come_in_parts() -> None:
    way = Route()
    lines = tuple(f"{number:064x}  kubelet-{number}.tar.gz\n".encode() for number in range(4))
    async with sending((*lines, f"{SHA256}  kubelet.tar.gz\n".encode())) as (url, _), way.open_session() as session:
        assert await fetch_checksum(way, session, url, url) == SHA256
