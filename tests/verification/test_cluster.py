"""`transom verify cluster` on a real API server without kubelets: what it makes, asks and leaves."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.control_plane import ControlPlane
from tests.support.command import run
from tests.support.operator.clusters import admin
from tests.support.pages import run_by
from tests.support.repository import DOCS
from tests.support.waiting import until
from tests.verification.verifying import QUICK, going_on, left, namespaces_end, nodes, ours, playing, wanted

from transom.cli.verification_record import parse_record, update_results_page
from transom.common.check_results import CheckResult
from transom.kube.client import Client, Listing
from transom.kube.connection import connect
from transom.kube.errors import StatusError
from transom.kube.resources import NAMESPACES, PODS
from transom.manifests.roles import VERIFY_CLUSTER, build_verify_cluster_role
from transom.verification.checks import CLAIMS
from transom.verification.cluster_verification import create_namespace_name, delete_old_namespaces, verify_cluster
from transom.verification.objects import LABEL, SEEN, Node, build_namespace, iter_objects

pytestmark = pytest.mark.lab
TABLE = parse_record((DOCS / "verified-cluster.yaml").read_bytes())
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """The administrator's; what tests make is in namespaces of verifications, and on nodes of theirs."""
    async with admin(control_plane) as made:
        yield made


@contextlib.asynccontextmanager
async def person(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """One who may do what docs/security.md says, and nothing else."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": VERIFY_CLUSTER, "namespace": "default"}}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": VERIFY_CLUSTER},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": VERIFY_CLUSTER},
        "subjects": [{"kind": "ServiceAccount", "name": VERIFY_CLUSTER, "namespace": "default"}],
    }
    await asyncio.to_thread(control_plane.apply, [account, build_verify_cluster_role(), binding])
    token = await asyncio.to_thread(control_plane.create_service_account_token, "default", VERIFY_CLUSTER)
    connection = connect(str(control_plane.write_kubeconfig(VERIFY_CLUSTER, token)))
    try:
        yield Client(connection)
    finally:
        await connection.close()
        for kind in ("clusterroles", "clusterrolebindings"):
            control_plane.request("DELETE", f"/apis/{RBAC}/v1/{kind}/{VERIFY_CLUSTER}")
        control_plane.request("DELETE", f"/api/v1/namespaces/default/serviceaccounts/{VERIFY_CLUSTER}")


async def test_each_check_on_an_api_server_alone_is_as_the_table_says(control_plane: ControlPlane, client: Client) -> None:
    told: list[CheckResult] = []
    async with nodes(client), person(control_plane) as who, playing(client):
        found = await verify_cluster(who, wanted(), told.append, QUICK)
        assert await left(client) == []
    assert {item.id: item.verdict for item in found} == TABLE["API server"].checks
    assert [item.id for item in found] == [claim.id for claim in CLAIMS]
    assert told == list(found)
    assert not [item.seen for item in found if "forbidden" in item.seen or "HTTP 403" in item.seen]


async def test_a_reboot_is_asked_of_the_kubelet_with_the_same_rights(control_plane: ControlPlane, client: Client) -> None:
    """The API server takes the privileged pod; nobody is there who could run anything in it."""
    said: list[str] = []
    async with nodes(client), person(control_plane) as who, playing(client):
        found = await verify_cluster(who, wanted(reboot="verify-win-2"), timeouts=QUICK, print_progress=said.append)
        assert await left(client) == []
    verdicts = {item.id: item for item in found}
    assert (verdicts["accepted"].verdict, verdicts["reboot"].verdict) == ("pass", "fail")
    assert "verify-win-2 was not rebooted: " in verdicts["reboot"].seen
    assert not [item.seen for item in found if "forbidden" in item.seen or "HTTP 403" in item.seen]


class Interrupted(Client):
    """Its task is called off when a request is on its way, by number."""

    def __init__(self, client: Client, at: int) -> None:
        super().__init__(client.connection)
        self.count, self._at = 0, at
        self.task: asyncio.Task[Any] | None = None

    async def request(self, method: str, path: str, *arguments: Any, **options: Any) -> bytes:
        self.count += 1
        if self.count == self._at and self.task is not None:
            self.task.cancel()
        return await super().request(method, path, *arguments, **options)


async def test_interrupted_at_each_step_it_leaves_nothing(client: Client) -> None:
    async with nodes(client), playing(client):
        at, done = 0, BaseException()
        while isinstance(done, BaseException):
            at += 1
            asking = Interrupted(client, at)
            asking.task = asyncio.create_task(verify_cluster(asking, wanted(), timeouts=QUICK))
            (done,) = await asyncio.gather(asking.task, return_exceptions=True)
            assert await left(client) == [], at
            assert isinstance(done, asyncio.CancelledError | tuple)
        # each object, pods that are waited for, questions, the clearing up
        assert at > 14


class Working(Client):
    """Between two looks at the namespaces somebody gives a sign of life."""

    async def list_objects(self, *arguments: Any, **options: Any) -> Listing[Any]:
        found = await super().list_objects(*arguments, **options)
        if options.get("labels") == f"{LABEL}=cluster":
            for item in found.items:
                if item.metadata.name.endswith("0000"):
                    sign = {"metadata": {"annotations": {SEEN: f"{(item.metadata.annotations or {})[SEEN]}1"}}}
                    await self.patch(NAMESPACES, sign, item.metadata.name)
        return found


async def test_what_a_killed_one_left_goes_and_what_works_stays(client: Client) -> None:
    dead, alive = create_namespace_name(), f"{create_namespace_name()[:-4]}0000"
    for name in (dead, alive):
        await client.create(
            NAMESPACES, build_namespace(wanted()) | {"metadata": build_namespace(wanted())["metadata"] | {"name": name}}
        )
    async with going_on(lambda: namespaces_end(client)):
        assert await delete_old_namespaces(Working(client.connection), QUICK) == [dead]
        assert await ours(client) == [alive]
        assert await delete_old_namespaces(client, QUICK, include_running=True) == [alive]
        assert await left(client) == []


@pytest.mark.parametrize("level", ["restricted", "baseline"])
async def test_pod_security_takes_the_pods(client: Client, level: str) -> None:
    name = f"pod-security-{level}"
    labels = {"pod-security.kubernetes.io/enforce": level}
    made = [Node("win-1", "windows", True), Node("linux-1", "linux", True)]
    await client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    try:
        values = list(iter_objects(wanted(), tuple(made), name))
        assert [value["kind"] for value in values] == ["Service", "Service", "Pod", "Pod", "Pod"]
        for value in values:
            await dry(client, value, name)
        # Pod Security is there
        with pytest.raises(StatusError, match="violates PodSecurity"):
            await dry(client, values[-1] | {"spec": values[-1]["spec"] | {"hostNetwork": True}}, name)
    finally:
        await client.delete(NAMESPACES, name)


async def dry(client: Client, value: Mapping[str, Any], place: str) -> None:
    path = f"/api/v1/namespaces/{place}/{value['kind'].lower()}s"
    await client.request("POST", path, {"dryRun": "All"}, value)


def command(control_plane: ControlPlane, *more: str) -> Sequence[str]:
    return ("verify", "cluster", "--kubeconfig", str(control_plane.kubeconfig), *more)


async def test_a_dry_run_as_json_and_junit(control_plane: ControlPlane, client: Client, tmp_path: Path) -> None:
    report = tmp_path / "cluster.xml"
    async with nodes(client):
        ran = await asyncio.to_thread(run, *command(control_plane, "--dry-run", "-o", "json", "--junit", str(report)))
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["server"] == control_plane.url
    first, *others = ran.json["checks"]
    assert (first["id"], first["verdict"], first["seen"]) == ("accepted", "pass", "8 objects")
    assert {other["verdict"] for other in others} == {"not applicable"}
    suite = ElementTree.fromstring(report.read_text())
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (str(len(CLAIMS)), "0", str(len(CLAIMS) - 1))
    assert suite.find("testcase").get("classname") == "transom.cluster"  # type: ignore[union-attr]
    assert await left(client) == []


def test_a_cluster_that_does_not_answer(tmp_path: Path, control_plane: ControlPlane) -> None:
    path = control_plane.write_kubeconfig("nowhere", "x", server="https://127.0.0.1:1")
    ran = run("verify", "cluster", "--kubeconfig", str(path))
    assert (ran.code, ran.out) == (3, "")
    assert "https://127.0.0.1:1" in ran.err


async def test_what_the_page_prints(control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = control_plane.kubeconfig.read_text()
    config = yaml.safe_load(text)
    config["contexts"][0]["name"] = config["current-context"] = "prod"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    lines = [line for block in run_by("tests/verification/test_cluster.py::test_what_the_page_prints") for line in block.lines]
    assert len(lines) == 3
    for line in lines:
        words = line.split()[1:]
        ran = await asyncio.to_thread(run, *words, *([] if "--clean" in words else ["--dry-run"]))
        assert (ran.code, ran.err) == (0, ""), line


async def test_ctrl_c(control_plane: ControlPlane, client: Client) -> None:
    # tests that run in the background of a shell ignore Ctrl-C, and so would what they start
    program = ["env", "--default-signal=INT", str(Path(sys.executable).with_name("transom"))]
    environment = {"PATH": os.defpath, "HOME": "/nonexistent"}
    async with nodes(client), going_on(lambda: namespaces_end(client)):
        process = subprocess.Popen(
            [*program, *command(control_plane)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            accepted = await asyncio.to_thread(process.stdout.readline)
            # no kubelet starts the pods
            process.send_signal(signal.SIGINT)
            # a while: kubelets would have 90 s to end their pods
            await _pods_are_ended(client, process)
            out, err = await asyncio.to_thread(process.communicate)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 130
        assert err.startswith(f"transom: {control_plane.url}: ")
        # whoever waits knows where it is done, and that it is being taken away
        assert err.count("all is made in namespace") == err.count("takes namespace") == 1
        *checks, last = (accepted + out).splitlines()
        assert [line.split()[:2] for line in checks] == [["pass", "accepted"], ["pass", "clean"]]
        assert last.startswith("stopped by Ctrl-C: 2 checks") and "at most 135 s" in err
        assert await left(client) == []


async def _pods_are_ended(client: Client, process: "subprocess.Popen[str]") -> None:
    """What kubelets do with pods that are to end."""

    async def end() -> None:
        for name in await ours(client):
            for pod in (await client.list_objects(PODS, name)).items:
                path = PODS.build_path(name, pod.metadata.name)
                await client.request("DELETE", path, None, {"gracePeriodSeconds": 0})

    async with going_on(end):
        await until(lambda: process.poll() is not None)


@pytest.mark.parametrize(
    "words",
    [
        ["--reboot", "a b"],
        ["--image", "-x"],
        ["--egress-url", "http://a.example"],
        ["--label", "a b=c"],
        ["--dry-run", "--clean"],
    ],
)
def test_wrong_words(words: list[str]) -> None:
    assert run("verify", "cluster", *words).code == 2


def test_the_table_names_each_check_and_nothing_else() -> None:
    for bench, item in TABLE.items():
        assert list(item.checks) == [claim.id for claim in CLAIMS], bench
        assert set(item.checks.values()) <= {"pass", "fail", "not applicable"}


def test_what_no_bench_answers_is_written_down_with_its_source_and_a_check() -> None:
    heading = "## What the test environments cannot verify about a cluster"
    section = (DOCS / "verified.md").read_text("utf-8").partition(heading)[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")]
    passed = {id for item in TABLE.values() for id, verdict in item.checks.items() if verdict == "pass"}
    # these pass where a test marks the pods Ready
    played = {"image-pull", "web"}
    assert [row[0].strip("`") for row in rows] == [claim.id for claim in CLAIMS if claim.id not in passed - played]
    assert [row for row in rows if not all(row[:4]) or len(row) != 5] == []


def test_the_page_has_what_was_seen() -> None:
    text = (DOCS / "verify-cluster.md").read_text("utf-8")
    assert text == update_results_page(text, TABLE, CLAIMS), "scripts/reference writes it anew"
