"""`transom status`: what is not ready first, with its reason."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.servers import kubeconfig
from tests.support.command import run

pytestmark = pytest.mark.server
META = {"resourceVersion": "1"}


def instance(name: str, ready: tuple[str, str, str] | None) -> dict[str, Any]:
    conditions = [] if ready is None else [dict(zip(("status", "reason", "message"), ready, strict=True)) | {"type": "Ready"}]
    meta = {"name": name, "namespace": "transom-system", "uid": name, "resourceVersion": "1"}
    return {"metadata": meta, "spec": {"address": f"{name}.example"}, "status": {"conditions": conditions}}


LISTS: dict[str, list[dict[str, Any]]] = {
    "/apis/transom.dev/v1alpha1/egressproxies": [
        {
            "metadata": {"name": "cluster", "uid": "c", "resourceVersion": "1"},
            "status": {
                "conditions": [{"type": "Ready", "status": "False", "reason": "HostsWaiting", "message": "2 hosts wait"}],
                "hosts": {"total": 3, "updated": 1, "waiting": 1, "failed": 1},
                "trustBundle": {"earliestExpiry": "2027-01-01T00:00:00Z"},
                "settings": "abc",
            },
        }
    ],
    "/apis/transom.dev/v1alpha1/namespaces/transom-system/windowsinstances": [
        instance("win-1", ("True", "Ready", "")),
        instance("win-2", ("False", "Unreachable", "no connection to port 22")),
        instance("win-3", None),
    ],
}


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = LISTS.get(self.path.partition("?")[0])
            body = json.dumps({"metadata": META, "items": found} if found is not None else {"code": 404}).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_what_is_not_ready_comes_first_with_its_reason(server: str, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path / "config", server)
    told = run("status", "--kubeconfig", config)
    assert told.code == 0, told.err
    assert [line.split("  ")[0].strip() for line in told.out.splitlines()] == [
        "EgressProxy/cluster",
        "WindowsInstance/win-2",
        "WindowsInstance/win-3",
        "WindowsInstance/win-1",
    ]
    assert "HostsWaiting  2 hosts wait; 3 hosts: 1 updated, 1 waiting, 1 failed; the first CA expires 2027-01-01" in told.out
    assert "False    Unreachable   no connection to port 22; win-2.example" in told.out
    assert "no operator has looked at it" in told.out
    objects = run("status", "--kubeconfig", config, "-o", "json").json["objects"]
    assert [(one["name"], one["ready"]) for one in objects][:2] == [("cluster", "False"), ("win-2", "False")]
    assert objects[0]["earliestExpiry"] == "2027-01-01T00:00:00Z"


def test_a_cluster_without_transom(server: str, tmp_path: Path) -> None:
    told = run("status", "--kubeconfig", kubeconfig(tmp_path / "config", server), "-n", "elsewhere")
    assert (told.code, told.out) == (1, "")
    assert "the definitions of Transom are not there" in told.err
    wrong = run("status", "--watch", "-o", "json")
    assert (wrong.code, "--watch is for text" in wrong.err) == (2, True)
