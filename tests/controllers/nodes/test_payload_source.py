"""A payload whose files lie behind URLs: the operator fetches them through the proxy of the settings."""

import hashlib
from pathlib import Path

import pytest
from lab.egress import Egress
from lab.mirror import Mirror
from lab.network import Network
from tests.support.operator.clusters import PASSWORD, Cluster
from tests.support.operator.nodes import QUICK, bare, node_of, published, registered
from tests.support.waiting import until
from tests.support.workers.payloads import TEXT, write
from tests.support.workers.publishers import HOSTS
from tests.support.workers.publishers import published as of_publishers

from lab import images
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.payloads.shipped_payloads import build_kubeadm_payload
from transom.sources.payload import parse_payload

pytestmark = pytest.mark.lab
NETWORKS = {"serviceNetwork": ["10.96.0.0/16"], "podNetwork": ["10.244.0.0/16"]}


async def test_files_of_urls_are_fetched_through_the_proxy(cluster: Cluster, tmp_path: Path) -> None:
    """Credentials that squid does not take, then the right ones: said, and gone on with where a transfer was cut.

    A file of another hash is never used, and told once.
    """
    host, joined = await bare(cluster, "win"), await bare(cluster, "old")
    await published(cluster)
    place, content = images.build_layer()
    sha256 = hashlib.sha256(content).hexdigest()
    part = tmp_path / "cache" / "downloads" / f"{sha256}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(content[:50])
    with Network(isolated=False) as network, Egress(network, "alice", PASSWORD) as egress:
        url = f"https://{egress.format_image('1').partition('/')[0]}/{place}"
        more = rf"- {{path: 'C:\k\layer', url: '{url}', sha256: {sha256}}}"
        path = write(tmp_path / "payload", TEXT.replace("services:\n- name", f"{more}\nservices:\n- name"))
        await cluster.bundle(egress.certificate)
        settings = {"trustedCA": {"name": "corp-ca"}, "networks": NETWORKS}
        await cluster.proxy(httpProxy=egress.url, httpsProxy=egress.url, **settings)
        await cluster.instance("win-1", host, lifecycle="Node")
        await cluster.instance("old-1", joined, lifecycle="Node", nodeName=node_of(joined))
        await registered(cluster, joined)
        async with cluster.operator(payload=path, payload_cache=tmp_path / "cache", pace=QUICK):
            await cluster.until("win-1", Configured="False/PayloadIncomplete")
            said = {condition["type"]: condition["message"] for condition in (await cluster.status("win-1"))["conditions"]}
            assert url in said["Configured"]
            assert host.traffic.connections == 0
            # a node is not kept from its proxy and its CAs
            await cluster.until("old-1", Configured="False/PayloadIncomplete", TrustApplied="True")
            url = egress.url_with_credentials
            await cluster.proxy(httpProxy=url, httpsProxy=url, **settings)
            await cluster.until("win-1", Configured="False/Waiting")
            assert host.files.read(r"C:\k\layer") == content
            connections = host.traffic.connections
        wrong = write(
            tmp_path / "wrong", (path / "payload.yaml").read_text().replace(f"sha256: {sha256}", f"sha256: {'0' * 64}")
        )
        async with cluster.operator(payload=wrong, payload_cache=tmp_path / "cache", pace=QUICK):
            for name in ("win-1", "old-1"):
                await cluster.until(name, Configured="False/PayloadInvalid")
            said = {condition["type"]: condition["message"] for condition in (await cluster.status("win-1"))["conditions"]}
            assert f"its SHA-256 is {sha256}, and not the one in payload.yaml" in said["Configured"]
        for name in ("win-1", "old-1"):
            told = [message for _, reason, message in await cluster.events(name) if reason == "PayloadInvalid"]
            assert len(told) == 1
        assert host.traffic.connections == connections
        asked = [(request.status, request.user) for request in egress.list_requests() if place in request.url]
        assert asked == [("TCP_MISS/206", "alice"), ("TCP_MISS/200", "alice")], egress.list_requests()
        assert not (path / "downloads").exists()
        assert {file.name for file in part.parent.iterdir()} == {sha256}


async def test_a_shipped_payload_is_completed_through_the_proxy(cluster: Cluster, tmp_path: Path) -> None:
    """What `transom run --payload-kubeadm` writes: the files and the hashes of their publishers."""
    host = await bare(cluster, "win")
    await published(cluster)
    path = tmp_path / "kubeadm"
    path.mkdir()
    files = build_kubeadm_payload("none", "v1.36.3")
    for name, content in files.items():
        (path / name).write_bytes(content)
    with (
        Network(isolated=False) as network,
        Mirror(HOSTS) as mirror,
        Egress(network, "alice", PASSWORD, mirror=mirror) as egress,
    ):
        mirror.files |= of_publishers(parse_payload(files["payload.yaml"]), {})
        await cluster.bundle(egress.certificate)
        settings = {"trustedCA": {"name": "corp-ca"}, "networks": NETWORKS}
        await cluster.proxy(httpProxy=egress.url, httpsProxy=egress.url, **settings)
        await cluster.instance("win-1", host, lifecycle="Node")
        async with cluster.operator(payload=path, payload_builds=True, pace=QUICK):
            await cluster.until("win-1", Configured="False/PayloadIncomplete")
            url = egress.url_with_credentials
            await cluster.proxy(httpProxy=url, httpsProxy=url, **settings)
            await until((path / "payload.lock").exists)

            async def goes_on() -> bool:
                conditions = {
                    condition["type"]: condition["reason"] for condition in (await cluster.status("win-1"))["conditions"]
                }
                return conditions["Configured"] != "PayloadIncomplete"

            await until(goes_on)

        def users() -> set[str]:
            return {
                request.user
                for request in egress.list_requests()
                if "dl.k8s.io" in request.url and request.status.endswith("/200")
            }

        # squid writes a line once the answer has been sent
        await until(lambda: users() == {"alice"})
        kubelet = next(url for url in mirror.files if url.endswith("/kubelet.exe"))
        assert PayloadDirectory.open(path).artifacts[kubelet].sha256 == hashlib.sha256(mirror.files[kubelet]).hexdigest()
