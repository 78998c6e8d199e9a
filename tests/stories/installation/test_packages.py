"""Transom installed, upgraded and taken off by Helm, with kustomize and from a file of values, as docs/install.md prints it.

The kubeconfig's namespace is `default`. What the Deployments describe runs here, with the tokens of its ServiceAccounts.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml
from lab.control_plane import ControlPlane
from tests.support.command import run as command
from tests.support.operator.clusters import Cluster, admin
from tests.support.operator.packages import DEFINITIONS, OWN, Installed
from tests.support.pages import run_by
from tests.support.repository import ROOT
from tests.support.workers.hosts import everything_of

from transom.manifests.definitions import build_crds
from transom.windows.host.queries import LEDGER
from winsim import Simulator

pytestmark = pytest.mark.lab
HERE = "tests/stories/installation/test_packages.py"


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """With the controllers that collect what has lost its owner, and empty a namespace; without Transom's definitions."""
    found = control_plane.read_revision()
    control_plane.start_controller_manager()
    try:
        control_plane.forget(build_crds())
        yield control_plane
    finally:
        control_plane.kill("kube-controller-manager")
        control_plane.restore(found)
        control_plane.define(build_crds())


@pytest.fixture
async def installed(plane: ControlPlane, simulator: Simulator, tmp_path: Path) -> AsyncIterator[Installed]:
    async with admin(plane) as client:
        made = Installed(plane, Cluster(plane, client, simulator), tmp_path)
        yield made
        await made.remove()


def printed(test: str) -> list[str]:
    return ["\n".join(block.lines) for block in run_by(f"{HERE}::{test}")]


async def test_by_helm(installed: Installed) -> None:
    install, upgrade, uninstall = printed("test_by_helm")
    first, _, _ = uninstall.partition("\n")
    await installed.run(install)
    async with installed.running():
        host = await installed.configured()
        before = everything_of(host)
        await installed.run(upgrade)
        assert (await installed.deployment("transom"))["spec"]["replicas"] == 3
        image = (await installed.deployment("transom"))["spec"]["template"]["spec"]["containers"][0]["image"]
        assert image.startswith("registry.example/transom:")
        await installed.works(host)
        await installed.until_pods_start(injected=True)
        # what Helm takes away is no word about hosts
        await installed.run(first)
        await installed.until_pods_start(injected=False)
    assert everything_of(host) == before
    assert await installed.left() == {f"customresourcedefinitions/{definition}" for definition in DEFINITIONS}
    assert "win-1" in await installed.kubectl("get", "windowsinstances", "-n", OWN)

    # and goes on with what there is
    await installed.run(install.replace(" --create-namespace", "").replace("label ", "label --overwrite "))
    async with installed.operator():
        await installed.works(host)
        assert everything_of(host) == before
        page = (ROOT / "docs" / "uninstall.md").read_text("utf-8").partition("### Restore the hosts")[2]
        given_back = page.partition("```\n")[2].splitlines()[:3]
        assert given_back[-1] == "kubectl delete egressproxies --all"
        await installed.run("\n".join(given_back))
        assert host.registry.find_key(LEDGER) is None
        await installed.run(uninstall)
    assert await installed.left() == set()


async def test_the_test_of_the_chart_may_read_all_that_it_checks(installed: Installed) -> None:
    """What its Pod runs, with the rights of its ServiceAccount, on an installation that works."""
    install, *_ = printed("test_by_helm")
    await installed.run(install)
    async with installed.running():
        await installed.configured()
        template = "helm template transom charts/transom -n transom-system --set image.registry=registry.example"
        rendered = await installed.run(f"{template} -s templates/tests/check.yaml")
        objects = {item["kind"]: item for item in yaml.safe_load_all(rendered) if item}
        pod = objects.pop("Pod")
        await asyncio.to_thread(installed.plane.apply, list(objects.values()))
        try:
            account = pod["spec"]["serviceAccountName"]
            token = await asyncio.to_thread(installed.plane.create_service_account_token, OWN, account)
            kubeconfig = installed.plane.write_kubeconfig(account, token)
            (container,) = pod["spec"]["containers"]
            words = (*container["args"], "--kubeconfig", str(kubeconfig), "-o", "json")
            report = (await asyncio.to_thread(command, *words)).json
            verdicts = {check["id"]: check["verdict"] for check in report["checks"]}
            # without a kubelet, pods are never available
            assert {id_ for id_, verdict in verdicts.items() if verdict != "pass"} <= {"operator", "admission-server"}
            assert "unknown" not in verdicts.values()
        finally:
            await asyncio.to_thread(installed.plane.delete, list(objects.values()))
    await installed.run("helm uninstall transom --namespace transom-system")


async def test_from_manifests_to_helm(installed: Installed) -> None:
    """Helm refuses what it did not make, and takes it over if told so; hosts stay as they are."""
    (take,) = printed("test_from_manifests_to_helm")
    await installed.run("transom manifests --image registry.example/transom:0.1.0 | kubectl apply -f -")
    async with installed.running():
        host = await installed.configured()
        before = everything_of(host)
        refused = take.replace(" --take-ownership", "")
        assert "cannot be imported" in await installed.run(f"! {refused} 2>&1")
        await installed.run(take)
        owner = (await installed.deployment("transom"))["metadata"]["annotations"]["meta.helm.sh/release-name"]
        assert owner == "transom"
        await installed.works(host)
        assert everything_of(host) == before
    await installed.run("helm uninstall transom --namespace transom-system")


async def test_with_kustomize(installed: Installed) -> None:
    """The objects are those of the manifests (tests/manifests/test_chart.py): who works by them is seen below."""
    (install,) = printed("test_with_kustomize")
    *_, apply = install.splitlines()
    await installed.run(install)
    await installed.established()
    assert (await installed.deployment("transom"))["spec"]["replicas"] == 2
    await installed.run(deletion(apply))
    await installed.until_gone()


async def test_from_a_file_of_values(installed: Installed) -> None:
    """Deleted while the operator works: no host changes, and pods start, although they are refused while nobody answers."""
    (install,) = printed("test_from_a_file_of_values")
    *_, apply = install.splitlines()
    await installed.run(install)
    async with installed.running():
        host = await installed.configured()
        await installed.until_pods_start(injected=True)
        registered = json.loads(await installed.kubectl("get", "mutatingwebhookconfiguration", "transom", "-o", "json"))
        assert {webhook["failurePolicy"] for webhook in registered["webhooks"]} == {"Fail"}
        before = everything_of(host)
        await installed.run(deletion(apply))
        await installed.until_pods_start(injected=False)
    # nor is there anybody to be asked
    await installed.until_pods_start(injected=False)
    assert everything_of(host) == before
    await installed.remove()
    assert await installed.left() == set()


def deletion(apply: str) -> str:
    """The line that deletes what a line applies: nobody gives hosts back, so that nothing is waited for."""
    return apply.replace("kubectl apply", "kubectl delete --ignore-not-found --wait=false")
