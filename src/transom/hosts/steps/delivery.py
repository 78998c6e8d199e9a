"""Send the files that a plan places: staged under a name of their own, resumed where a transfer was cut, a part at a time.

A staged file is `FilePlace.staged`, with the suffix `.part` until it is complete. The script that places
it compares its hash; its size and its time are set here, and show in later passes that it is unchanged.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from transom.hosts.errors import FileRefused
from transom.hosts.ssh.directory import HostDirectory, format_sftp_path
from transom.hosts.steps.payload_directory import CHUNK, PayloadDirectory
from transom.proxy.secret import Secret
from transom.windows.host.host_state import compute_file_time
from transom.windows.parts.files import FilePlace

_SIDE_BY_SIDE = 4
_SMALL = 256 * 1024


class PassProgress(msgspec.Struct, frozen=True):
    """What a pass is doing now: a word for the step, what it is about, and how far it is (bytes for `send`)."""

    step: str
    detail: str = ""
    done: int = 0
    total: int = 0


Report = Callable[[PassProgress], object]


class Delivery:
    """The transfer of a plan's files over one transport. `sent` counts the bytes that went over the connection."""

    def __init__(
        self, directory: HostDirectory, payload: PayloadDirectory, contents: Mapping[str, Secret], report: Report
    ) -> None:
        self._directory, self._payload, self._contents, self._report = directory, payload, contents, report
        self.sent = 0
        self._done = self._total = 0

    async def deliver_files(self, places: Sequence[FilePlace]) -> None:
        """See that every file is staged on the host, whole. Raises HostError; what was sent until then is used next time."""
        if not places:
            return
        wanted = {place.staged: place for place in places}
        names = await self._directory.transport.list_names(format_sftp_path())
        await self._remove_leftovers(names, set(wanted))
        missing = [place for name, place in wanted.items() if name not in names or not await self._is_staged(place)]
        self._total = sum(place.size for place in missing)
        small = [place for place in missing if place.size <= _SMALL]
        gate = asyncio.Semaphore(_SIDE_BY_SIDE)

        async def deliver_file(place: FilePlace) -> None:
            async with gate:
                await self._send_file(place)

        sending = [asyncio.ensure_future(deliver_file(place)) for place in small]
        try:
            await asyncio.gather(*sending)
        finally:
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
        for place in missing:
            if place.size > _SMALL:
                await self._send_file(place)

    async def _is_staged(self, place: FilePlace) -> bool:
        """Return True if an earlier pass staged the same file completely; otherwise remove it."""
        status = await self._directory.transport.read_status(format_sftp_path(place.staged))
        if status is not None and (status.size, status.modified) == (place.size, compute_file_time(place.recorded)):
            return True
        await self._directory.transport.remove(format_sftp_path(place.staged))
        return False

    async def _remove_leftovers(self, names: Sequence[str], wanted: set[str]) -> None:
        """Remove what an earlier payload left half-sent."""
        old = [n for n in names if n.startswith("s-") and n.removesuffix(".part") not in wanted]
        for name in old:
            await self._directory.transport.remove(format_sftp_path(name))

    async def _send_file(self, place: FilePlace) -> None:
        transport, part = self._directory.transport, format_sftp_path(f"{place.staged}.part")
        status = await transport.read_status(part)
        offset = status.size if status is not None and status.size <= place.size else 0
        self._done += offset
        try:
            await transport.send(part, self._iter_chunks(place, offset), offset, compute_file_time(place.recorded))
        except FileRefused as refused:
            raise FileRefused(f"{place.path} could not be sent: {refused}; {place.size} bytes are needed on drive C") from None
        present = await transport.read_status(part)
        if present is None or present.size != place.size or present.modified != compute_file_time(place.recorded):
            await transport.remove(part)
            raise FileRefused(f"{place.path} is not whole on the host after it was sent (is the disk full?)")
        await self._directory.rename_with_retry(f"{place.staged}.part", place.staged)

    async def _iter_chunks(self, place: FilePlace, offset: int) -> AsyncIterator[bytes]:
        async for chunk in self._iter_content(place, offset):
            yield chunk
            self.sent += len(chunk)
            self._done += len(chunk)
            self._report(PassProgress("send", place.path, self._done, self._total))

    async def _iter_content(self, place: FilePlace, offset: int) -> AsyncIterator[bytes]:
        content = self._contents.get(place.sha256)
        if content is None:
            async for chunk in self._payload.iter_chunks(place.sha256, offset):
                yield chunk
            return
        data = content.reveal().encode()
        for start in range(offset, len(data), CHUNK):
            yield data[start : start + CHUNK]
