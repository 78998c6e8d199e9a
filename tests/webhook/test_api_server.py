"""Every pod of the table through a real API server: asked about or spared, patched by the server itself, read back."""

import asyncio
import contextlib
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.pods.strategies import pods
from tests.pods.table import CASES, KUBERNETES_IP, OWN, SETTINGS, Case, decoded, egress, own_namespace, wanted
from tests.support.command import Ran
from tests.support.waiting import until
from tests.webhook.clusters import PODS, PROBED, Admission, plain_pod

from transom.kube.errors import NotFound
from transom.kube.resources import SERVICES
from transom.pods.environment import PodEgress, build_pod_egress
from transom.pods.patch import SETTINGS_HASH, build_patch
from transom.webhook.webhook import Webhook

pytestmark = pytest.mark.lab


def parts(pod: dict[str, Any]) -> dict[str, Any]:
    """What a patch can touch, without what the server fills in."""
    containers = [item for field in ("initContainers", "containers") for item in pod["spec"].get(field, ())]
    return {
        "env": {container["name"]: [_plain(item) for item in container.get("env", ())] for container in containers},
        "mounts": {container["name"]: [_mount(item) for item in container.get("volumeMounts", ())] for container in containers},
        "volumes": {
            volume["name"]: volume["configMap"]["name"] if "configMap" in volume else None
            for volume in pod["spec"].get("volumes", ())
        },
        "hash": pod["metadata"].get("annotations", {}).get(SETTINGS_HASH),
    }


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if value != ""}


def _mount(item: dict[str, Any]) -> tuple[str, str, bool]:
    return item["name"], item["mountPath"], item.get("readOnly", False)


def reviews(webhook: Webhook) -> float:
    """How many were answered so far."""
    found = webhook.metrics.registry.get_sample_value("transom_webhook_requests_total", {"code": "200"})
    assert found is not None
    return found


def is_asked(case: Case) -> bool:
    """Whether the API server has a reason to ask: what gets nothing does not wait for the answer."""
    return case.proxy == "given" or case.with_ca or case.warning is not None


async def current(admission: Admission, webhook: Webhook, name: str) -> PodEgress:
    """The settings of that name, when the API server hears them."""
    await until(lambda: webhook.ready)
    made = build_pod_egress(egress(name), OWN, KUBERNETES_IP, await admission.hash_key())
    await until(lambda: webhook.egress == made)
    await until(lambda: webhook.keeper.registered)
    await until(lambda: admission.probe(made))
    return made


async def test_every_pod_of_the_table(admission: Admission) -> None:
    await admission.has_secret(*{case.namespace for case in CASES}, PROBED)
    async with admission.replica() as webhook:
        for name in SETTINGS:
            await admission.settings(name)
            made = await current(admission, webhook, name)
            for case in (case for case in CASES if case.settings == name and not case.offline):
                await _one(admission, webhook, case, made)
    annotations = [item.get("annotations", {}) for item in admission.control_plane.read_audit() if _creates(item, "own-upper")]
    assert annotations[-1]["pods.transom.dev/proxy"] == "nothing to do: app keeps its HTTP_PROXY"
    assert "hunter2" not in json.dumps(annotations)


def _creates(entry: dict[str, Any], name: str) -> bool:
    reference = entry.get("objectRef", {})
    return entry["verb"] == "create" and reference.get("resource") == "pods" and reference.get("name") == name


async def _one(admission: Admission, webhook: Webhook, case: Case, made: PodEgress) -> None:
    namespace = own_namespace(case)
    before = reviews(webhook)
    code, answered, warnings = await admission.post(case.pod, namespace)
    assert code == 201, (case.name, answered)
    assert (reviews(webhook) > before) == is_asked(case), case.name
    found = (await admission.client.get(PODS, case.name, namespace)).value
    assert parts(found) == parts(wanted(case, case.pod, made)), case.name
    ours = [warning for warning in warnings if "transom: " in warning]
    assert bool(ours) == (case.warning is not None), (case.name, warnings)
    assert all(case.warning in our.replace('\\"', '"') for our in ours if case.warning)
    assert "hunter2" not in json.dumps(found)
    assert build_patch(decoded(found), namespace, case.labels, made).operations == (), case.name


@pytest.mark.parametrize("name", ["plain", "credentials"])
async def test_whatever_is_drawn_is_a_valid_pod_afterwards(admission: Admission, name: str) -> None:
    await admission.settings(name)
    await admission.has_secret(PROBED)
    async with admission.replica() as webhook:
        made = await current(admission, webhook, name)

        @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(pods())
        def drawn(pod: dict[str, Any]) -> None:
            path = f"/api/v1/namespaces/{PROBED}/pods?dryRun=All"
            answered = json.loads(admission.control_plane.request("POST", path, pod))
            assert build_patch(decoded(answered), PROBED, {"team": "a"}, made).operations == ()
            again = {key: value for key, value in answered.items() if key in ("apiVersion", "kind", "spec")}
            again["metadata"] = {
                key: answered["metadata"][key] for key in ("name", "labels", "annotations") if key in answered["metadata"]
            }
            assert parts(json.loads(admission.control_plane.request("POST", path, again))) == parts(answered)

        await asyncio.to_thread(drawn)


async def test_pods_of_a_deployment(admission: Admission) -> None:
    await admission.settings("plain")
    kubectl = admission.control_plane.run_kubectl
    async with admission.replica() as webhook:
        made = await current(admission, webhook, "plain")
        template = {"metadata": {"labels": {"app": "web"}}, "spec": plain_pod("x")["spec"]}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": PROBED},
            "spec": spec,
        }
        await asyncio.to_thread(admission.control_plane.apply, [deployment])
        found: list[dict[str, Any]] = []

        async def both() -> bool:
            listed = await asyncio.to_thread(kubectl, "get", "pods", "-n", PROBED, "-l", "app=web", "-o", "json")
            found[:] = json.loads(listed)["items"]
            return len(found) == 2

        await until(both)
        for pod in found:
            names = [item["name"] for item in pod["spec"]["containers"][0]["env"]]
            assert names == ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"]
            assert pod["metadata"]["annotations"][SETTINGS_HASH] == made.digest
        held = json.loads(await asyncio.to_thread(kubectl, "get", "deployment", "-n", PROBED, "web", "-o", "json"))
        assert "env" not in held["spec"]["template"]["spec"]["containers"][0]
        await asyncio.to_thread(kubectl, "delete", "deployment", "-n", PROBED, "web", "--cascade=foreground")


def beside(*arguments: str) -> Ran:
    """`transom ARGUMENTS` in a process of its own: in this one the admission server logs."""
    done = subprocess.run([sys.executable, "-m", "transom", *arguments], capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


async def test_a_pod_that_runs_is_explained(admission: Admission, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(admission.control_plane.kubeconfig))
    await admission.settings("plain")
    await admission.post(plain_pod("before"), PROBED)
    async with admission.replica() as webhook:
        await current(admission, webhook, "plain")
        await admission.post(plain_pod("after"), PROBED)
        for name, reason, outdated in (
            ("before", "given to app", True),
            ("after", "nothing to do: the containers have it", False),
        ):
            done = await asyncio.to_thread(beside, "pods", "explain", name, "-n", PROBED, "-o", "json")
            assert done.code == 0, done.err
            (told,) = done.json
            assert (told["object"], told["outdated"]) == (f"Pod/{PROBED}/{name}", outdated)
            assert told["proxy"] == {"given": True, "reason": reason}
        done = await asyncio.to_thread(beside, "pods", "explain", "before", "-n", PROBED)
        assert "  it is older than the settings: it gets them when it is replaced\n" in done.out
        done = await asyncio.to_thread(beside, "pods", "explain", "nobody", "-n", PROBED)
        assert (done.code, done.out) == (1, "")
        assert 'pods "nobody" not found' in done.err


async def test_the_services_of_a_pods_namespace(admission: Admission, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(admission.control_plane.kubeconfig))
    port = {"ports": [{"port": 80}]}
    specs = {"web": port, "headless": {**port, "clusterIP": "None"}, "app": port}
    specs["outside"] = {"type": "ExternalName", "externalName": "api.example.com"}
    for name, spec in specs.items():
        value = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        await admission.client.create(SERVICES, value, PROBED)
    try:
        await admission.settings("services")
        async with admission.replica() as webhook:
            await until(lambda: webhook.ready and webhook.egress is not None and webhook.egress.service_names)
            await until(lambda: webhook.keeper.registered)

            async def create(name: str) -> list[str]:
                await admission.post(plain_pod(name), PROBED)
                pod = (await admission.client.get(PODS, name, PROBED)).value
                env = {item["name"]: item["value"] for item in pod["spec"]["containers"][0].get("env", ())}
                items = env.get("NO_PROXY", "").split(",")
                await admission.remove(name, PROBED)
                return items[-5:]

            wanted = ["headless", "web", "app.team-a", "headless.team-a", "web.team-a"]

            async def is_added() -> bool:
                return await create("probe") == wanted

            await until(is_added)
            _, _, warnings = await admission.post(plain_pod("kept"), PROBED)
            assert [warning for warning in warnings if "NO_PROXY has no app" in warning]
            await admission.client.delete(SERVICES, "headless", PROBED)
            # the pod has the list of its creation, and is not older than the settings
            done = await asyncio.to_thread(beside, "pods", "explain", "kept", "-n", PROBED, "-o", "json")
            assert done.code == 0, done.err
            (told,) = done.json
            assert (told["outdated"], told["patch"]) == (False, [])
    finally:
        for name in specs:
            with contextlib.suppress(NotFound):
                await admission.client.delete(SERVICES, name, PROBED)


async def test_ephemeral_containers(admission: Admission) -> None:
    await admission.settings("plain")
    async with admission.replica() as webhook:
        await admission.post(plain_pod("older"), "kubernetes-like")
        await current(admission, webhook, "plain")
        await admission.post(plain_pod("newer"), PROBED)
        for name, namespace, added in (("older", "kubernetes-like", 1), ("newer", PROBED, 1), ("newer", PROBED, 2)):
            containers = [{"name": f"d{number}", "image": "x"} for number in range(added)]
            body = {"spec": {"ephemeralContainers": containers}}
            path = PODS.build_path(namespace, name, "ephemeralcontainers")
            await admission.client.request("PATCH", path, None, body, content_type="application/strategic-merge-patch+json")
            found = (await admission.client.get(PODS, name, namespace)).value
            assert len(found["spec"]["ephemeralContainers"]) == added
            for ephemeral_container in found["spec"]["ephemeralContainers"]:
                assert [item["name"] for item in ephemeral_container["env"]][:2] == ["HTTP_PROXY", "http_proxy"]
            assert ("env" in found["spec"]["containers"][0]) == (name == "newer")


async def test_a_pod_that_the_settings_would_make_too_large_is_created_without_them(admission: Admission) -> None:
    def pod(name: str, containers: int, argument: int = 1) -> dict[str, Any]:
        image = {"image": "registry.example/none", "args": ["x" * argument]}
        listed = [{"name": f"c{number}", **image} for number in range(containers)]
        return {"metadata": {"name": name}, "spec": {"containers": listed}}

    async with admission.replica(failure_policy="Fail") as webhook:
        await admission.settings("plain")
        await current(admission, webhook, "plain")
        code, answered, warnings = await admission.post(pod("many", 500), "plain")
        assert code == 201
        assert all(container["env"] for container in answered["spec"]["containers"])
        code, answered, warnings = await admission.post(pod("too-many", 900, 1_000), "plain")
        assert code == 201, answered
        assert not any("env" in container for container in answered["spec"]["containers"])
        assert "no settings for this pod: it would be larger than the API server takes" in " ".join(warnings)
