"""A tenant's kubeconfig leads to no address that the administrator does not permit, by whatever spelling or name."""

import asyncio
import socket
from typing import Any

import pytest
from aiohttp.resolver import ThreadedResolver
from tests.kube.hostile_kubeconfigs import (
    ANY_NETWORK,
    REFUSED_AT_ONCE,
    REFUSED_WHEN_RESOLVED,
    build_kubeconfig,
)

from transom.kube.client import Client
from transom.kube.connection import connect_untrusted_cluster
from transom.kube.errors import ConfigurationError, ConnectionFailed
from transom.kube.kubeconfig import choose_untrusted_context
from transom.kube.permitted_networks import PermittedNetworks


class Listener:
    """A server of this machine that notes who connects."""

    def __init__(self) -> None:
        self.connections = 0

    def __call__(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.close()


async def ask(kubeconfig: dict[str, Any], permitted: PermittedNetworks, own_proxy: str | None = None) -> str:
    """Return why a request by a tenant's kubeconfig fails."""
    try:
        connection = connect_untrusted_cluster(
            choose_untrusted_context(kubeconfig, "Secret t/c-kubeconfig"), own_proxy, permitted
        )
    except ConfigurationError as error:
        return str(error)
    try:
        await Client(connection).get_json("/version")
    except ConnectionFailed as error:
        return str(error)
    finally:
        await connection.close()
    return ""


@pytest.mark.parametrize("name", REFUSED_AT_ONCE)
async def test_an_address_is_refused_before_anything_is_sent(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not permitted") as raised:
        connect_untrusted_cluster(choose_untrusted_context(REFUSED_AT_ONCE[name](), "Secret t/c-kubeconfig"))
    assert "--workload-cluster-networks" in str(raised.value)
    assert f"cluster.{'proxy-url' if name.startswith('proxy-') else 'server'}" in str(raised.value)


@pytest.mark.parametrize("name", REFUSED_WHEN_RESOLVED)
async def test_a_name_is_refused_once_it_is_resolved(name: str) -> None:
    # aiohttp itself takes some spellings for none
    told = await ask(REFUSED_WHEN_RESOLVED[name](), PermittedNetworks())
    assert "is not permitted" in told or "is not a canonical IPv4 address" in told


@pytest.mark.parametrize("part", ["server", "proxy"])
async def test_a_name_that_changes_its_address_leads_nowhere_else(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer is a permitted address, the second this machine: the connection goes to the one that was checked."""
    listener = Listener()
    server = await asyncio.start_server(listener, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    answers = ["192.0.2.1", "127.0.0.1", "127.0.0.1"]
    asked: list[str] = []

    async def resolve(self: ThreadedResolver, host: str, port: int = 0, family: Any = socket.AF_INET) -> list[dict[str, Any]]:
        asked.append(host)
        address = answers[min(len(asked), len(answers)) - 1]
        return [{"hostname": host, "host": address, "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}]

    monkeypatch.setattr(ThreadedResolver, "resolve", resolve)
    target = f"rebinding.example:{port}"
    tenant = (
        build_kubeconfig(f"https://{target}") if part == "server" else build_kubeconfig("https://a.example", f"http://{target}")
    )
    async with server, asyncio.timeout(30):
        first = await ask(tenant, PermittedNetworks())
        second = await ask(tenant, PermittedNetworks())
    assert first
    assert "is not permitted" not in first
    assert "is not permitted" in second
    assert listener.connections == 0


async def test_one_address_of_many_that_is_not_permitted_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(self: ThreadedResolver, host: str, port: int = 0, family: Any = socket.AF_INET) -> list[dict[str, Any]]:
        addresses = ("192.0.2.1", "169.254.169.254")
        return [
            {"hostname": host, "host": address, "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}
            for address in addresses
        ]

    monkeypatch.setattr(ThreadedResolver, "resolve", resolve)
    assert "169.254.169.254 is not permitted" in await ask(build_kubeconfig("https://two.example"), PermittedNetworks())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_network_that_is_permitted_is_connected_to(host: str) -> None:
    listener = Listener()
    server = await asyncio.start_server(listener, "127.0.0.1", 0)
    tenant = build_kubeconfig(f"https://{host}:{server.sockets[0].getsockname()[1]}")
    async with server:
        for permitted in (ANY_NETWORK, PermittedNetworks.parse(("10.0.0.0/8", "127.0.0.0/8", "::1"))):
            assert "is not permitted" not in await ask(tenant, permitted)
    assert listener.connections == 2


async def test_of_a_list_nothing_else_is_permitted() -> None:
    permitted = PermittedNetworks.parse(("10.0.0.0/8",))
    assert "is not permitted" in await ask(build_kubeconfig("https://192.0.2.1"), permitted)
    assert "is not permitted" in await ask(build_kubeconfig("https://[2001:db8::1]"), permitted)
    assert permitted.is_permitted("10.1.2.3")
    assert permitted.is_permitted("::ffff:10.1.2.3")


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "172.16.0.1", "203.0.113.9", "fd12::1", "2001:db8::1"])
def test_where_api_servers_usually_are_is_permitted(address: str) -> None:
    assert PermittedNetworks().is_permitted(address)


async def test_the_proxy_of_our_own_settings_may_be_anywhere() -> None:
    """An administrator names it, and it resolves the server's name; an address in the tenant's kubeconfig is checked still."""
    listener = Listener()
    server = await asyncio.start_server(listener, "127.0.0.1", 0)
    proxy = f"http://localhost:{server.sockets[0].getsockname()[1]}"
    async with server:
        assert "is not permitted" not in await ask(build_kubeconfig("https://api.example"), PermittedNetworks(), proxy)
        reached = listener.connections
        assert reached > 0
        assert "is not permitted" in await ask(build_kubeconfig("https://169.254.169.254"), PermittedNetworks(), proxy)
        assert "is not permitted" in await ask(
            build_kubeconfig("https://a.example", "http://127.0.0.1:1"), PermittedNetworks(), proxy
        )
    assert listener.connections == reached


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0.1/8", "api.example"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a|does not|has host bits"):
        PermittedNetworks.parse((text,))
