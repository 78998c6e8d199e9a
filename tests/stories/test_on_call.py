"""docs/on-call.md: each question has one command, which exists, only reads, and shows what the page names."""

import asyncio
import re
import shlex
import socket
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lab.ports import reserve
from tests.support import command as command_line
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.programs import Program
from tests.support.repository import DOCS
from tests.support.waiting import until

from transom.diagnosis.checks import CHECKS
from transom.kube.resources import PODS
from transom.reasons.reason_table import REASONS


class Row(NamedTuple):
    """A row of the table: `look` is where the answer is."""

    question: str
    command: str
    look: str


def read_rows() -> list[Row]:
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (DOCS / "on-call.md").read_text("utf-8").splitlines()
        if line.startswith("| ") and "`" in line
    ]
    return [Row(question, command.strip("`"), look) for question, command, look in cells]


ROWS = read_rows()
WRITES = frozenset(
    {"apply", "delete", "patch", "create", "edit", "scale", "restart", "annotate", "label", "cordon", "drain", "replace"}
)


def test_each_question_has_one_command() -> None:
    assert len({row.question for row in ROWS}) == len(ROWS) >= 15
    for row in ROWS:
        assert not re.search(r"[;&|]", row.command), row
        assert not WRITES & set(row.command.split()), row


def test_what_the_page_names_exists() -> None:
    findings = {id_ for row in ROWS for id_ in re.findall(r"finding `([^`]+)`", row.look)}
    assert findings
    assert findings <= {check.id for check in CHECKS}
    reasons = {word for row in ROWS for word in re.findall(r"reason=(\w+)", row.command)}
    assert reasons <= set(REASONS)


def find_address() -> str:
    """An address of this machine that an API server proxies to: it refuses loopback; empty if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # nothing is sent: this only selects a route
            probe.connect(("192.0.2.77", 9))
        except OSError:
            return ""
        address = str(probe.getsockname()[0])
    return "" if address.startswith("127.") else address


@pytest.mark.lab
async def test_each_command_answers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.control_plane.kubeconfig))
    monkeypatch.setenv("TRANSOM_NAMESPACE", cluster.namespace)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    address, port = find_address() or "127.0.0.1", reserve()
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-2", host)
    await put_pod(cluster, address)
    options = {"controllers": "egress,hosts", "bind-address": f"{address}:{port}"}
    async with Program(cluster, **options):
        await until(lambda: f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet"))
        await cluster.wait_ready()
        for row in ROWS:
            if "/proxy/" in row.command and address == "127.0.0.1":
                continue
            output = await run(cluster, row, port)
            for line in re.findall(r"line `([A-Z]+)`", row.look):
                # of a CA it is the end that is shown, and only if it is near
                assert line in output or line == "CA", (row, output)
    assert (tmp_path / "transom.tar.gz").stat().st_size


async def put_pod(cluster: Cluster, address: str) -> None:
    container = {"name": "transom", "image": "r.example/transom:1"}
    await cluster.put(PODS, "operator-0", spec={"nodeName": "none", "containers": [container]})
    status: dict[str, Any] = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    await cluster.merge(PODS, "operator-0", {"status": status}, "status")


async def run(cluster: Cluster, row: Row, port: int) -> str:
    """Run a command of the page for the objects of this test; return its output."""
    line = row.command.replace("transom-system", cluster.namespace).replace("POD:8080", f"operator-0:{port}")
    program, *arguments = shlex.split(line.replace(" NAME", " lab"))
    if program == "kubectl":
        return await asyncio.to_thread(cluster.control_plane.run_kubectl, *arguments)
    assert program == "transom"
    ran = await asyncio.to_thread(command_line.run, *arguments)
    # 1: there are findings, or hosts that would change
    assert ran.code in (0, 1), (row, ran.err)
    return ran.out + ran.err
