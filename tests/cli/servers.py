"""An API server that says one thing, and a kubeconfig that leads to it."""

import http.server
import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def kubeconfig(path: Path, server: str, context: str = "staging") -> str:
    """A kubeconfig with one context."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "hunter2"}}],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
        "current-context": context,
    }
    path.write_text(json.dumps(config))
    return str(path)


class _Patient(socketserver.BaseServer):
    """Whose client may be gone before it is answered: who has read enough of a refusal asks no further."""

    request_queue_size = 128
    """A command asks for some twenty kinds at once: who finds the queue full tries again after a second (tcp(7))."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _TCPServer(_Patient, socketserver.ThreadingTCPServer):
    pass


class HTTPServer(_Patient, http.server.ThreadingHTTPServer):
    """One whose requests come to a handler each, in a thread of its own."""


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """The URL of a port on which each request gets these bytes, and the end of the connection."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answer)

    with _TCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def saying(code: int, reason: str, message: str) -> Iterator[str]:
    """The URL of a server that answers each request so: as metav1.Status has it."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code}
    body = json.dumps(status).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PATCH = do_POST = do_DELETE = answer

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
