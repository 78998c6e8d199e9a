"""`transom status`: what is not ready first, with its reason."""

import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from tests.cli.servers import kubeconfig
from tests.support.command import run

from transom.cli.status_table import ObjectStatus, as_counted, group, lines

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


def of_many(count: int) -> list[ObjectStatus]:
    waits = "the settings have changed, and it is not yet the host's turn"
    settings = ObjectStatus(
        "EgressProxy", None, "cluster", "False", "HostsFailed", "see win-7", hosts={"total": count, "failed": 5}
    )
    failed = [one("win-7", "Unreachable", "no connection to port 22"), one("win-9", "Unreachable", "no answer")]
    same = [one(f"win-{number}", "HostKeyChanged", "another host key") for number in range(10, 50)]
    waiting = [one(f"win-{number}", "Pending", waits) for number in range(50, 500)]
    return [settings, *failed, *same, *waiting, *(one(f"win-{number}", "Ready", "") for number in range(500, count))]


def one(name: str, reason: str, message: str) -> ObjectStatus:
    ready = "True" if reason == "Ready" else "False"
    return ObjectStatus("WindowsInstance", "transom-system", name, ready, reason, message, address=f"{name}.example")


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_thousand_hosts_are_on_one_screen(columns: int) -> None:
    told = list(lines(group(of_many(1000)), columns, "12:00:00 "))
    assert len(told) <= 24
    assert [line for line in told if cell_len(line) > columns or line != line.rstrip()] == []
    words = " ".join(" ".join(told).split())
    assert "500 WindowsInstances True Ready win-500, win-501" in words
    assert "450 WindowsInstances False Pending" in words
    # who has a fault is there by name, however many
    assert [number for number in (7, 9, *range(10, 50)) if f"win-{number}" not in words] == []
    assert sum("more" in line for line in told) == 2


def test_in_a_pipe_a_line_is_as_long_as_it_is() -> None:
    told = list(lines(group(of_many(1000))))
    assert len(told) == 6
    assert all(f"win-{number}" in "".join(told) for number in range(7, 1000) if number != 8)


def test_names_are_sorted_as_people_count() -> None:
    names = ["win-10", "win-2", "a1b10", "a1b9", "win"]
    assert sorted(names, key=as_counted) == ["a1b9", "a1b10", "win", "win-2", "win-10"]


def test_what_changes_is_told_at_once_also_into_a_pipe(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/apis/transom.dev/v1alpha1/namespaces/transom-system/windowsinstances"
    monkeypatch.setitem(LISTS, path, LISTS[path])
    # tests that run in the background of a shell ignore Ctrl-C, and so would what they start
    command = ["env", "--default-signal=INT", sys.executable, "-m", "transom", "status", "--watch", "--kubeconfig"]
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
    with subprocess.Popen(
        [*command, kubeconfig(tmp_path / "config", server)], stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(4)]
        LISTS[path] = [instance("win-1", ("False", "Pending", "not yet its turn")), LISTS[path][2]]
        then = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == ""
    assert process.returncode == 130
    assert "WindowsInstance/win-1" in first[3]
    assert re.fullmatch(r"\d\d:\d\d:\d\d WindowsInstance/win-1  False  Pending  not yet its turn; win-1.example\n", then[0])
    assert then[1].endswith(" WindowsInstance/win-2: gone\n")


def test_a_cluster_without_transom(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LISTS, "/api/v1/namespaces/elsewhere", [])
    told = run("status", "--kubeconfig", kubeconfig(tmp_path / "config", server), "-n", "elsewhere")
    assert (told.code, told.out) == (1, "")
    assert "the definitions of Transom are not there" in told.err
    wrong = run("status", "--watch", "-o", "json")
    assert (wrong.code, "--watch is for text" in wrong.err) == (2, True)
