"""What becomes of ConfigMap entries and machines: a table."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transom.windows.nodes import inventory
from transom.windows.nodes.host_addresses import NO_NETWORKS, HostNetworks

AWS = {"providerSpec": {"value": {"kind": "AWSMachineProviderConfig"}}}
AZURE = {"providerSpec": {"value": {"kind": "AzureMachineProviderSpec"}}}
VSPHERE = {"providerSpec": {"value": {"kind": "VSphereMachineProviderSpec"}}}


@pytest.mark.parametrize(
    ("key", "value", "name", "address", "user"),
    [
        ("10.0.0.7", "username=Administrator", "10.0.0.7", "10.0.0.7", "Administrator"),
        ("win-1.corp.example", "username=CORP\\joe", "win-1.corp.example", "win-1.corp.example", "CORP\\joe"),
        # a person wrote it
        ("localhost", "username=joe", "localhost", "localhost", "joe"),
        ("127.0.0.1", "username=joe", "127.0.0.1", "127.0.0.1", "joe"),
        ("WIN-1", " username = joe@corp.example\n", "win-1", "win-1", "joe@corp.example"),
        ("fd00::7", "username=Administrator", "ipv6-fd00-0-0-0-0-0-0-7", "fd00::7", "Administrator"),
        ("fd00--7.ipv6-literal.net", "username=joe", "ipv6-fd00-0-0-0-0-0-0-7", "fd00::7", "joe"),
        ("FD00--1s4.ipv6-literal.net", "username=joe", "ipv6-fd00-0-0-0-0-0-0-1", "fd00::1", "joe"),
        ("FD00:0::7", "username=Administrator", "ipv6-fd00-0-0-0-0-0-0-7", "fd00:0::7", "Administrator"),
    ],
)
def test_entries_of_the_config_map(key: str, value: str, name: str, address: str, user: str) -> None:
    (made,) = inventory.from_config_map({key: value})
    assert isinstance(made, inventory.InventoryEntry)
    assert (made.name, made.origin) == (name, key)
    assert made.spec == {"address": address, "username": user, "lifecycle": "Node"}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("10.0.0.300", "username=a", "DNS name or an IP address"),
        ("[fd00::7]", "username=a", "DNS name or an IP address"),
        ("10.0.0.7:22", "username=a", "DNS name or an IP address"),
        ("a b", "username=a", "DNS name or an IP address"),
        ("", "username=a", "DNS name or an IP address"),
        ("win-1", "Administrator", "username=<user>"),
        ("win-1", "user=Administrator", "username=<user>"),
        ("win-1", "username=", "account"),
        ("win-1", "username=a\x07b", "account"),
        ("win-1", "", "username=<user>"),
        ("win-1", "nodeName=win-1", "username=<user>"),
        ("win-1", "username=a\nusername=b", "line 2 gives username again"),
        ("win-1", "username=a\npaused=true", "line 2 must be"),
        ("win-1", "username=a\nnodeName=Win_1", "line 2: nodeName must be"),
        ("win-1", "username=a\nnodeName=", "line 2: nodeName must be"),
        ("win-1", "username=a\nnodeIP=10.0.0.0/8", "line 2: nodeIP must be"),
        ("win-1", "username=a\nnodeIP=fe80::1%3", "line 2: nodeIP must be"),
        ("win-1", "username=a\nhostKey=ssh-ed25519 hunter2", "line 2: hostKey: "),
        ("win-1", "username=a\naddresses=", "line 2: addresses must be"),
        ("win-1", "username=a\naddresses=10.0.0.8,10.0.0.0/8", "line 2: addresses: 10.0.0.0/8 must be"),
        ("win-1", "username=a\naddresses=10.0.0.8,10.0.0.8", "twice"),
        ("win-1", "username=a\naddresses=fe80::1%3", "line 2: addresses: fe80::1%3 must be"),
        ("win-1", "username=a\naddresses=127.0.0.1", "not the address of one machine"),
        ("win-1", "username=a\naddresses=localhost", "a name of every machine"),
        ("win-1", "username=a\naddresses=" + ",".join(f"10.0.0.{n}" for n in range(17)), "1 to 16"),
        ("169.254.1.0", "username=a", "a link-local address"),
        ("fe80--1s4.ipv6-literal.net", "username=a", "a link-local address"),
        ("0.0.0.0", "username=a", "not the address of one machine"),
        ("224.0.0.1", "username=a", "not the address of one machine"),
    ],
)
def test_a_wrong_entry_is_named_and_only_it_is_skipped(key: str, value: str, said: str) -> None:
    made = list(inventory.from_config_map({key: value, "good": "username=Administrator"}))
    assert [item.name for item in made if isinstance(item, inventory.InventoryEntry)] == ["good"]
    (rejected,) = (item for item in made if isinstance(item, inventory.RejectedEntry))
    assert rejected.origin == key
    assert said in rejected.reason


def test_further_lines_of_an_entry() -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPl2yUxv3Hm3ZqOhXyfFnjlT4MQfGcLXWKQyjJsyUvM win"
    text = f"username=Administrator\n\n nodeIP = fd00::7 \r\nhostKey={key}\nnodeName=win-1\n"
    (made,) = inventory.from_config_map({"10.0.0.7": text})
    assert isinstance(made, inventory.InventoryEntry)
    wanted = {"username": "Administrator", "nodeIP": "fd00::7", "hostKey": key, "nodeName": "win-1"}
    assert made.spec == {"address": "10.0.0.7", "lifecycle": "Node", **wanted}


def test_more_addresses_of_an_entry() -> None:
    (made,) = inventory.from_config_map({"10.0.0.7": "username=a\naddresses=10.9.9.2, fd00::9,ec2-18-194-1-2.example"})
    assert isinstance(made, inventory.InventoryEntry)
    assert made.spec["addresses"] == ["10.9.9.2", "fd00::9", "ec2-18-194-1-2.example"]


def test_an_address_written_twice() -> None:
    made = list(inventory.from_config_map({"fd00::7": "username=a", "FD00:0::7": "username=b"}))
    assert [type(item) for item in made] == [inventory.InventoryEntry, inventory.RejectedEntry]


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=20), st.text(max_size=30), max_size=4))
def test_any_config_map_is_read(data: dict[str, str]) -> None:
    made = list(inventory.from_config_map(data))
    assert len(made) == len(data)
    names = [item.name for item in made if isinstance(item, inventory.InventoryEntry)]
    assert len(set(names)) == len(names)


def machine(spec: Any = None, phase: str = "Provisioned", addresses: Any = (("InternalIP", "10.0.0.7"),), **meta: Any) -> Any:
    labels = {"machine.openshift.io/os-id": "Windows"} | meta.pop("labels", {})
    return {
        "metadata": {"name": "winworker-x7k2p", "namespace": "openshift-machine-api", "uid": "u-1", "labels": labels, **meta},
        "spec": spec or VSPHERE,
        "status": {"phase": phase, "addresses": [{"type": type_, "address": text} for type_, text in addresses]},
    }


@pytest.mark.parametrize(
    ("value", "user", "node", "host"),
    [
        (machine(), "Administrator", "winworker-x7k2p", "winworker-x7k2p"),
        (machine(phase="Running"), "Administrator", "winworker-x7k2p", "winworker-x7k2p"),
        (
            machine(AWS, addresses=(("InternalIP", "10.0.0.7"), ("InternalDNS", "ip-10-0-0-7.ec2.internal"))),
            "Administrator",
            "ip-10-0-0-7.ec2.internal",
            None,
        ),
        (machine({"providerID": "aws:///eu-1/i-1"}), "Administrator", "winworker-x7k2p", "winworker-x7k2p"),
        (
            machine(AZURE, addresses=(("InternalIP", "10.0.0.7"), ("Hostname", "Winwo-x7k2p"))),
            "capi",
            "winwo-x7k2p",
            None,
        ),
        (
            machine(AZURE, addresses=(("InternalIP", "10.0.0.7"), ("InternalDNS", "winwo-x7k2p.bx.internal.cloudapp.net"))),
            "capi",
            "winwo-x7k2p",
            None,
        ),
        (machine({"providerID": "azure:///subscriptions/x"}), "capi", "winworker-x7k2p", None),
        (
            machine(addresses=(("InternalIP", "fd00::7"), ("InternalIP", "10.0.0.7"))),
            "Administrator",
            "winworker-x7k2p",
            "winworker-x7k2p",
        ),
    ],
)
def test_machines_of_the_machine_api(value: Any, user: str, node: str, host: str | None) -> None:
    made = inventory.from_machine(value)
    assert isinstance(made, inventory.InventoryEntry)
    assert made.spec == {"address": "10.0.0.7", "username": user, "nodeName": node, "lifecycle": "Node"}
    assert (made.host_name, made.uid, made.origin) == (host, "u-1", "openshift-machine-api/winworker-x7k2p")


@pytest.mark.parametrize(
    "value",
    [
        machine(labels={"machine.openshift.io/os-id": "Linux"}),
        machine(labels={"windowsmachineconfig.openshift.io/ignore": "true"}),
        machine(annotations={"windowsmachineconfig.openshift.io/ignore": "true"}),
        {"metadata": None},
    ],
)
def test_machines_that_are_left_alone(value: Any) -> None:
    assert inventory.from_machine(value) is None


@pytest.mark.parametrize("value", [machine(phase="Provisioning"), machine(phase="Failed"), machine(addresses=())])
def test_machines_that_are_not_there_yet(value: Any) -> None:
    made = inventory.from_machine(value)
    assert isinstance(made, inventory.RejectedEntry)
    assert made.waiting


def cluster_machine(system: str = "windows", node: str | None = "win-1", **meta: Any) -> Any:
    status: dict[str, Any] = {"addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]}
    if node:
        status |= {"nodeRef": {"name": node}, "nodeInfo": {"operatingSystem": system}}
    return {
        "metadata": {"name": "md-0-abc", "namespace": "tenants", "uid": "u-2", "labels": {"transom.dev/ssh": "true"}} | meta,
        "spec": {"clusterName": "prod"},
        "status": status,
    }


def test_machines_of_cluster_api() -> None:
    made = inventory.from_cluster_machine(cluster_machine(annotations={"transom.dev/ssh-user": "joe"}))
    assert isinstance(made, inventory.InventoryEntry)
    assert made.name == "md-0-abc.tenants"
    assert made.spec == {
        "address": "10.0.0.9",
        "username": "joe",
        "nodeName": "win-1",
        "lifecycle": "Egress",
        "clusterRef": {"namespace": "tenants", "name": "prod"},
    }
    assert inventory.from_cluster_machine(cluster_machine("linux")) is None
    assert inventory.from_cluster_machine(cluster_machine(labels={})) is None
    assert isinstance(inventory.from_cluster_machine(cluster_machine(node=None)), inventory.RejectedEntry)


NETWORKS = HostNetworks(overlay=("10.244.0.0/16", "172.30.0.0/16", "fd01::/48"))
IN_MACHINE_NETWORK = HostNetworks(machine=("40.0.0.0/16",), overlay=("10.244.0.0/16",))
OF_NODE = HostNetworks(overlay=("10.0.0.0/8",), node=frozenset(("10.0.1.2",)))


@pytest.mark.parametrize(
    ("addresses", "networks", "wanted"),
    [
        # kubernetes#83584: vSphere lists the address of a card without DHCP first
        ("169.254.1.0 40.0.1.4", NO_NETWORKS, "40.0.1.4"),
        # WMCO PR #399
        ("fe80::250:56ff:fe8c:1 10.0.1.2", NO_NETWORKS, "10.0.1.2"),
        ("fe80::250:56ff:fe8c:1 fd00::2", NO_NETWORKS, "fd00::2"),
        ("fe80::1%3 fd00::2", NO_NETWORKS, "fd00::2"),
        ("127.0.0.1 10.0.1.2", NO_NETWORKS, "10.0.1.2"),
        ("::1 10.0.1.2", NO_NETWORKS, "10.0.1.2"),
        ("::ffff:127.0.0.1 10.0.1.2", NO_NETWORKS, "10.0.1.2"),
        ("0.0.0.0 224.0.0.1 255.255.255.255 10.0.1.2", NO_NETWORKS, "10.0.1.2"),
        # image-builder#1428: the addresses of the CNI are listed, too
        ("10.244.3.2 10.0.1.2", NETWORKS, "10.0.1.2"),
        ("172.30.0.5 10.244.3.2 10.0.1.2", NETWORKS, "10.0.1.2"),
        ("fd01::5 fd00::2", NETWORKS, "fd00::2"),
        ("10.244.3.2 ExternalIP:18.194.1.2", NETWORKS, "18.194.1.2"),
        ("10.244.3.2", NETWORKS, "10.244.3.2"),
        ("18.194.1.2 10.0.1.2", NO_NETWORKS, "10.0.1.2"),
        ("18.194.1.2 fd00::2", NO_NETWORKS, "fd00::2"),
        ("ExternalIP:18.194.1.2 10.0.1.2", NO_NETWORKS, "10.0.1.2"),
        ("192.168.99.4 40.0.1.4", IN_MACHINE_NETWORK, "40.0.1.4"),
        ("10.244.3.2 40.0.1.4", IN_MACHINE_NETWORK, "40.0.1.4"),
        # pods and machines have one network (AWS VPC CNI)
        ("10.0.7.7 10.0.1.2", OF_NODE, "10.0.1.2"),
        ("192.168.56.1 10.0.1.2", OF_NODE, "10.0.1.2"),
        ("169.254.1.0 InternalDNS:win-1.corp.example", NO_NETWORKS, "win-1.corp.example"),
        ("169.254.1.0 Hostname:localhost ExternalIP:18.194.1.2", NO_NETWORKS, "18.194.1.2"),
        ("10.0.1.2 10.0.1.3", NO_NETWORKS, "10.0.1.2"),
        ("10.0.1.2", HostNetworks(machine=("nonsense",), overlay=("10.0.0.0/99",)), "10.0.1.2"),
        ("169.254.1.0 fe80::1 127.0.0.1", NO_NETWORKS, None),
        ("Hostname:localhost", NO_NETWORKS, None),
    ],
)
def test_which_address_of_a_machine_is_connected_to(addresses: str, networks: HostNetworks, wanted: str | None) -> None:
    listed = [(type_ or "InternalIP", text) for type_, text in (_typed(part) for part in addresses.split())]
    of_machine_api = inventory.from_machine(machine(addresses=listed), networks)
    value = cluster_machine()
    value["status"]["addresses"] = [{"type": type_, "address": text} for type_, text in listed]
    for made in (of_machine_api, inventory.from_cluster_machine(value, networks)):
        if wanted is None:
            assert isinstance(made, inventory.RejectedEntry)
            assert made.waiting
        else:
            assert isinstance(made, inventory.InventoryEntry)
            assert made.spec["address"] == wanted


def _typed(text: str) -> tuple[str, str]:
    type_ = next((name for name in ("ExternalIP", "InternalDNS", "Hostname") if text.startswith(f"{name}:")), "")
    return type_, text.removeprefix(f"{type_}:")


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["InternalIP", "Hostname", "?", None]), st.text(max_size=20)), max_size=4))
def test_any_addresses_of_a_machine_are_read(addresses: list[Any]) -> None:
    made = inventory.from_machine(machine(addresses=addresses), NETWORKS)
    assert isinstance(made, inventory.RejectedEntry) or made.spec["address"] in [text for _, text in addresses]


@pytest.mark.parametrize(
    ("owned", "gone", "wanted"), [(1, 1, False), (2, 1, False), (2, 2, True), (10, 2, False), (10, 3, True), (100, 20, False)]
)
def test_the_guard_against_vanishing(owned: int, gone: int, wanted: bool) -> None:
    assert inventory.should_confirm_removal(owned, gone) == wanted
