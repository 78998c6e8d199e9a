"""First-boot data, read by cloudbase-init, and by a grammar of PowerShell."""

import base64
import json
import re
from typing import Any

import pytest
import tree_sitter_powershell
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.repository import DOCS
from tests.windows.authorities import authority
from tests.windows.userdata import KEY, PROXIED, powershell
from tree_sitter import Language, Node, Parser

from transom.proxy.settings import Egress
from transom.windows.firstboot import UserData, user_data
from transom.windows.parts import winhttp_value
from transom.windows.parts.certificates import certificate as held_certificate
from transom.windows.registry.values import binary

PAGE = DOCS / "verified.md"
PASSWORD = "hunter2%^&!x"
_PARSER = Parser(Language(tree_sitter_powershell.language()))


def parsed(script: str) -> Node:
    return _PARSER.parse(script.encode()).root_node


def walk(node: Node) -> Any:
    yield node
    for child in node.children:
        yield from walk(child)


@pytest.mark.parametrize("egress", [Egress(), PROXIED])
@pytest.mark.parametrize("platform", ["", "AWS", "Azure", "GCP", "vSphere", "Nutanix", "None", "External"])
def test_it_is_powershell_without_an_error(egress: Egress, platform: str) -> None:
    text = user_data(KEY, egress, platform=platform).text
    # Azure runs the whole text as a script; its tags are comments there
    for script in [text] if platform == "GCP" else [text, powershell(text)] if platform == "Azure" else [powershell(text)]:
        root = parsed(script)
        assert not root.has_error
        assert not [node for node in walk(root) if node.is_missing]
    assert ("<persist>true</persist>" in text) == (platform != "GCP")


@pytest.mark.parametrize(
    ("platform", "first", "parts"),
    [
        ("AWS", "<powershell>", {"Enable-LocalUser", "add-routes"}),
        ("Azure", "# <powershell>", set()),
        ("GCP", "$ErrorActionPreference = 'Stop'", {"Enable-LocalUser"}),
        ("vSphere", "<powershell>", {"Enable-LocalUser"}),
        ("Nutanix", "<powershell>", {"Enable-LocalUser"}),
        ("None", "<powershell>", {"Enable-LocalUser"}),
        ("", "<powershell>", {"Enable-LocalUser"}),
    ],
)
def test_what_each_platform_runs(platform: str, first: str, parts: set[str]) -> None:
    text = user_data(KEY, PROXIED, platform=platform).text
    assert text.splitlines()[0] == first
    assert {word for word in ("Enable-LocalUser", "add-routes") if word in text} == parts
    assert not re.search(r"@[A-Z0-9_]+@|^#[\[\]]", text, re.MULTILINE)


def test_the_account_is_found_by_its_identifier_and_its_password_is_random() -> None:
    text = user_data(KEY, Egress(), platform="GCP").text
    assert "$administrator.SID.Value -like 'S-1-5-21-*-500'" in text
    assert "Administrator'" not in text
    assert "Set-LocalUser -SID $administrator.SID -Password $password" in text


@pytest.mark.parametrize(
    ("platform", "limit"), [("AWS", 16384), ("Azure", 65535), ("GCP", 262144), ("Nutanix", 32768), ("", 16384)]
)
def test_the_limit_of_each_platform(platform: str, limit: int) -> None:
    trust = tuple(authority(f"Root {number}") for number in range(600))
    made = user_data(KEY, Egress(trust=trust), platform=platform)
    assert limit - 1000 < len(made.text.encode()) <= limit


def test_there_is_no_secret_in_it_and_no_environment() -> None:
    text = user_data(KEY, PROXIED).text
    assert "hunter2" not in text
    assert "alice" not in text
    assert "HTTP_PROXY" not in text
    settings = winhttp_value.settings(PROXIED)
    assert settings is not None
    assert b"http=proxy.corp.example:3128;https=proxy.corp.example:3128" in settings
    assert b"alice" not in settings
    assert base64.b64encode(settings).decode() in text


def test_the_key_has_transoms_comment() -> None:
    assert f"'{KEY} transom'" in user_data(KEY + " me@laptop", Egress()).text


def test_ports_are_opened_and_the_key_is_closed_to_others() -> None:
    text = user_data(KEY, Egress()).text
    assert "foreach ($port in 22, 9182, 10250)" in text
    keys = r'$keys = "$env:ProgramData\ssh\administrators_authorized_keys"'
    assert keys in text
    assert "$keys '/inheritance:r' '/grant:r' '*S-1-5-32-544:F' '/grant:r' '*S-1-5-18:F'" in text
    assert "'PasswordAuthentication no', 'PubkeyAuthentication yes'" in text


def test_what_the_ledger_holds_is_done_once() -> None:
    """`persist` runs it at every boot: where there is a ledger, proxy and CAs are left to it."""
    script = powershell(user_data(KEY, PROXIED).text)
    (once,) = (
        node.text.decode()
        for node in parsed(script).children[0].children
        if node.text and node.text.startswith(rb"if (-not (Test-Path -LiteralPath 'HKLM:\SOFTWARE\Transom'))")
    )
    rest = script.replace(once, "")
    for word in ("SOFTWARE\\Transom", "WinHttpSettings", "SystemCertificates"):
        assert word in once
        assert word not in rest


def test_nothing_of_a_proxy_without_one() -> None:
    text = user_data(KEY, Egress()).text
    assert "SOFTWARE\\Transom" not in text
    assert "Certificates" not in text
    assert "-Proxy" in text
    assert "$proxy = ''" in text


def test_certificates_are_entered_as_the_ledger_reads_them() -> None:
    rows = re.findall(r"@\{ Store = '(\w+)'; Sha1 = '(\w+)'; Note = '(.*?)'; Blob = '(\S+)' \}", user_data(KEY, PROXIED).text)
    assert [(store, sha1) for store, sha1, _, _ in rows] == [("ROOT", PROXIED.trust[0].sha1)]
    assert json.loads(rows[0][2]) == {"added": True, "subject": PROXIED.trust[0].subject}
    assert held_certificate(binary(base64.b64decode(rows[0][3]))) == PROXIED.trust[0].der


def test_a_list_of_one_certificate_is_a_list() -> None:
    """PowerShell unrolls a list in a list; what stands between the brackets are hash tables."""
    (lists,) = [
        node
        for node in walk(parsed(powershell(user_data(KEY, PROXIED).text)))
        if node.text and node.text.startswith(b"@(\n        @{") and node.type == "array_expression"
    ]
    assert [node.type for node in walk(lists) if node.type in ("hash_literal_expression", "array_expression")] == [
        "array_expression",
        "hash_literal_expression",
    ]


def test_certificates_that_do_not_fit_are_left_out() -> None:
    trust = tuple(authority(f"Root {number}") for number in range(40))
    made = user_data(KEY, Egress(trust=trust), platform="AWS")
    assert len(made.text.encode()) <= 16384
    assert 0 < len(made.left_out) < 40
    assert not user_data(KEY, Egress(trust=trust), platform="Azure").left_out


@settings(deadline=None, max_examples=30)
# a common name has at most 64 bytes (RFC 5280, ub-common-name)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30).filter(lambda name: len(name.encode()) < 64))
def test_any_subject_stays_one_literal(name: str) -> None:
    script = user_data(KEY, Egress(trust=(authority("x" + name),))).text
    root = parsed(powershell(script))
    assert not root.has_error
    commands = {node.text.decode().lower() for node in walk(root) if node.type == "command_name" and node.text}
    assert commands == COMMANDS | OWN


OWN = {"get-signedinstaller", "install-msi"}
"""Functions of the script."""
COMMANDS = {
    name.lower()
    for name in (
        "Add-WindowsCapability",
        "ConvertTo-SecureString",
        "Enable-LocalUser",
        "Get-AuthenticodeSignature",
        "Get-Content",
        "Get-ItemProperty",
        "Get-LocalUser",
        "Get-NetFirewallRule",
        "Get-Service",
        "Invoke-WebRequest",
        "Join-Path",
        "New-Item",
        "New-ItemProperty",
        "New-NetFirewallRule",
        "New-Object",
        "Out-Null",
        "Remove-Item",
        "Restart-Service",
        "Set-Acl",
        "Set-Content",
        "Set-LocalUser",
        "Set-Service",
        "Start-Process",
        "Start-Service",
        "Start-Sleep",
        "Test-Path",
    )
}


@pytest.mark.parametrize("egress", [Egress(), PROXIED])
def test_each_cmdlet_has_a_page_with_its_parameters(egress: Egress) -> None:
    """docs/verified.md names all that are called, and no cmdlet that is not."""
    text = PAGE.read_text().partition("## The PowerShell of the first boot")[2].partition("\n## ")[0]
    rows = [
        re.findall(r"`([A-Z][A-Za-z]+-[A-Za-z]+)((?: [^`]*)?)`", row.split("|")[1]) for row in text.splitlines() if "|" in row
    ]
    documented = {
        (name.lower(), option)
        for row in rows
        for name, options in row
        for option in (*re.findall(r"-[A-Z][A-Za-z]*", options), "")
    }
    used = {
        (name.text.decode().lower(), option)
        for command in walk(parsed(powershell(user_data(KEY, egress, platform="AWS").text)))
        if command.type == "command" and (name := command.child_by_field_name("command_name")) is not None and name.text
        for option in (*(part.text.decode() for part in walk(command) if part.type == "command_parameter" and part.text), "")
        if name.text.decode().lower() in COMMANDS
    }
    assert used <= documented
    # some parameters are handed over as a table
    assert not egress.configured or {name for name, _ in used} == {name for name, _ in documented}


@pytest.mark.parametrize("key", ["", "ssh-ed25519", "ssh-ed25519 AAAA\nssh-rsa BBBB"])
def test_a_key_that_is_none(key: str) -> None:
    with pytest.raises(ValueError, match="public key"):
        user_data(key, Egress())


def test_the_installer_must_come_over_https() -> None:
    with pytest.raises(ValueError, match="https"):
        user_data(KEY, Egress(), openssh_msi="http://example.com/a.msi")
    assert isinstance(user_data(KEY, Egress(), openssh_msi="https://mirror.example/it's.msi"), UserData)
    assert "'https://mirror.example/it''s.msi'" in user_data(KEY, Egress(), openssh_msi="https://mirror.example/it's.msi").text
