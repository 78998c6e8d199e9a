"""The scripts of the shipped payload: PowerShell without an error, and no command that Windows does not have."""

import importlib.resources
from collections.abc import Iterator

import pytest
import tree_sitter_powershell
from tree_sitter import Language, Node, Parser

PARSER = Parser(Language(tree_sitter_powershell.language()))
SCRIPTS = sorted(
    file.name for file in (importlib.resources.files("transom.payloads") / "openshift").iterdir() if file.name.endswith(".ps1")
)
HNS = {
    # Microsoft Learn, PowerShell module HostNetworkingService: all that there are
    *(f"Get-Hns{what}" for what in ("Endpoint", "EndpointAddresses", "EndpointStats", "Namespace", "Network", "PolicyList")),
    *(f"Remove-Hns{what}" for what in ("Endpoint", "Namespace", "Network", "PolicyList")),
}
OTHERS = {
    # Microsoft Learn, modules Microsoft.PowerShell.Core, Microsoft.PowerShell.Utility, NetTCPIP
    "Add-Type": {"-MemberDefinition", "-Namespace", "-Name", "-PassThru"},
    "ConvertFrom-Json": {"-InputObject"},
    "ConvertTo-Json": {"-InputObject"},
    "Get-NetIPConfiguration": {"-AllCompartments", "-All", "-Detailed"},
    "Out-Null": set(),
    "Select-Object": {"-First"},
    "Start-Sleep": {"-Seconds"},
    "Where-Object": set(),
}


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from walk(child)


def text(node: Node | None) -> str:
    return (node.text or b"").decode() if node is not None else ""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_calls_what_windows_has(name: str) -> None:
    data = (importlib.resources.files("transom.payloads") / "openshift" / name).read_bytes()
    root = PARSER.parse(data).root_node
    assert not root.has_error
    own = {text(node.named_children[0]) for node in walk(root) if node.type == "function_statement"}
    for command in (node for node in walk(root) if node.type == "command"):
        called = text(command.child_by_field_name("command_name"))
        if called in own:
            continue
        assert called in HNS | set(OTHERS), called
        parameters = {text(node) for node in walk(command) if node.type == "command_parameter"}
        assert parameters <= OTHERS.get(called, set()), called


def test_the_scripts_are_all_here() -> None:
    assert SCRIPTS == ["provider-address.ps1", "source-vip.ps1"]
