"""The operator, as it is started by people, with a real API server and the host that Wine is."""

import asyncio

import pytest
from lab.machine import Machine
from tests.operator.bundles import ROOT_1, ROOT_2, SHA1_1, SHA1_2
from tests.operator.clusters import PROXY, Cluster
from tests.operator.programs import Program

from transom.kube.resources import SECRETS

pytestmark = pytest.mark.lab
STORE = r"HKLM\SOFTWARE\Microsoft\SystemCertificates\ROOT\Certificates"
SERVICE = "recorder-a"


async def test_the_program_keeps_a_wine_host_right(cluster: Cluster) -> None:
    with Machine() as machine:
        await asyncio.to_thread(machine.boot)
        await cluster.put(SECRETS, "wine", stringData={"private-key.pem": machine.ssh.key.read_text()})
        await cluster.bundle(ROOT_1)
        spec = {"httpProxy": PROXY, "httpsProxy": PROXY, "windows": {"services": [SERVICE]}}
        await cluster.proxy(**spec, trustedCA={"name": "corp-ca"})
        place = {"address": machine.place.address, "port": machine.place.port, "username": machine.ssh.user}
        await cluster.instance("wine", None, **place, keySecret={"name": "wine"}, hostKey=machine.ssh.host_key)
        async with Program(cluster) as program:
            await cluster.until("wine", 60, ProxyApplied="True/Applied", TrustApplied="True/Applied")
            assert machine.starts(SERVICE)[-1].variable("HTTPS_PROXY") == PROXY
            assert (await cluster.status("wine"))["osVersion"].startswith("10.0.")
            await cluster.bundle(ROOT_2)
            await seen(lambda: SHA1_2 in machine.export(STORE) and SHA1_1 not in machine.export(STORE))
            await cluster.proxy(windows={"services": [SERVICE]})
            await cluster.until("wine", 60, ProxyApplied="True/NotConfigured", TrustApplied="True/NotConfigured")
            assert machine.starts(SERVICE)[-1].variable("HTTPS_PROXY") is None
            assert machine.export(r"HKLM\SOFTWARE\Transom") == ""
            assert (await program.get("/readyz"))[0] == 200
            assert "transom_hosts" in (await program.get("/metrics"))[1]
            assert await program.terminate() == 0
    log = program.log()
    assert '"key": "' in log
    assert "hunter2" not in log


async def seen(condition: object) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(condition):  # type: ignore[arg-type]
            await asyncio.sleep(0.2)
