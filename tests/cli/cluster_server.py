"""An API server of a few lists that can be followed: what a person's command asks, without a cluster.

`tests/stories/test_doctor_on_a_cluster.py` runs the same commands on a real one.
"""

import contextlib
import http.server
import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.cli.servers import HTTPServer

Value = dict[str, Any]
INSTANCES = "/apis/transom.dev/v1alpha1/namespaces/transom-system/windowsinstances"
PROXIES = "/apis/transom.dev/v1alpha1/egressproxies"


class Cluster:
    """Lists by path; `forbidden` are beginnings of paths that this person may not read."""

    def __init__(self, lists: dict[str, list[Value]], forbidden: tuple[str, ...] = ()) -> None:
        self.lists, self.forbidden = dict(lists), forbidden
        self.url = ""
        self.texts: dict[str, str] = {}
        """What is no list: logs."""
        self.asked: list[str] = []
        self._watching: list[tuple[str, queue.Queue[Value]]] = []
        self._told: list[tuple[str, Value]] = []
        self._lock = threading.Lock()

    def change(self, path: str, type_: str, value: Value) -> None:
        """An object is another, and whoever follows its kind is told."""
        with self._lock:
            name = value["metadata"]["name"]
            rest = [item for item in self.lists[path] if item["metadata"]["name"] != name]
            self.lists[path] = rest if type_ == "DELETED" else [*rest, value]
            event = {"type": type_, "object": value}
            self._told.append((path, event))
            for followed, entry in self._watching:
                if followed == path:
                    entry.put(event)

    def answer(self, url: str) -> tuple[int, Value]:
        path = urlsplit(url).path
        with self._lock:
            self.asked.append(url)
            if any(path.startswith(item) for item in self.forbidden):
                message = f"{path.rpartition('/')[2]} is forbidden: User tim cannot list it"
                return 403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}
            if path == "/version":
                return 200, {"gitVersion": "v1.36.3"}
            if path not in self.lists:
                return 404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}
            found = self.lists[path]
        fields = dict(
            part.split("=", 1) for part in parse_qs(urlsplit(url).query).get("fieldSelector", [""])[0].split(",") if part
        )
        name = fields.get("metadata.name")
        items = [item for item in found if name in (None, item["metadata"]["name"])]
        return 200, {"metadata": {"resourceVersion": "1"}, "items": items}

    @contextmanager
    def follow(self, path: str) -> Iterator["queue.Queue[Value]"]:
        told: queue.Queue[Value] = queue.Queue()
        with self._lock:
            # who has listed before a change follows from that version on
            for changed, event in self._told:
                if changed == path:
                    told.put(event)
            self._watching.append((path, told))
        yield told


@contextmanager
def serving(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, at its `url`."""
    done = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "watch=true" in self.path:
                with contextlib.suppress(OSError), cluster.follow(urlsplit(self.path).path) as told:
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.flush()
                    while not done.is_set():
                        with contextlib.suppress(queue.Empty):
                            self.wfile.write(json.dumps(told.get(timeout=0.05)).encode() + b"\n")
                return
            code, value = cluster.answer(self.path)
            text = cluster.texts.get(urlsplit(self.path).path)
            code, body = (code, json.dumps(value).encode()) if text is None else (200, text.encode())
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                # who has read enough asks no further
                self.wfile.write(body)

        def do_POST(self) -> None:
            # the namespace exists; reviews of rights are answered by no such server
            self.send_error(409 if self.path.endswith("/namespaces") else 501)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True).start()
        cluster.url = f"http://127.0.0.1:{running.server_address[1]}"
        yield cluster
        done.set()
        running.shutdown()
