"""Defects of the Windows Machine Config Operator, by the numbers of docs/peer-defects.md: those that no other test shows."""

import ast
import re
import struct
from datetime import UTC, datetime
from pathlib import Path

from tests.support.operator.bundles import ROOT_1, ROOT_2
from tests.support.operator.clusters import PROXY, Cluster
from tests.support.operator.kubelets import PODS, Kubelets
from tests.support.repository import DOCS, ROOT
from tests.support.waiting import until
from tests.support.workers.payloads import opened

from transom.controllers.rollout.drain import Drain
from transom.controllers.runtime.controller import Leadership
from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.passes.configure import WorkerSpec, configure_worker
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Access
from transom.kube.events import EventRecorder, Regarding
from transom.kube.resources import EGRESS_PROXIES
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import parse_bundle
from transom.windows.firstboot import SCRIPT
from transom.windows.host.queries import ENVIRONMENT, SERVICES
from transom.windows.parts.service import Configuration
from transom.windows.payload.registries import ImageRegistry, Mirror
from transom.windows.payload.worker import Facts
from transom.windows.planning.planner import build_desired_settings
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_expand_sz
from winsim import Simulator

PAGE = DOCS / "peer-defects.md"


def test_each_defect_has_a_test_or_a_reason() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if re.match(r"\| [^| ]+ \| \S", line)]
    numbers = [int(row[0]) for row in rows if row[0].strip().isdigit()]
    assert numbers == list(range(1, 18))
    for number, _, instead, test in rows:
        if not test.strip():
            assert "Does not apply:" in instead, number
            continue
        file, _, name = test.strip().strip("`").partition("::")
        found = {node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if hasattr(node, "name")}
        assert name.rpartition("::")[2] in found, number


async def test_3_an_image_with_a_proxy_of_its_own_and_no_node(cluster: Cluster) -> None:
    theirs = build_expand_sz("http://image.example:1")
    host = await cluster.simulator.add_host(edits=[SetValue(ENVIRONMENT, "Http_Proxy", theirs)])
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, windows={"environmentScope": "Both"})
    await cluster.instance("win-1", host)
    async with cluster.operator(controllers=("egress", "hosts")):
        await cluster.until("win-1", ProxyApplied="True/Applied", NodeReady="Unknown/NoNode")
        value = host.registry.find_value(ENVIRONMENT, "HTTP_PROXY")
        assert value is not None
        assert value.decode_text() == PROXY
        await cluster.delete(EGRESS_PROXIES, "cluster")
        await until(lambda: host.registry.find_value(ENVIRONMENT, "HTTP_PROXY") == theirs)
        assert host.registry.find_value(ENVIRONMENT, "HTTPS_PROXY") is None


def test_4_a_bundle_with_much_text_is_read_whole() -> None:
    text = "# what the certificate authority says of itself\n" * 3000
    bundle = parse_bundle(f"{ROOT_1}{text}{'x' * 200_000}\n{ROOT_2}")
    assert len(bundle.certificates) == 2
    assert not bundle.problems


def test_7_a_service_that_fails_is_restarted_after_seconds() -> None:
    """SERVICE_FAILURE_ACTIONS as the registry has it: the delay is in milliseconds (Microsoft: "SC_ACTION")."""
    data = Configuration("kubelet", r"C:\k\kubelet.exe", restart_seconds=10).to_values()["FailureActions"].data
    reset, _, _, count, _ = struct.unpack_from("<5I", data)
    actions = [struct.unpack_from("<2I", data, 20 + 8 * number) for number in range(count)]
    assert reset == 86400
    assert actions == [(1, 10_000)] * 3


async def test_8_a_drained_pod_has_its_time(cluster: Cluster) -> None:
    kubelets, name = Kubelets(cluster), f"node-{cluster.namespace}"
    host = await cluster.simulator.add_host(name)
    await kubelets.join(host)
    await kubelets.pod("web-0", host.name.lower())
    recorder = EventRecorder(cluster.client, instance="test")
    leadership = Leadership(cluster.client, recorder, lambda: 60.0, Owner("transom-tests", "pytest"))
    node = host.name.lower()
    uid = (await kubelets.node(node))["metadata"]["uid"]
    drain = Drain(node, uid, "upgrade", leadership, Regarding("v1", "Node", node), lambda: datetime.now(UTC), 60)
    assert "web-0" in str(await drain.run_step())
    held = (await cluster.client.get(PODS, "web-0", cluster.namespace)).value
    assert held["metadata"]["deletionGracePeriodSeconds"] == held["spec"]["terminationGracePeriodSeconds"] == 30
    path = PODS.build_path(cluster.namespace, "web-0")
    await cluster.client.request("DELETE", path, {"gracePeriodSeconds": "0"})
    assert (await drain.run_step()).done


def test_9_the_password_is_a_random_one() -> None:
    (made,) = [line.strip() for line in SCRIPT.splitlines() if "ConvertTo-SecureString" in line]
    assert made == "$password = ConvertTo-SecureString -String $random -AsPlainText -Force"
    assert "[Security.Cryptography.RandomNumberGenerator]::Create().GetBytes($bytes)" in SCRIPT
    assert "$random = 'aA1!' + [Convert]::ToBase64String($bytes)" in SCRIPT
    assert "PasswordAuthentication no" in SCRIPT


async def test_14_mirrors_are_written_where_they_differ(tmp_path: Path) -> None:
    payload, settings = opened(tmp_path / "payload"), PassSettings(Owner("transom-tests", "pytest"))
    place = r"C:\k\containerd\certs.d"
    async with Simulator() as simulator:
        host = await simulator.add_host(services={})
        key = Secret(simulator.client_key.export_private_key().decode())
        access = Access(host.address, host.port, host.username, (key,), simulator.format_host_key(host))

        async def configured(*registries: ImageRegistry) -> int:
            facts = Facts(
                node_name="win-1", registries=registries, provided={"bootstrap-kubeconfig": None, "kubelet-ca": Secret("x")}
            )
            found = await configure_worker(access, NoHostKeys(), settings, WorkerSpec(payload, facts, Egress()))
            assert found.error is None
            return found.sent

        quay, gcr = ImageRegistry("quay.io", (Mirror("a.example/quay"),)), ImageRegistry("gcr.io", (Mirror("a.example/gcr"),))
        await configured(quay, gcr)
        node = host.files.get_file(rf"{place}\quay.io\hosts.toml")
        assert await configured(quay, gcr) == 0
        starts = len(host.starts("containerd"))
        sent = await configured(quay, ImageRegistry("gcr.io", (Mirror("b.example/gcr"),)))
        assert sent == len(host.files.read(rf"{place}\gcr.io\hosts.toml"))
        assert host.files.get_file(rf"{place}\quay.io\hosts.toml") is node
        assert len(host.starts("containerd")) == starts


def test_the_machine_shows_no_credentials() -> None:
    proxy = Secret("http://alice:hunter2@proxy.corp.example:3128")
    wanted = build_desired_settings(Egress(proxy, proxy, ".svc"))
    assert wanted.registry.find_key(ENVIRONMENT) is None
    assert wanted.registry.find_value(rf"{SERVICES}\containerd", "Environment") is not None
