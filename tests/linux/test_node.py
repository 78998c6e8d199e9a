"""What a Linux node makes of the drop-in: systemd reads it, and containerd pulls with what systemd gives it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lab.authority import Authority
from lab.containerd import Containerd
from lab.egress import Egress as Proxy
from lab.egress import Request
from lab.network import Network
from lab.ports import reserve
from lab.process import Process
from tests.support.management.manifests import ENCODED, RFC_LINE, USER, base, cluster, credentials, rendered
from tests.support.waiting import until

from lab import images, systemd
from transom.linux.drop_ins import EMPTY_DROP_IN, render_drop_in
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress

pytestmark = pytest.mark.lab
PASSWORD = 'hunter2%^&!"\\é x'
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
DEBIANS_UNIT = Path("/lib/systemd/system/containerd.service")


def test_the_rfcs_drop_in_passes_debians_systemd_beside_debians_unit() -> None:
    text = rendered(base(), credentials(), cluster())["Secret", "mycluster-systemd-proxy"]["containerdProxy"]
    url = f"http://{USER}:{ENCODED}@192.168.52.220:3128"
    assert systemd.verify("containerd.service", text, DEBIANS_UNIT.read_text()) == ""
    found = systemd.read_environment("containerd.service", text)
    wanted = dict(zip(NAMES, (url, url, RFC_LINE), strict=True))
    assert found == wanted | {name.lower(): value for name, value in wanted.items()}
    assert systemd.verify("kubelet.service", EMPTY_DROP_IN) == ""
    assert systemd.read_environment("kubelet.service", EMPTY_DROP_IN) == {}


def test_a_drop_in_that_is_wrong_is_noticed() -> None:
    assert "Invalid syntax" in systemd.verify("containerd.service", '[Service]\nEnvironment="A=b\n')
    assert systemd.read_environment("containerd.service", '[Service]\nEnvironment="A=50%%25"\n') == {"A": "50%25"}
    # what is not doubled is taken as a specifier
    assert systemd.read_environment("containerd.service", '[Service]\nEnvironment="A=%n"\n') == {"A": "containerd.service"}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1).map(lambda text: f"http://u:{text}@p.example")
)
def test_systemd_gives_a_service_exactly_the_value(value: str) -> None:
    text = render_drop_in(Egress(https_proxy=Secret(value))).reveal()
    assert systemd.read_environment("containerd.service", text) == {"HTTPS_PROXY": value, "https_proxy": value}


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network(isolated=True) as made:
        yield made


@pytest.fixture
def direct_registry(network: Network, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A registry on the network itself, which needs no proxy: its address, and the CA of its certificate."""
    port = reserve(network.address)
    authority = Authority(tmp_path, "direct CA")
    certificate, key = authority.issue("direct", "direct", addresses=(network.address,))
    file = tmp_path / "registry.yml"
    file.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/registry}}}}\n"
        f'http: {{addr: "{network.address}:{port}", tls: {{certificate: {certificate}, key: {key}}}}}\n'
    )
    process = Process(["docker-registry", "serve", file], tmp_path / "registry.log")
    try:
        _push(f"https://{network.address}:{port}", authority.certificate_file, process)
        yield f"{network.address}:{port}", authority.certificate_file.read_text()
    finally:
        process.stop()


def _push(url: str, authority: Path, process: Process) -> None:
    while True:
        try:
            images.push(url, authority)
        except OSError:
            assert not process.has_ended(), process.log.read_text()
        else:
            return


async def test_containerd_pulls_through_the_proxy_and_directly_what_no_proxy_exempts(
    network: Network, direct_registry: tuple[str, str]
) -> None:
    address, direct_authority = direct_registry
    place = network.add_place()
    with Proxy(network, "alice", PASSWORD) as proxy:
        given = [base(httpProxy=proxy.url, httpsProxy=proxy.url, noProxy=f"{network.address}/32"), cluster()]
        secret = credentials(PASSWORD)
        secret["stringData"]["username"] = "alice"
        text = rendered(*given, secret)["Secret", "mycluster-systemd-proxy"]["containerdProxy"]
        environment = systemd.read_environment("containerd.service", text)
        assert environment["HTTPS_PROXY"] == proxy.url_with_credentials
        direct, outside = f"{address}/x:linux", proxy.format_image("linux")

        with Containerd(place, {}, proxy.certificate) as containerd:
            assert "dial tcp" in containerd.pull(outside)
        with Containerd(place, environment, direct_authority) as containerd:
            assert "certificate signed by unknown authority" in containerd.pull(outside)
        before = len(proxy.list_requests())
        with Containerd(place, environment, proxy.certificate + direct_authority) as containerd:
            assert containerd.read_environment()["HTTPS_PROXY"] == proxy.url_with_credentials
            assert containerd.pull(outside) == ""
            assert containerd.pull(direct) == ""
            # squid writes a line once the answer has been sent
            await until(lambda: answered(proxy, before))
            assert {request.user for request in answered(proxy, before)} == {"alice"}, proxy.list_requests()
            assert address not in str(proxy.list_requests()[before:])
        without = {name: value for name, value in environment.items() if name.lower() != "no_proxy"}
        with Containerd(place, without, proxy.certificate + direct_authority) as containerd:
            containerd.pull(direct)
        await until(lambda: address in str(proxy.list_requests()[before:]))


def answered(proxy: Proxy, before: int) -> list[Request]:
    """What the proxy let through since so many requests."""
    return [request for request in proxy.list_requests()[before:] if request.status.endswith("/200")]
