"""An administrator's requests to an API server, over connections that are kept: a new one costs both sides 4 ms of CPU."""

from __future__ import annotations

import io
import select
import ssl
import time
import urllib.error
from collections import deque
from functools import cached_property
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path

_IDLE_SECONDS = 30.0
"""kube-apiserver closes a connection that has been idle for 90 s."""


class Connections:
    """For any number of threads: each request has a connection of its own while it lasts."""

    def __init__(self, host: str, port: int, authority: Path, token: str) -> None:
        """Nothing is read or sent yet. `authority` is the CA by which the server is known, as PEM."""
        self._host, self._port, self._authority = host, port, authority
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "lab"}
        self._kept: deque[tuple[HTTPSConnection, float]] = deque()

    def request(self, method: str, path: str, data: bytes | None, headers: dict[str, str], seconds: float) -> bytes:
        """One request. Raises OSError; where the status is 400 or more, an HTTPError, which has the Status.

        What is answered by 429 is asked again, as kubectl does: the first request for a kind that was just defined is.
        """
        end = time.monotonic() + seconds
        while True:
            try:
                return self._ask(method, path, data, self._headers | headers, seconds)
            except urllib.error.HTTPError as error:
                if error.code != HTTPStatus.TOO_MANY_REQUESTS or "/eviction" in path or time.monotonic() > end:
                    raise
            time.sleep(0.2)

    def close(self) -> None:
        """Close all that no request uses."""
        while self._kept:
            self._kept.pop()[0].close()

    def _ask(self, method: str, path: str, data: bytes | None, headers: dict[str, str], seconds: float) -> bytes:
        connection = self._get_connection(seconds)
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            body = answer.read()
        except BaseException:
            connection.close()
            raise
        self._kept.append((connection, time.monotonic()))
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise urllib.error.HTTPError(path, answer.status, answer.reason, answer.headers, io.BytesIO(body))
        return body

    def _get_connection(self, seconds: float) -> HTTPSConnection:
        while self._kept:
            connection, since = self._kept.pop()
            if time.monotonic() - since < _IDLE_SECONDS and _is_open(connection):
                connection.sock.settimeout(seconds)
                return connection
            connection.close()
        return HTTPSConnection(self._host, self._port, timeout=seconds, context=self._context)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._authority))


def _is_open(connection: HTTPSConnection) -> bool:
    """Return True if the server sent nothing since its last response; data without a request means that it closes."""
    if connection.sock is None:
        return False
    looking = select.poll()
    looking.register(connection.sock, select.POLLIN)
    return not looking.poll(0)
