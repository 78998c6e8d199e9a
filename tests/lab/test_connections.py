"""A connection is kept for the next request, unless the server has ended it."""

import ssl
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from lab.authority import Authority
from lab.connections import Connections


class Server(ThreadingHTTPServer):
    """Answers with the number of the connection. It ends that of `/last` without a word, and refuses the first `/busy`."""

    daemon_threads = True

    def __init__(self, directory: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*Authority(directory).issue("server", "server", addresses=("127.0.0.1",)))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.connections, self.busy = 0, 0
        self.ended = threading.Event()

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.ended.set()


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1
        self.number = self.server.connections

    def do_GET(self) -> None:
        self.server.busy += self.path == "/busy"
        refused = self.path == "/busy" and self.server.busy == 1
        body = str(self.number).encode()
        self.send_response(429 if refused else 404 if self.path == "/absent" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.path == "/last"

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as made:
        serving = threading.Thread(target=made.serve_forever)
        serving.start()
        yield made
        made.shutdown()
        serving.join()


@pytest.fixture
def connections(server: Server, tmp_path: Path) -> Iterator[Connections]:
    made = Connections("127.0.0.1", server.server_address[1], tmp_path / "ca.crt", "hunter2")
    yield made
    made.close()


def test_a_connection_is_kept_until_the_server_ends_it(server: Server, connections: Connections) -> None:
    assert [get(connections, path) for path in ("/", "/", "/busy", "/last")] == ["1"] * 4
    assert server.busy == 2
    assert server.ended.wait(60)
    assert get(connections, "/") == "2"


def test_a_refusal_has_its_text_and_costs_no_connection(connections: Connections) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404") as refused:
        get(connections, "/absent")
    assert refused.value.read() == b"1"
    assert get(connections, "/") == "1"


def get(connections: Connections, path: str) -> str:
    return connections.request("GET", path, None, {}, 60).decode()
