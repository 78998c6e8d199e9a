"""From objects in a real API server to hosts behind real SSH servers, and back into their status."""

import pytest
from tests.operator.clusters import PROXY, Cluster, environment
from tests.operator.bundles import ISSUING, ROOT_1, ROOT_2

pytestmark = pytest.mark.lab


async def test_converges_a_host_and_says_so(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.bundle(ROOT_1)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, noProxy="example.com", trustedCA={"name": "corp-ca"})
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until("win-1", ProxyApplied="True/Applied", TrustApplied="True/Applied", Configured="True")
    print(await cluster.status("win-1"))
    print(await cluster.events("win-1"))
    print(cluster.control_plane.kubectl("get", "windowsinstances", "-n", cluster.namespace))
    assert f"HTTPS_PROXY={PROXY}" in environment(host, "containerd")
