"""`transom status`: what is not ready first, with its reason and what there is to do."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from tests.cli.cluster_server import INSTANCES, PROXIES, Cluster, serving
from tests.cli.servers import kubeconfig
from tests.cli.terminals import Terminal
from tests.support.bundles import egress_proxy, private_key, secret, write
from tests.support.command import run

from transom.apply.report import build_host_report
from transom.apply.target import list_targets
from transom.cli.findings import Source, load_and_examine
from transom.cli.host_records import HostRecords
from transom.cli.status_table import group_objects, iter_object_lines, iter_status_lines
from transom.diagnosis.overview import (
    ClusterStatus,
    DeploymentState,
    Expiry,
    Leader,
    ObjectStatus,
    Overview,
    RolloutStatus,
    WebhookState,
    build_host_row,
    get_natural_key,
)
from transom.diagnosis.snapshot import ReadFailure
from transom.hosts.passes.base_pass import PassResult
from transom.pods.outdated_pods import OutdatedWorkload

pytestmark = pytest.mark.server
KEY = secret("cloud-private-key", stringData={"private-key.pem": private_key()})
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def instance(name: str, ready: tuple[str, str, str] | None, **status: Any) -> dict[str, Any]:
    conditions = [] if ready is None else [dict(zip(("status", "reason", "message"), ready, strict=True)) | {"type": "Ready"}]
    meta = {"name": name, "namespace": "transom-system", "uid": name, "resourceVersion": "1"}
    return {"metadata": meta, "spec": {"address": f"{name}.example"}, "status": {"conditions": conditions, **status}}


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "transom-system", "uid": name, "resourceVersion": "1"}, **fields}


BASE = named(
    "cluster",
    status={
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "HostsFailed", "message": "see win-2"},
            {"type": "RolloutHalted", "status": "True", "reason": "NotHealthy", "message": "win-2 failed"},
            {"type": "PodsInjected", "status": "False", "reason": "NoNamespaceSelector", "message": "not set"},
        ],
        "hosts": {"total": 3, "updated": 1, "waiting": 1, "failed": 1},
        "trustBundle": {"earliestExpiry": "2027-01-01T00:00:00Z"},
        "settings": "abc",
    },
)
HOSTS = [
    instance("win-1", ("True", "Ready", "")),
    instance("win-2", ("False", "Unreachable", "no connection to port 22"), changes="settings/aa:failed!"),
    instance("win-3", ("False", "Pending", "not yet its turn"), nodeName="win-3", osVersion="10.0.20348", changes=""),
    instance("win-4", None),
]
LEASE = {"holderIdentity": "transom-0", "renewTime": "2020-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}
CONTAINERS = {"template": {"spec": {"containers": [{"image": "registry.example/transom:0.1.0"}]}}}
LISTS: dict[str, list[dict[str, Any]]] = {
    PROXIES: [BASE],
    INSTANCES: HOSTS,
    "/apis/transom.dev/v1alpha1/windowsinstances": HOSTS,
    "/apis/coordination.k8s.io/v1/namespaces/transom-system/leases": [named("transom", spec=LEASE)],
    "/apis/apps/v1/namespaces/transom-system/deployments": [named("transom", spec={"replicas": 2, **CONTAINERS})],
    "/api/v1/namespaces/transom-system/events": [
        named("e", type="Warning", reason="Unreachable", message="no answer", count=7, lastTimestamp="2026-11-23T11:00:00Z")
    ],
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with serving(Cluster(LISTS)) as running:
        yield running


@pytest.fixture
def config(cluster: Cluster, tmp_path: Path) -> str:
    return kubeconfig(tmp_path / "config", cluster.url)


def test_what_is_not_ready_comes_first_with_its_reason_and_what_to_do(config: str) -> None:
    told = run("status", "--kubeconfig", config)
    assert told.code == 0, told.err
    objects = [line.split("  ")[0].strip() for line in told.out.splitlines() if "EgressProxy/" in line or "Instance/" in line]
    assert objects[:5] == [
        "EgressProxy/cluster",
        "WindowsInstance/win-2",
        "WindowsInstance/win-4",
        "WindowsInstance/win-3",
        "WindowsInstance/win-1",
    ]
    assert "HostsFailed  " in told.out
    assert "see win-2; 3 hosts: 1 updated, 1 waiting, 1 failed; the first CA expires 2027-01-01" in told.out
    assert re.search(
        r"False +Unreachable +no connection to port 22; win-2.example\n    next: .*verify host win-2.example", told.out
    )
    assert "no operator has looked at it" in told.out
    objects = run("status", "--kubeconfig", config, "-o", "json").json["objects"]
    assert [(obj["name"], obj["ready"]) for obj in objects][:2] == [("cluster", "False"), ("win-2", "False")]
    assert objects[0]["earliestExpiry"] == "2027-01-01T00:00:00Z"


def test_what_stands_around_the_hosts(config: str) -> None:
    told = run("status", "--kubeconfig", config).out
    assert "OPERATOR  not running: transom-0 was the last" in told
    assert "transom: 0 of 2 pods, registry.example/transom:0.1.0" in told
    assert "WEBHOOK   NoNamespaceSelector: not set" in told
    assert "ROLLOUT   [######..............] 1 of 3 hosts have the settings, 1 waiting, 1 failed" in told
    assert "halted: win-2 failed" in told
    found = run("status", "--kubeconfig", config, "-o", "json").json
    outdated = "as last reported: no operator leads"
    counts = {"total": 3, "updated": 1, "waiting": 1, "failed": 1}
    assert found["rollout"] == {**counts, "halted": "win-2 failed", "outdated": outdated}
    assert found["leader"] == {
        "holder": "transom-0",
        "renewed": "2020-01-01T00:00:00.000000Z",
        "working": False,
        "duration": 15,
    }


@pytest.mark.parametrize("forbidden", [("/apis/apps", "/apis/coordination"), ("/apis/transom.dev/v1alpha1/egress",)])
def test_a_person_who_may_read_some_kinds_sees_these(forbidden: tuple[str, ...], cluster: Cluster, config: str) -> None:
    cluster.forbidden = forbidden
    told = run("status", "--kubeconfig", config)
    assert (told.code, told.err) == (0, "")
    assert "WindowsInstance/win-2" in told.out
    assert told.out.count("NOT READ") >= len(forbidden)
    assert "is forbidden: User tim cannot list it" in told.out
    unread = run("status", "--kubeconfig", config, "-o", "json").json["unread"]
    assert len(unread) >= len(forbidden)


def test_the_story_of_a_host(config: str) -> None:
    told = run("status", "host", "win-3", "--kubeconfig", config)
    assert told.code == 0, told.err
    for line in (
        "WindowsInstance/win-3  win-3.example  lifecycle Egress",
        "State      waiting: Pending: not yet its turn",
        "See        docs/reasons.md#pending",
        "Waits for  an operator: the lease has no holder",
        "Waits for  win-2, which halted the rollout",
        "for the services containerd, kubelet, cloud-node-manager; restart Rolling",
        "Known      Windows 10.0.20348",
        "Condition  Ready=False  Pending",
        "Unreachable: no answer (x7)",
        "Node       win-3: not read",
    ):
        assert line in told.out, line
    found = run("status", "host", "win-3", "--kubeconfig", config, "-o", "json").json
    assert (found["host"]["reason"], found["settings"]["current"]) == ("Pending", False)
    missing = run("status", "host", "win-9", "--kubeconfig", config)
    assert (missing.code, missing.out) == (1, "")
    assert "no WindowsInstance win-9 in namespace transom-system; there are win-1, win-2, win-3, win-4" in missing.err
    assert run("status", "hosts", "--kubeconfig", config).code == 2


def of_many(count: int) -> list[ObjectStatus]:
    waits = "the settings have changed, and the host waits for its turn"
    settings = ObjectStatus(
        "EgressProxy", None, "cluster", "False", "HostsFailed", "see win-7", hosts={"total": count, "failed": 5}
    )
    failed = [one("win-7", "Unreachable", "no connection to port 22"), one("win-9", "Unreachable", "no answer")]
    same = [one(f"win-{number}", "HostKeyChanged", "another host key") for number in range(10, 50)]
    waiting = [one(f"win-{number}", "Pending", waits) for number in range(50, 500)]
    return [settings, *failed, *same, *waiting, *(one(f"win-{number}", "Ready", "") for number in range(500, count))]


def one(name: str, reason: str, message: str) -> ObjectStatus:
    return build_host_row(instance(name, ("True" if reason == "Ready" else "False", reason, message)))


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_thousand_hosts_are_on_one_screen(columns: int) -> None:
    told = [line.text for line in iter_object_lines(group_objects(of_many(1000)), NOW, columns, "12:00:00 ")]
    # at 60 columns what there is to do takes more lines
    assert len(told) <= (24 if columns >= 80 else 31)
    assert [line for line in told if cell_len(line) > columns or line != line.rstrip()] == []
    words = " ".join(" ".join(told).split())
    assert "500 WindowsInstances True Ready win-500, win-501" in words
    assert "450 WindowsInstances False Pending" in words
    # who has a fault is there by name, however many
    assert [number for number in (7, 9, *range(10, 50)) if f"win-{number}" not in words] == []
    assert sum("more" in line for line in told) == 2


def test_in_a_pipe_a_line_is_as_long_as_it_is() -> None:
    told = [line.text for line in iter_object_lines(group_objects(of_many(1000)), NOW)]
    assert len(told) == 8
    assert sum(line.startswith("    next: ") for line in told) == 2
    assert all(f"win-{number}" in "".join(told) for number in range(7, 1000) if number != 8)


def test_names_are_sorted_as_people_count() -> None:
    names = ["win-10", "win-2", "a1b10", "a1b9", "win"]
    assert sorted(names, key=get_natural_key) == ["a1b9", "a1b10", "win", "win-2", "win-10"]


def test_what_changes_is_told_at_once_also_into_a_pipe(cluster: Cluster, config: str, tmp_path: Path) -> None:
    # tests that run in the background of a shell ignore Ctrl-C, and so would what they start
    command = ["env", "--default-signal=INT", sys.executable, "-m", "transom", "status", "--watch", "--kubeconfig", config]
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        out = process.stdout
        first = [out.readline() for _ in range(8)]
        cluster.change(INSTANCES, "MODIFIED", versioned(instance("win-1", ("False", "Pending", "not yet its turn"))))
        cluster.change(INSTANCES, "DELETED", versioned(HOSTS[1]))
        then = [out.readline()]
        while "gone" not in then[-1]:
            then.append(out.readline())
        process.send_signal(signal.SIGINT)
        assert out.read() == ""
    assert process.returncode == 130
    assert "WindowsInstance/win-1" in first[7]
    assert re.fullmatch(r"\d\d:\d\d:\d\d WindowsInstance/win-1  False  Pending +not yet its turn; win-1.example\n", then[0])
    assert then[-1].endswith(" WindowsInstance/win-2: gone\n")
    # each kind is listed once, by whoever follows it
    lists = [url for url in cluster.asked if url.startswith(INSTANCES)]
    assert len(lists) == 1


def test_on_a_terminal_the_table_is_drawn_anew(cluster: Cluster, config: str, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    command = ["env", "--default-signal=INT", sys.executable, "-m", "transom", "status", "--watch", "--kubeconfig", config]
    environment = terminal.environment | {"COLUMNS": "80", "LINES": "40"}
    with subprocess.Popen(command, stdout=terminal.far, stderr=terminal.far, env=environment) as process:
        os.close(terminal.far)
        first = drawn(terminal, "Ctrl-C ends")
        cluster.change(INSTANCES, "MODIFIED", versioned(instance("win-1", ("False", "Pending", "it waits since the edit"))))
        then = drawn(terminal, "it waits since the edit")
        process.send_signal(signal.SIGTERM)
    os.close(terminal.near)
    assert process.returncode == 143
    assert "WindowsInstance/win-1" in first
    assert "\x1b[" in then
    widths = [cell_len(line) for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", first).replace("\r", "").splitlines()]
    assert max(widths) <= 80


def drawn(terminal: Terminal, until: str) -> str:
    """All that is written up to these words; nothing more comes where the command has ended."""
    found = ""
    while until not in found:
        found += os.read(terminal.near, 65536).decode(errors="replace")
    return found


def test_all_sections_are_readable_at_80_columns() -> None:
    names = [f"org-{number}" for number in range(9)]
    status = Overview(
        "https://api.example",
        tuple(of_many(30)),
        RolloutStatus(1000, 450, 545, 5, "win-7 has no egress with the new settings, and nothing else is begun until it has"),
        tuple(ClusterStatus(name, "prod", "Provisioned", ("cluster", "eu")) for name in names),
        (Expiry("EgressProxy/cluster", "2026-12-01T00:00:00Z", 8), Expiry("EgressProxy/eu", "2026-11-01T00:00:00Z", -22)),
        tuple(
            OutdatedWorkload("shop", "Deployment", f"web-{name}", 5, 3, f"kubectl rollout restart deployment/web-{name}")
            for name in names
        ),
        WebhookState(
            True, "NotCalled", "https://10.0.0.7:9443, which the registration names: it does not answer; pods start without"
        ),
        Leader("transom-0_ab12", "2026-11-23T11:59:57Z", True),
        {"transom": DeploymentState("registry.example/transom:0.1.0", 2, 2)},
        "0.1.0",
        unread=(ReadFailure("leases in transom-system", 'leases is forbidden: User "tim" cannot list resource "leases"'),),
    )
    told = [line.text for line in iter_status_lines(status, NOW, 80)]
    assert [line for line in told if cell_len(line) > 80] == []
    words = " ".join(" ".join(told).split())
    assert "OPERATOR transom-0_ab12 leads, renewed 3s ago; this program is of version 0.1.0 transom: 2 of 2 pods" in words
    assert "ROLLOUT [#########...........] 450 of 1,000 hosts have the settings, 545 waiting, 5 failed halted: win-7" in words
    assert "ends in 8 days (2026-12-01T00:00:00Z) CA EgressProxy/eu: the first certificate of its bundle has ended" in words
    assert "CLUSTERS Provisioned, settings of cluster, eu: org-0/prod," in words
    assert "org-4/prod and 4 more" in words
    assert "OLD PODS and 4 more owners: transom pods outdated" in words
    assert "NOT READ leases in transom-system: leases is forbidden" in words


def versioned(value: dict[str, Any]) -> dict[str, Any]:
    return value | {"metadata": value["metadata"] | {"resourceVersion": "2"}}


def test_a_cluster_without_transom(cluster: Cluster, config: str) -> None:
    cluster.lists = {}
    cluster.texts["/api/v1/namespaces/elsewhere"] = json.dumps({"metadata": {"name": "elsewhere"}})
    for more in ((), ("--watch",)):
        told = run("status", "--kubeconfig", config, "-n", "elsewhere", *more)
        assert (told.code, told.out) == (1, "")
        assert "Transom's CRDs do not exist" in told.err
    wrong = run("status", "--watch", "-o", "json")
    assert (wrong.code, "--watch is for text" in wrong.err) == (2, True)


def test_a_directory_that_is_not_there_is_no_directory_without_hosts(tmp_path: Path) -> None:
    ran = run("status", "-f", str(tmp_path / "nowhere"))
    assert (ran.code, ran.out) == (2, "")
    assert "nowhere" in ran.err and "cannot be read: No such file or directory" in ran.err
    assert "the manifests have 1 error" in ran.err


def test_of_a_directory_what_was_last_known_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (lab := tmp_path / "lab").mkdir()
    instance = {
        "apiVersion": "transom.dev/v1alpha1",
        "kind": "WindowsInstance",
        "metadata": {"name": "win-1"},
        "spec": {"address": "127.0.0.1", "port": 1, "username": "u"},
    }
    files = write(lab, egress_proxy({"httpProxy": "http://u:hunter2@p.x:1", "noProxy": "*"}), instance, KEY)
    before = run("status", "-f", files)
    assert before.code == 0, before.err
    assert "WindowsInstance/win-1  Unknown  NotSeen  no command has worked on it from here" in squeezed(before.out)
    assert run("diff", "-f", files, "--connect-timeout", "1s").code == 3
    after = run("status", "-f", files)
    assert "WindowsInstance/win-1 False Failed" in " ".join(after.out.split())
    assert f"then transom apply -f {files} --limit win-1" in " ".join(after.out.split())
    told = run("status", "host", "win-1", "-f", files)
    assert "State      failed: Failed" in told.out
    assert "HTTP_PROXY http://***@p.x:1" in told.out
    assert "hunter2" not in before.out + after.out + told.out
    kept = [file.read_text() for file in (tmp_path / "state" / "transom" / "last").iterdir()]
    assert len(kept) == 1
    assert "hunter2" not in kept[0]


def test_after_a_rollback_the_manifests_are_not_what_hosts_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    instance = {
        "apiVersion": "transom.dev/v1alpha1",
        "kind": "WindowsInstance",
        "metadata": {"name": "win-1"},
        "spec": {"address": "192.0.2.1", "username": "u"},
    }
    (lab := tmp_path / "lab").mkdir()
    files = write(lab, egress_proxy({"httpProxy": "http://p.x:1"}), instance, KEY)
    objects, examined = load_and_examine(Source(filename=(files,)))
    (target,) = list_targets(objects, examined.settings, ssh_config=True)
    report = msgspec.structs.replace(build_host_report(target, PassResult()), result="changed")
    HostRecords(tmp_path / "state" / "transom").record_result(target, report, "rollback")
    rows = json.loads(run("status", "-f", files, "-o", "json").out)["objects"]
    (host,) = (row for row in rows if row["kind"] == "WindowsInstance")
    assert (host["ready"], host["reason"]) == ("False", "RolledBack")
    assert f"transom apply -f {files}" in host["next"]


@pytest.mark.parametrize("command", [("apply", "--remove"), ("diff", "--remove"), ("facts", "win-1")])
def test_hosts_without_valid_settings_can_be_read_and_restored(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    instance = {
        "apiVersion": "transom.dev/v1alpha1",
        "kind": "WindowsInstance",
        "metadata": {"name": "win-1"},
        "spec": {"address": "127.0.0.1", "port": 1, "username": "u"},
    }
    (lab := tmp_path / "lab").mkdir()
    files = write(lab, egress_proxy({"httpProxy": "ftp://p.x"}), instance, KEY)
    assert run("diff", "-f", files).code == 2
    ran = run(*command, "-f", files, "--connect-timeout", "1s")
    # the settings are reported, and the host is not reached
    assert ran.code in (1, 3), ran.err
    assert "httpProxy" in ran.err
    assert "no connection to port 1" in ran.out + ran.err


def squeezed(text: str) -> str:
    return re.sub(" {2,}", "  ", text)
