"""`transom check`: before an install and after it, on a real API server."""

import asyncio
import http.server
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.control_plane import ControlPlane
from tests.cli.servers import HTTPServer
from tests.cli.terminals import Terminal
from tests.support.command import Ran, run
from tests.support.operator.installation import Installation
from tests.support.pages import on_cluster, run_by
from tests.support.waiting import until

from transom.kube.resources import WINDOWS_INSTANCES

pytestmark = pytest.mark.lab
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(autouse=True)
def at_this_server(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    monkeypatch.delenv("TRANSOM_IMAGE", raising=False)
    found = control_plane.read_revision()
    yield
    control_plane.restore(found)


@pytest.fixture
async def installed(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Installation]:
    monkeypatch.setenv("TRANSOM_IMAGE", "registry.example/transom:0.1.0")
    made = Installation(control_plane)
    await made.install()
    yield made
    await made.remove()


async def check(*arguments: str) -> tuple[Ran, dict[str, str]]:
    """The command, and its verdicts by id."""
    told = await asyncio.to_thread(run, "check", *arguments, "-o", "json")
    return told, {item["id"]: item["verdict"] for item in told.json["checks"]} if told.out else {}


def bound_elsewhere(namespace: str) -> dict[str, Any]:
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "transom"}
    subject = {"kind": "ServiceAccount", "name": "transom", "namespace": namespace}
    meta = {"name": "transom"}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": role,
        "subjects": [subject],
    }


async def test_a_cluster_that_transom_can_be_installed_in(control_plane: ControlPlane) -> None:
    told, verdicts = await check("--pre")
    assert told.code == 0, told.out
    assert {id_: verdict for id_, verdict in verdicts.items() if verdict != "pass"} == {"image": "warn"}
    assert set(verdicts) >= {"kubernetes", "rights", "definitions", "other-transom", "other-operators", "windows-nodes"}
    seen = {item["id"]: item["seen"] for item in told.json["checks"]}
    assert "v1.36.3" in seen["kubernetes"]
    assert "of this version" in seen["definitions"]
    text = await asyncio.to_thread(run, "check", "--pre")
    assert text.out.count("ok ") == len(verdicts) - 1
    assert "✔" not in text.out


async def test_what_stands_in_the_way_is_named(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    peer = {"name": "windows-machine-config-operator", "namespace": "default"}
    node = {"name": "win-1", "labels": {"kubernetes.io/os": "windows"}}
    objects = [
        bound_elsewhere("other"),
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": peer, "spec": spec},
        {"apiVersion": "v1", "kind": "Node", "metadata": node},
    ]
    await asyncio.to_thread(control_plane.apply, objects)
    told, verdicts = await check("--pre")
    assert told.code == 1
    assert (verdicts["other-transom"], verdicts["other-operators"]) == ("fail", "warn")
    rows = {item["id"]: item for item in told.json["checks"]}
    assert "-n other" in rows["other-transom"]["do"]
    assert "transom adopt --from wmco" in rows["other-operators"]["do"]
    assert "win-1" in rows["windows-nodes"]["seen"]
    # in that namespace it is the one
    assert (await check("--pre", "--transom-namespace", "default"))[1]["other-transom"] == "fail"


async def test_a_person_without_rights_and_one_who_may_read(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]},
        {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["*"]},
    ]
    monkeypatch.setenv("KUBECONFIG", await _person(control_plane, "reader", rules))
    told, verdicts = await check("--pre")
    assert (told.code, verdicts["rights"], verdicts["definitions"]) == (1, "fail", "pass")
    # who may create all of it has to hold the rights of the roles, too
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "create", "patch"]}]
    monkeypatch.setenv("KUBECONFIG", await _person(control_plane, "maker", everything))
    told, verdicts = await check("--pre")
    assert (told.code, verdicts["rights"]) == (1, "fail")
    assert "ClusterRole transom" in next(item["seen"] for item in told.json["checks"] if item["id"] == "rights")
    monkeypatch.setenv("KUBECONFIG", await _person(control_plane, "nobody", []))
    told, verdicts = await check("--pre")
    assert (told.code, verdicts["definitions"], verdicts["other-transom"]) == (1, "unknown", "unknown")
    told, verdicts = await check()
    assert (told.code, set(verdicts.values())) == (3, {"unknown"})


async def _person(control_plane: ControlPlane, name: str, rules: list[dict[str, Any]]) -> str:
    """The kubeconfig of somebody with these rights everywhere."""
    meta, role = {"name": name}, {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    account = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    objects = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}},
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": role,
            "subjects": [account],
        },
    ]
    await asyncio.to_thread(control_plane.apply, objects)
    token = await asyncio.to_thread(control_plane.create_service_account_token, "default", name)
    return str(control_plane.write_kubeconfig(name, token))


async def test_an_installation_is_complete_once_all_of_it_works(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/check.md has it."""
    (block,) = run_by("tests/cli/test_check.py::test_an_installation_is_complete_once_all_of_it_works")
    before, install, after = block.lines
    assert "can be installed" in await on_cluster(tmp_path, control_plane, before)
    await on_cluster(tmp_path, control_plane, install)
    monkeypatch.setenv("TRANSOM_IMAGE", "registry.example/transom:0.1.0")
    installed = Installation(control_plane)
    await installed.install()
    told, verdicts = await check()
    assert told.code == 1
    failed = {id_ for id_, verdict in verdicts.items() if verdict == "fail"}
    assert failed == {"operator", "admission-server", "lease", "admission"}
    plane = installed.control_plane

    async def leads() -> bool:
        leases = await installed.get(f"/apis/coordination.k8s.io/v1/namespaces/{installed.namespace}/leases")
        return any(item["spec"].get("holderIdentity") for item in leases["items"])

    async with installed.program():
        await until(leads)
        for name in ("transom", "transom-webhook"):
            status = {"availableReplicas": 2, "updatedReplicas": 2, "replicas": 2, "readyReplicas": 2, "observedGeneration": 1}
            path = f"/apis/apps/v1/namespaces/{installed.namespace}/deployments/{name}/status"
            await asyncio.to_thread(
                plane.request, "PATCH", path, {"status": status}, content_type="application/merge-patch+json"
            )
        told, verdicts = await check()
        assert {id_ for id_, verdict in verdicts.items() if verdict != "pass"} == {"admission"}, told.out
        # as the admission server registers itself, where there are no settings yet
        await installed.apply(await registration(installed))
        assert "complete" in await on_cluster(tmp_path, control_plane, after)
    # somebody applied the manifests for another namespace: the rights of this one are gone
    await installed.apply(bound_elsewhere("other"))
    told, verdicts = await check()
    assert (verdicts["binding"], verdicts["account"]) == ("fail", "fail")
    assert "may not" in next(item["seen"] for item in told.json["checks"] if item["id"] == "account")
    await installed.remove()


async def registration(installed: Installation) -> dict[str, Any]:
    role = await installed.get(f"/apis/{RBAC}/v1/clusterroles/transom-webhook")
    owner = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "name": "transom-webhook", "uid": role["metadata"]["uid"]}
    meta = {"name": "transom", "ownerReferences": [owner]}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": meta}


async def test_definitions_of_another_version(installed: Installation) -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{WINDOWS_INSTANCES.plural}.transom.dev"
    live = await installed.get(path)
    schema = live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    removed = schema.pop("lastHandledReconcile")
    schema["ofTomorrow"] = {"type": "string"}
    plane = installed.control_plane
    await asyncio.to_thread(plane.request, "PUT", path, live)
    told, verdicts = await check()
    seen = next(item["seen"] for item in told.json["checks"] if item["id"] == "definitions")
    assert verdicts["definitions"] == "fail"
    assert "lacks WindowsInstance status.lastHandledReconcile" in seen
    assert "does not know WindowsInstance status.ofTomorrow" in seen
    # before an install it is what the install updates
    assert (await check("--pre"))[1]["definitions"] == "pass"
    live = await installed.get(path)
    schema = live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    del schema["ofTomorrow"]
    schema["lastHandledReconcile"] = removed
    await asyncio.to_thread(plane.request, "PUT", path, live)


@pytest.fixture
def registry() -> Iterator[tuple[str, dict[str, int]]]:
    """A registry's place, and what it answers by path."""
    answers: dict[str, int] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(answers.get(self.path, 404))
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True).start()
        yield f"127.0.0.1:{running.server_address[1]}", answers
        running.shutdown()


async def test_the_image_is_asked_for_at_its_registry(registry: tuple[str, dict[str, int]]) -> None:
    place, answers = registry
    digest = "sha256:" + "a" * 64
    answers |= {"/v2/team/transom/manifests/0.1.0": 200, f"/v2/transom/manifests/{digest}": 200, "/v2/mine/manifests/1": 401}
    for image, verdict in (
        (f"{place}/team/transom:0.1.0", "pass"),
        (f"{place}/transom@{digest}", "pass"),
        (f"{place}/mine:1", "warn"),
        (f"{place}/team/transom:0.2.0", "fail"),
        ("127.0.0.1:1/transom:0.1.0", "warn"),
    ):
        told, verdicts = await check("--pre", "--image", image)
        assert (image, verdicts["image"]) == (image, verdict), told.out
    assert (await check("--pre", "--image", "transom:0.1.0"))[0].code == 2


async def test_a_server_that_does_not_answer_is_exit_code_3(
    monkeypatch: pytest.MonkeyPatch, control_plane: ControlPlane
) -> None:
    config = control_plane.write_kubeconfig("gone", "token")
    config.write_text(config.read_text("utf-8").replace(control_plane.url, "https://127.0.0.1:1"), "utf-8")
    monkeypatch.setenv("KUBECONFIG", str(config))
    assert (await check("--pre"))[0].code == 3
    assert (await check())[0].code == 3


@pytest.mark.parametrize(("encoding", "sign"), [("C.UTF-8", "✔ kubernetes"), ("C", "ok   kubernetes")])
async def test_signs_where_the_terminal_shows_them(
    control_plane: ControlPlane, tmp_path: Path, encoding: str, sign: str
) -> None:
    terminal = Terminal(tmp_path)
    environment = {"KUBECONFIG": str(control_plane.kubeconfig), "LC_ALL": encoding, "PYTHONIOENCODING": ""}
    environment |= {} if encoding == "C.UTF-8" else {"PYTHONIOENCODING": "ascii"}
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).parent / "transom"), "check", "--pre"),
        stdout=terminal.far,
        stderr=terminal.far,
        env=terminal.environment | environment,
    )
    shown = asyncio.create_task(asyncio.to_thread(terminal.read))
    await process.wait()
    assert sign in await shown
