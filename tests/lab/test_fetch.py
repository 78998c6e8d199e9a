"""A host proves with a fetch of its own that it has egress: through squid, with TLS decrypted, and with a password."""

import urllib.parse

import pytest
from lab.egress import Egress as Proxy
from lab.machine import Machine
from tests.support.waiting import until

from transom.apply.host_pass import HostPass
from transom.apply.target import Target
from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.proxy.finding import Place
from transom.proxy.objects import Meta, WindowsSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import parse_bundle
from transom.windows.nodes.fetch import FetchResult, build_fetch_result
from transom.windows.nodes.windows_instance import WindowsInstance, WindowsInstanceSpec

pytestmark = pytest.mark.lab


async def applied(machine: Machine, proxy: str, endpoint: str, bundle: str = "") -> FetchResult:
    """What the host says of the way out once it has these settings."""
    spec = WindowsInstanceSpec(machine.place.address, machine.place.port, machine.ssh.user, host_key=machine.ssh.host_key)
    instance = WindowsInstance(metadata=Meta("win"), place=Place("test", "WindowsInstance/win"), spec=spec)
    url = Secret(proxy)
    egress = Egress(
        url,
        url,
        "localhost",
        trust=parse_bundle(bundle).certificates,
        windows=WindowsSettings(services=("recorder-a",)),
        readiness_endpoints=(endpoint,),
    )
    target = Target(instance, egress, Secret(machine.ssh.key.read_text()))
    found = await HostPass(NoHostKeys(), PassSettings(Owner("test@lab", "pid 1"))).run(target)
    assert found.error is None
    assert found.begun
    return build_fetch_result(egress, found.fetched)


async def test_the_host_says_which_hop_fails(machine: Machine, closed_egress: Proxy) -> None:
    registry = closed_egress.format_image("none").partition("/")[0]
    endpoint, url = f"https://{registry}/v2/", closed_egress.url_with_credentials
    wrong = url.replace(urllib.parse.quote("hunter2"), "hunter2-no", 1)
    steps = [
        (closed_egress.url.replace(str(closed_egress.port), "1"), endpoint, "", "ProxyUnreachable"),
        (wrong, endpoint, "", "ProxyAuthentication"),
        (url, endpoint, "", "TLSFailed"),
        (url, endpoint, closed_egress.certificate, "Fetched"),
    ]
    for proxy, item, bundle, reason in steps:
        found = await applied(machine, proxy, item, bundle)
        assert found.reason == reason, found
        assert "hunter2" not in found.message
    # squid writes a line once the answer has been sent
    await until(lambda: closed_egress.list_requests()[-1].user == "alice")
