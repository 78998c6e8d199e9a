"""What README and the pages print for a cluster, as it is printed: a real API server, `default` in the kubeconfig."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml
from tests.support import command as command_line
from tests.support.operator.bundles import ROOT_1, ROOT_2, SHA1_1, SHA1_2, roots
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.pages import on_cluster, run_by, tables
from tests.support.repository import DOCS
from tests.support.waiting import until

from lab import openshift
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import NAMESPACES, SECRETS, WINDOWS_INSTANCES, Resource

pytestmark = pytest.mark.lab
HERE = "tests/stories/test_pages_on_a_cluster.py"
PODS = Resource("", "v1", "Pod", "pods", True, UnstructuredObject)
DAEMON_SETS = Resource("apps", "v1", "DaemonSet", "daemonsets", True, UnstructuredObject)
ELSEWHERE = {
    "transom status --watch": "tests/cli/test_status.py: it does not end",
    "transom doctor": "tests/stories/test_doctor_on_a_cluster.py: where nobody leads it finds that",
    "transom verify host": "tests/hosts/passes/test_verification.py: 10.0.0.11 is a host of the reader's",
    "transom check": "tests/cli/test_check.py: nothing is installed here",
    "transom uninstall": "tests/stories/installation/test_uninstall.py",
    "transom apply -f DIR --objects": "tests/controllers/clusters/test_bootstrap.py: it needs Cluster API",
    "transom capi": "the blocks of docs/windows-workers.md",
}
"""Commands of the table that other tests run."""


async def run(cluster: Cluster, home: Path, lines: str) -> str:
    return await on_cluster(home, cluster.control_plane, lines, TRANSOM_NAMESPACE=cluster.namespace)


def lines_of(test: str) -> list[str]:
    found = ["\n".join(block.lines) for block in run_by(f"{HERE}::{test}")]
    assert found
    return found


async def made(cluster: Cluster, namespace: str, resource: Resource[UnstructuredObject], name: str, **fields: object) -> None:
    """An object of a namespace that the page speaks of."""
    for resource_, name_, fields_, where in ((NAMESPACES, namespace, {}, None), (resource, name, fields, namespace)):
        value = {"apiVersion": resource_.api_version, "kind": resource_.kind, "metadata": {"name": name_}} | fields_
        await cluster.client.apply(resource_, value, name_, where)


async def test_a_new_ca_and_a_rollout_that_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    wait, resume = lines_of("test_a_new_ca_and_a_rollout_that_goes_on")
    host = await cluster.simulator.add_host()
    await cluster.bundle(ROOT_1)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, trustedCA={"name": "corp-ca"})
    await cluster.instance("win-1", host)
    bundle = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "corp-ca", "namespace": cluster.namespace}}
    (tmp_path / "corp-ca.yaml").write_text(yaml.safe_dump(bundle | {"data": {"ca-bundle.crt": ROOT_2}}))
    async with cluster.operator():
        await cluster.wait_ready()
        assert SHA1_2 not in roots(host)
        await run(cluster, tmp_path, wait)
        assert SHA1_2 in roots(host)
        await run(cluster, tmp_path, resume)
        await cluster.wait_ready()


async def test_the_start_in_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """Bare instances: from an empty directory to a host with the settings. 10.0.0.11 is the reader's: here it is simulated."""
    written, looked = lines_of("test_the_start_in_a_cluster")
    (tmp_path / "id_ed25519").write_bytes(cluster.simulator.client_key.export_private_key())
    (tmp_path / "corp-ca.pem").write_text(ROOT_1)
    host = await cluster.simulator.add_host()
    said = await run(cluster, tmp_path, written)
    assert "spec.networks" in said
    place = {"address": host.address, "port": host.port, "username": host.username}
    await cluster.merge(WINDOWS_INSTANCES, "win-1", {"spec": place})
    async with cluster.operator():
        said = await run(cluster, tmp_path, looked)
    assert "WindowsInstance/win-1" in said
    assert "HTTPS_PROXY http://proxy.corp.example:3128" in said
    assert "HTTPS_PROXY=http://proxy.corp.example:3128" in environment(host, "containerd")
    assert SHA1_1 in roots(host)


async def test_openshifts_proxy_comes_and_goes(cluster: Cluster, tmp_path: Path) -> None:
    comes, goes = lines_of("test_openshifts_proxy_comes_and_goes")
    plane, kind = cluster.control_plane, {"apiVersion": "config.openshift.io/v1", "kind": "Proxy"}
    bundle = "/api/v1/namespaces/openshift-config/configmaps/corp-ca"
    (tmp_path / "corp-ca.pem").write_text(ROOT_1)
    host = await cluster.simulator.add_host()
    await asyncio.to_thread(openshift.define, plane, (openshift.PROXIES,))
    try:
        proxy = kind | {"metadata": {"name": "cluster"}, "spec": {}}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-config"}}
        await asyncio.to_thread(plane.apply, [space, proxy])
        await cluster.instance("win-1", host)
        async with cluster.operator(controllers=("egress", "hosts")):
            await run(cluster, tmp_path, comes)
            await until(lambda: SHA1_1 in roots(host) and f"HTTPS_PROXY={PROXY}" in environment(host, "containerd"))
            await run(cluster, tmp_path, goes)
            await until(lambda: SHA1_1 not in roots(host) and not environment(host, "containerd"))
    finally:
        await asyncio.to_thread(openshift.forget, plane, (openshift.PROXIES,))
        await asyncio.to_thread(plane.request, "DELETE", bundle)


async def test_pods_of_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    (lines,) = lines_of("test_pods_of_a_cluster")
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await made(cluster, "shop", PODS, "web-7d4", spec={"containers": [{"name": "web", "image": "registry.corp.example/web"}]})
    said = await run(cluster, tmp_path, lines)
    assert "Pod/shop/web-7d4" in said
    assert "web: gets HTTP_PROXY" in said


async def test_the_commands_of_an_administrator(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await made(cluster, "org-acme", SECRETS, "prod-systemd-proxy", stringData={"a": "b"})
    variables = [{"name": name, "value": PROXY} for name in ("HTTP_PROXY", "OWN", "no_proxy")]
    container = {"name": "kube-proxy", "image": "registry.corp.example/kube-proxy", "env": variables}
    template = {"metadata": {"labels": {"k8s-app": "kube-proxy"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"k8s-app": "kube-proxy"}}, "template": template}
    await made(cluster, "kube-system", DAEMON_SETS, "kube-proxy", spec=spec)
    await run(cluster, tmp_path, "kubectl config rename-context lab NAME")
    try:
        for lines in lines_of("test_the_commands_of_an_administrator"):
            await run(cluster, tmp_path, lines)
    finally:
        await run(cluster, tmp_path, "kubectl config rename-context NAME lab")
    assert "ssh" in (tmp_path / "user-data.txt").read_text()
    proxy = (await cluster.client.get(DAEMON_SETS, "kube-proxy", "kube-system")).value
    assert [item["name"] for item in proxy["spec"]["template"]["spec"]["containers"][0]["env"]] == ["OWN"]
    secret = (await cluster.client.get(SECRETS, "prod-systemd-proxy", "org-acme")).metadata
    assert secret.annotations["transom.dev/adopt"] == "true"


async def test_work_on_one_host(cluster: Cluster, tmp_path: Path) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    work, wait = lines_of("test_work_on_one_host")
    async with cluster.operator():
        await run(cluster, tmp_path, wait)
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "containerd")
        pause, resume = (line for line in work.splitlines() if line.startswith("transom"))
        await run(cluster, tmp_path, pause)
        await cluster.until("win-1", Configured="Unknown/Paused")
        assert "win-1: resumed, Ready" in await run(cluster, tmp_path, resume)


async def test_a_request_from_git(cluster: Cluster, tmp_path: Path) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    (lines,) = lines_of("test_a_request_from_git")
    async with cluster.operator():
        await cluster.wait_ready()
        connections = host.traffic.connections
        await run(cluster, tmp_path, lines.replace("transom-system", cluster.namespace))
        await until(lambda: host.traffic.connections == connections + 1)


async def bound(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, text: str, name: str) -> None:
    """Be somebody with the roles that a page prints, and no other right."""
    roles = list(yaml.safe_load_all(text.replace("transom-system", cluster.namespace)))
    account = {"kind": "ServiceAccount", "name": name, "namespace": cluster.namespace}
    objects = [
        *roles,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": cluster.namespace}},
    ]
    for role in roles:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]}
        made_of = {"apiVersion": role["apiVersion"], "kind": f"{role['kind']}Binding", "metadata": role["metadata"]}
        objects.append(made_of | {"roleRef": reference, "subjects": [account]})
    plane = cluster.control_plane
    await asyncio.to_thread(plane.apply, objects)
    token = await asyncio.to_thread(plane.create_service_account_token, cluster.namespace, name)
    monkeypatch.setenv("KUBECONFIG", str(plane.write_kubeconfig(name, token)))
    monkeypatch.setenv("TRANSOM_NAMESPACE", cluster.namespace)


async def test_what_an_operator_of_hosts_may_is_enough(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The roles that docs/security.md prints for the commands of hosts."""
    page = (DOCS / "security.md").read_text("utf-8").partition("### What a person needs")[2]
    (text,) = re.findall(r"```yaml\n(.*?)```", page.partition("\n## ")[0], re.DOTALL)
    await bound(cluster, monkeypatch, text, "host-operator")
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, windows={"restart": "Manual"})
    await cluster.instance("win-1", host)
    async with cluster.operator(controllers=("egress", "hosts")):
        await cluster.until("win-1", Configured="True", ProxyApplied="False/PendingRestart")
        for command in (
            "restart win-1 --wait",
            "pause win-1 --wait",
            "resume --all --wait",
            "reconcile win-1 --wait",
            "forget win-1 --host-key --wait",
            "resume --rollout",
            "status --wait",
            "adopt win-1",
        ):
            told = await asyncio.to_thread(command_line.run, *command.split())
            assert (command, told.code) == (command, 0), told.err
            assert "forbidden" not in told.err


async def test_the_table_of_a_cluster(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command of docs/how-to/daily-tasks.md that only reads, in this process: a program's start costs a second.

    And kubectl completes them.
    """
    monkeypatch.setenv("KUBECONFIG", str(cluster.control_plane.kubeconfig))
    monkeypatch.setenv("TRANSOM_NAMESPACE", cluster.namespace)
    monkeypatch.chdir(tmp_path)
    _, commands = tables(DOCS / "how-to" / "daily-tasks.md")
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    await made(cluster, "shop", PODS, "web-7d4", spec={"containers": [{"name": "web", "image": "registry.corp.example/web"}]})
    (tmp_path / "DIR").mkdir()
    manifest = {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"name": "cluster"}}
    (tmp_path / "DIR" / "egress.yaml").write_text(yaml.safe_dump(manifest | {"spec": {"httpProxy": PROXY}}))
    printed = [command.partition("  #")[0] for command in commands if not command.startswith(tuple(ELSEWHERE))]
    ran = {command: await asyncio.to_thread(command_line.run, *command.split()[1:]) for command in printed}
    assert [(command, item.err) for command, item in ran.items() if item.code] == []
    assert len(ran) >= 8
    assert "WindowsInstance/win-1" in ran["transom status"].out
    assert f"Kubernetes v1.36.3 at {cluster.control_plane.url}" in ran["transom version"].out
    completed = await run(cluster, tmp_path, "kubectl __complete transom diff --context la")
    assert completed.splitlines()[:2] == ["lab", ":0"]


async def test_what_a_reader_may_is_enough(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The roles that docs/questions.md prints, and no other right."""
    page = (DOCS / "questions.md").read_text("utf-8").partition("## Permissions")[2]
    (text,) = re.findall(r"```yaml\n(.*?)```", page.partition("\n## ")[0], re.DOTALL)
    await bound(cluster, monkeypatch, text, "reader")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    for command, code in (("validate", 0), ("status", 0), ("diff", 1), ("apply --context lab", 0)):
        told = await asyncio.to_thread(command_line.run, *command.split())
        assert (command, told.code) == (command, code), told.err
