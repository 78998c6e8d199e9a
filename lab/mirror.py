"""Publishers' servers of the lab: files by URL, over TLS on port 443 of the loopback. Only squid resolves their names."""

from __future__ import annotations

import random
import ssl
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = 443


class Mirror:
    """Answers for all its names at once. A context manager stops it."""

    def __init__(self, names: Iterable[str]) -> None:
        """Take an address of its own; `start` gives it the certificate that its names need."""
        self.files: dict[str, bytes] = {}
        """Contents by URL; any other one is 404. May change at any time."""
        self.asked: list[str] = []
        """The URLs that were asked for, oldest first."""
        self._server = self._create_server()
        self.address = str(self._server.server_address[0])
        self.names = dict.fromkeys(names, self.address)

    def __enter__(self) -> Mirror:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, certificate: Path, key: Path) -> None:
        """Answer from now on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()

    def _create_server(self) -> ThreadingHTTPServer:
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                url = f"https://{self.headers['Host'].removesuffix(f':{PORT}')}{self.path}"
                mirror.asked.append(url)
                content = mirror.files.get(url)
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        while True:
            address = f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}"
            try:
                return ThreadingHTTPServer((address, PORT), Handler)
            except OSError:
                continue
