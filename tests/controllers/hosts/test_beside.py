"""A person's `transom apply` beside the operator."""

import msgspec
import pytest
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.waiting import until

from transom.apply.host_pass import HostPass
from transom.apply.report import HostReport
from transom.apply.target import Target
from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.proxy.finding import Place
from transom.proxy.objects import Meta
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.nodes.windows_instance import WindowsInstance, WindowsInstanceSpec
from winsim import Host

pytestmark = pytest.mark.lab


async def test_a_person_is_told_who_has_the_host(cluster: Cluster) -> None:
    """While the operator restarts services there, the person's command changes nothing; afterwards there is nothing to do."""
    host = await cluster.simulator.add_host(time_scale=0.2)
    host.services.get("containerd").stop_seconds = 15
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, networks={"internalAPIHost": "api.corp.example"})
    await cluster.instance("win-1", host)
    async with cluster.operator() as operator:
        await until(lambda: f"HTTPS_PROXY={PROXY}" in environment(host, "containerd"))
        egress = operator.settings.own
        assert egress is not None
        refused = await apply(cluster, host, msgspec.structs.replace(egress, https_proxy=Secret("http://by-hand:3128")))
        assert refused.result == "failed"
        assert "locked by transom-operator@" in (refused.error or "")
        await cluster.until("win-1", ProxyApplied="True/Applied")
        again = await apply(cluster, host, egress)
        assert (again.result, again.restarted) == ("unchanged", ())
    assert len(host.starts("containerd")) == 2
    assert f"HTTPS_PROXY={PROXY}" in environment(host, "containerd")


async def apply(cluster: Cluster, host: Host, egress: Egress) -> HostReport:
    key = Secret(cluster.simulator.client_key.export_private_key().decode())
    spec = WindowsInstanceSpec(host.address, host.port, host.username)
    instance = WindowsInstance(Meta("win-1", cluster.namespace), Place("", "WindowsInstance/win-1"), spec)
    host_pass = HostPass(NoHostKeys(), PassSettings(Owner("alice@laptop", "pid 41")))
    return await host_pass.run_and_report(Target(instance, egress, key))
