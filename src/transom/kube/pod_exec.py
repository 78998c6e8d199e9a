"""A command in a container, as an API server runs it over a WebSocket (`v4.channel.k8s.io`, KEP-4006).

The first byte of a message is its channel: 1 is stdout, 2 stderr, 3 a metav1.Status that comes when the command has ended
(k8s.io/apimachinery `pkg/util/remotecommand/constants.go`, k8s.io/client-go `tools/remotecommand/v4.go`).
"""

from typing import Any, Final

import aiohttp
import msgspec

from transom.kube.decoding import ApiStatus
from transom.kube.errors import ConnectionFailed, ResponseTooLarge, UnreadableObject

EXEC_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""The newer one only adds the end of stdin, which no command here has."""
_STATUS: Final = 3
_MOST: Final = 1 << 20
"""Bytes that a command may print, and `_MESSAGE` more for each message: there may be many without any."""
_MESSAGE: Final = 16


class CommandResult(msgspec.Struct, frozen=True):
    """What a command printed, and how it ended; `code` is -1 where it never ran, and `said` why."""

    code: int
    out: str = ""
    err: str = ""
    message: str = ""


async def read_output(socket: "aiohttp.ClientWebSocketResponse[Any]") -> CommandResult:
    """Read until the command has ended. Raises ResponseTooLarge, ConnectionFailed, UnreadableObject."""
    size = 0
    streams = {1: bytearray(), 2: bytearray(), _STATUS: bytearray()}
    async for message in socket:
        if message.type is aiohttp.WSMsgType.ERROR:
            raise ConnectionFailed(f"exec: {socket.exception()}")
        data = message.data if isinstance(message.data, bytes) else message.data.encode()
        if data and data[0] in streams:
            streams[data[0]] += data[1:]
        size += len(data) + _MESSAGE
        if size > _MOST:
            raise ResponseTooLarge(f"exec: more than {_MOST:,} bytes")
    if not streams[_STATUS]:
        raise ConnectionFailed("exec: the connection ended before the command did")
    out, err = (bytes(streams[channel]).decode(errors="replace") for channel in (1, 2))
    return parse_result(bytes(streams[_STATUS]), out, err)


def parse_result(status: bytes, out: str, err: str) -> CommandResult:
    """Parse a command's result from its final Status (JSON); on failure, a cause has the code (`ExitCode`).

    Raises UnreadableObject.
    """
    try:
        api_status = msgspec.json.decode(status, type=ApiStatus)
    except msgspec.DecodeError as error:
        raise UnreadableObject(f"exec: {error}") from error
    if api_status.status == "Success":
        return CommandResult(0, out, err)
    code = next((cause.message or "" for cause in api_status.causes if cause.reason == "ExitCode"), "")
    return CommandResult(int(code) if code.isdecimal() and len(code) < 12 else -1, out, err, api_status.message or "")
