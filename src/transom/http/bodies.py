"""Bodies of answers, read up to a limit."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp


async def read_body(response: "aiohttp.ClientResponse", limit: int) -> bytes:
    """Return the first `limit` bytes of a body, or all of a shorter one. Raises aiohttp.ClientError, TimeoutError.

    `response.content.read(limit)` returns what has come so far, which may be less (docs.aiohttp.org, "Streaming API").
    """
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) >= limit:
            break
    return bytes(body[:limit])
