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

from transom.capi.check import upstream
from transom.capi.image.inputs import ImageInputs, iter_downloads
from transom.common.installers import OPENSSH_SHA256, OPENSSH_SIGNER, OPENSSH_URL
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.firstboot import UserData, build_user_data
from transom.windows.parts import winhttp_value
from transom.windows.parts.certificates import parse_certificate as held_certificate
from transom.windows.registry.values import build_binary

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
    text = build_user_data(KEY, egress, platform=platform).text
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
    text = build_user_data(KEY, PROXIED, platform=platform).text
    assert text.splitlines()[0] == first
    assert {word for word in ("Enable-LocalUser", "add-routes") if word in text} == parts
    assert not re.search(r"@[A-Z0-9_]+@|^#[\[\]]", text, re.MULTILINE)


def test_the_account_is_found_by_its_identifier_and_its_password_is_random() -> None:
    text = build_user_data(KEY, Egress(), platform="GCP").text
    assert "$administrator.SID.Value -like 'S-1-5-21-*-500'" in text
    assert "Administrator'" not in text
    assert "Set-LocalUser -SID $administrator.SID -Password $password" in text


@pytest.mark.parametrize(
    ("platform", "limit"), [("AWS", 16384), ("Azure", 65535), ("GCP", 262144), ("Nutanix", 32768), ("", 16384)]
)
def test_the_limit_of_each_platform(platform: str, limit: int) -> None:
    trust = tuple(authority(f"Root {number}") for number in range(600))
    made = build_user_data(KEY, Egress(trust=trust), platform=platform)
    assert limit - 1000 < len(made.text.encode()) <= limit


def test_there_is_no_secret_in_it_and_no_environment() -> None:
    text = build_user_data(KEY, PROXIED).text
    assert "hunter2" not in text
    assert "alice" not in text
    assert "HTTP_PROXY" not in text
    settings = winhttp_value.build_winhttp_value(PROXIED)
    assert settings is not None
    assert b"http=proxy.corp.example:3128;https=proxy.corp.example:3128" in settings
    assert b"alice" not in settings
    assert base64.b64encode(settings).decode() in text


def test_the_key_has_transoms_comment() -> None:
    assert f"'{KEY} transom'" in build_user_data(KEY + " me@laptop", Egress()).text


def test_ports_are_opened_and_the_key_is_closed_to_others() -> None:
    text = build_user_data(KEY, Egress()).text
    assert "foreach ($port in 22, 9182, 10250)" in text
    keys = r'$keys = "$env:ProgramData\ssh\administrators_authorized_keys"'
    assert keys in text
    assert "$keys '/inheritance:r' '/grant:r' '*S-1-5-32-544:F' '/grant:r' '*S-1-5-18:F'" in text
    assert r'$mark + "PasswordAuthentication no`r`nPubkeyAuthentication yes`r`n"' in text


def test_what_the_ledger_holds_is_done_once() -> None:
    """`persist` runs it at every boot: where there is a ledger, proxy and CAs are left to it."""
    script = powershell(build_user_data(KEY, PROXIED).text)
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
    text = build_user_data(KEY, Egress()).text
    assert "SOFTWARE\\Transom" not in text
    assert "Certificates" not in text
    assert installers(text) == {"OpenSSH": ("", OPENSSH_SIGNER)}


def test_certificates_are_entered_as_the_ledger_reads_them() -> None:
    rows = re.findall(
        r"@\{ Store = '(\w+)'; Sha1 = '(\w+)'; Note = '(.*?)'; Blob = '(\S+)' \}", build_user_data(KEY, PROXIED).text
    )
    assert [(store, sha1) for store, sha1, _, _ in rows] == [("ROOT", PROXIED.trust[0].sha1)]
    assert json.loads(rows[0][2]) == {"added": True, "subject": PROXIED.trust[0].subject}
    assert held_certificate(build_binary(base64.b64decode(rows[0][3]))) == PROXIED.trust[0].der


def test_a_list_of_one_certificate_is_a_list() -> None:
    """PowerShell unrolls a list in a list; what stands between the brackets are hash tables."""
    (lists,) = [
        node
        for node in walk(parsed(powershell(build_user_data(KEY, PROXIED).text)))
        if node.text and node.text.startswith(b"@(\n        @{") and node.type == "array_expression"
    ]
    assert [node.type for node in walk(lists) if node.type in ("hash_literal_expression", "array_expression")] == [
        "array_expression",
        "hash_literal_expression",
    ]


def test_certificates_that_do_not_fit_are_left_out() -> None:
    trust = tuple(authority(f"Root {number}") for number in range(40))
    made = build_user_data(KEY, Egress(trust=trust), platform="AWS")
    assert len(made.text.encode()) <= 16384
    assert 0 < len(made.left_out) < 40
    assert not build_user_data(KEY, Egress(trust=trust), platform="Azure").left_out


@settings(deadline=None, max_examples=30)
# a common name has at most 64 bytes (RFC 5280, ub-common-name)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30).filter(lambda name: len(name.encode()) < 64))
def test_any_subject_stays_one_literal(name: str) -> None:
    script = build_user_data(KEY, Egress(trust=(authority("x" + name),))).text
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
        "Get-FileHash",
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
        for command in walk(parsed(powershell(build_user_data(KEY, egress, platform="AWS").text)))
        if command.type == "command" and (name := command.child_by_field_name("command_name")) is not None and name.text
        for option in (*(part.text.decode() for part in walk(command) if part.type == "command_parameter" and part.text), "")
        if name.text.decode().lower() in COMMANDS
    }
    assert used <= documented
    # some parameters are handed over as a table
    assert not egress.configured or {name for name, _ in used} == {name for name, _ in documented}


def installers(text: str) -> dict[str, tuple[str, str]]:
    """Of each installer in the script, the proxy by which it is downloaded, and who has signed it."""
    rows = re.findall(r"@\{ Uri = '(.*?)'; Proxy = '(.*?)'; Signer = '(.*?)'; Sha256 = '(.*?)' \}", text)
    return {"EC2Launch" if "EC2Launch" in uri else "OpenSSH": (proxy, signer) for uri, proxy, signer, _ in rows}


PLAIN, SECRET, TLS = "http://proxy.example:3128", "http://u:hunter2@proxy.example:3128", "https://proxy.example:3129"
OTHER = "http://other.example:8080"
MIRROR = "https://mirror.corp.example/openssh.msi"
USED = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("http_proxy", "https_proxy", "no_proxy", "msi", "used", "has_problem"),
    [
        (PLAIN, PLAIN, "", OPENSSH_URL, USED, False),
        (PLAIN, PLAIN, ".corp.example", MIRROR, "", False),
        (SECRET, SECRET, "", OPENSSH_URL, "", True),
        (SECRET, SECRET, ".corp.example", MIRROR, "", False),
        (SECRET, SECRET, "mirror.corp.example:8443", MIRROR, "", True),
        (TLS, TLS, "", OPENSSH_URL, "", True),
        (TLS, TLS, "github.com", OPENSSH_URL, "", False),
        (PLAIN, TLS, "", OPENSSH_URL, USED, False),
        (OTHER, TLS, "", MIRROR, OTHER, False),
        (PLAIN, SECRET, "", OPENSSH_URL, USED, False),
        (SECRET, TLS, "", OPENSSH_URL, "", True),
        ("", TLS, "", OPENSSH_URL, "", True),
        ("", SECRET, "", OPENSSH_URL, "", True),
        ("", PLAIN, "", OPENSSH_URL, USED, False),
        # https URLs have no proxy
        (PLAIN, "", "", OPENSSH_URL, "", False),
        (SECRET, "", "", OPENSSH_URL, "", False),
        (TLS, "", "", OPENSSH_URL, "", False),
    ],
)
def test_how_the_installer_is_downloaded(
    http_proxy: str, https_proxy: str, no_proxy: str, msi: str, used: str, has_problem: bool
) -> None:
    egress = Egress(
        http_proxy=Secret(http_proxy) if http_proxy else None,
        https_proxy=Secret(https_proxy) if https_proxy else None,
        no_proxy=no_proxy,
    )
    made = build_user_data(KEY, egress, openssh_msi=msi, platform="vSphere")
    assert installers(made.text)["OpenSSH"][0] == used
    assert bool(made.problems) == has_problem
    assert all("--openssh-msi" in problem for problem in made.problems)
    assert "hunter2" not in repr(made)


@pytest.mark.parametrize(("platform", "problems"), [("AWS", 2), ("GCP", 1)])
def test_on_aws_ec2launch_is_downloaded_too(platform: str, problems: int) -> None:
    made = build_user_data(KEY, Egress(https_proxy=Secret(SECRET)), platform=platform)
    assert len(made.problems) == problems


@pytest.mark.parametrize(
    ("http_proxy", "https_proxy", "wanted"),
    [
        (PLAIN, TLS, b"http=proxy.example:3128;https=proxy.example:3128"),
        (TLS, PLAIN, b"https=proxy.example:3128"),
        (TLS, TLS, None),
        (PLAIN, "", b"http=proxy.example:3128"),
    ],
)
def test_windows_update_gets_the_proxy_that_it_can_use(http_proxy: str, https_proxy: str, wanted: bytes | None) -> None:
    egress = Egress(http_proxy=Secret(http_proxy), https_proxy=Secret(https_proxy) if https_proxy else None)
    found = winhttp_value.build_first_boot_value(egress)
    assert (found[16 : 16 + len(wanted)] if found and wanted else found) == wanted


def test_behind_a_proxy_the_installer_comes_before_windows_update() -> None:
    """Where Windows Update is not reached, one call takes a quarter of an hour (openpubkey/opkssh#544)."""
    ways = {"proxied": Egress(https_proxy=Secret(PLAIN)), "direct": Egress(), "http alone": Egress(http_proxy=Secret(PLAIN))}
    found = {name: re.findall(r"foreach \(\$way in (.*?)\)", build_user_data(KEY, way).text)[0] for name, way in ways.items()}
    assert found == {
        "proxied": "'Installer', 'WindowsUpdate'",
        "direct": "'WindowsUpdate', 'Installer'",
        "http alone": "'WindowsUpdate', 'Installer'",
    }


def test_an_installer_is_known_by_its_signer_and_the_pinned_one_by_its_hash() -> None:
    text = build_user_data(KEY, Egress(), platform="AWS").text
    assert installers(text) == {"OpenSSH": ("", OPENSSH_SIGNER), "EC2Launch": ("", "Amazon")}
    assert f"Uri = '{OPENSSH_URL}'; Proxy = ''; Signer = '{OPENSSH_SIGNER}'; Sha256 = '{OPENSSH_SHA256.upper()}'" in text
    assert (
        f"Uri = '{MIRROR}'; Proxy = ''; Signer = '{OPENSSH_SIGNER}'; Sha256 = ''"
        in build_user_data(KEY, Egress(), openssh_msi=MIRROR).text
    )


@pytest.mark.parametrize(
    ("subject", "is_signer"),
    [
        ("CN=Microsoft Corporation, O=Microsoft Corporation, L=Redmond, S=Washington, C=US", True),
        ('CN="Microsoft Corporation, Inc.", C=US', True),
        ("CN=Anybody, O=Microsoft Corporation", True),
        ("CN=Anybody GmbH, C=DE", False),
        ("CN=Not Microsoft Corporation", False),
        ("OU=Microsoft Corporation, CN=Anybody", False),
        ("", False),
    ],
)
def test_whose_signature_is_accepted(subject: str, is_signer: bool) -> None:
    """The pattern as the script has it: .NET reads this one as Python does."""
    text = build_user_data(KEY, Egress()).text
    (pattern,) = re.findall(r"\$signer = '(.*?)' \+ \[regex\]::Escape\(\$installer\.Signer\)", text)
    assert bool(re.search(pattern + re.escape(OPENSSH_SIGNER), subject)) == is_signer


def test_the_images_have_the_same_installer() -> None:
    assert (upstream.OPENSSH_SHA256.value, upstream.OPENSSH_FILE.value) == (OPENSSH_SHA256, OPENSSH_URL.rpartition("/")[2])
    (openssh,) = (download for download in iter_downloads(ImageInputs("aws")) if download.name == "openssh")
    assert (openssh.url, openssh.sha256, openssh.signer) == (OPENSSH_URL, OPENSSH_SHA256, OPENSSH_SIGNER)


@pytest.mark.parametrize(
    "before",
    [
        "Port 22\r\n#PasswordAuthentication yes\r\nMatch Group администраторы\r\n  AuthorizedKeysFile x\r\n".encode(),
        "# Gruppe: Administratören\nPubkeyAuthentication no\n".encode("cp1252"),
        b"\xef\xbb\xbf# UTF-8 with a mark\r\nPasswordAuthentication yes",
        b"PasswordAuthentication no\r\nPubkeyAuthentication yes\r\n# ours\r\n",
        b"",
    ],
)
def test_sshd_config_keeps_its_bytes(before: bytes) -> None:
    """The two patterns as the script has them, on text with one character for each byte: .NET reads them as Python does."""
    text = build_user_data(KEY, Egress()).text
    (mark,) = re.findall(r"\[regex\]::Match\(\$before, '(.*?)'\)", text)
    (replaced,) = re.findall(r"^\$set = '(.*?)'$", text, re.MULTILINE)

    def run(content: bytes) -> bytes:
        decoded = content.decode("latin1")
        found = re.search(mark, decoded)
        begin = found[0] if found else ""
        rest = re.sub(replaced.replace(r"\z", r"\Z"), "", decoded[len(begin) :], flags=re.IGNORECASE)
        return (begin + "PasswordAuthentication no\r\nPubkeyAuthentication yes\r\n" + rest).encode("latin1")

    after = run(before)
    lines = [line for line in before.splitlines() if b"Authentication " not in line]
    assert all(line.removeprefix(b"\xef\xbb\xbf") in after for line in lines)
    assert after.startswith(b"\xef\xbb\xbf") == before.startswith(b"\xef\xbb\xbf")
    assert after.count(b"Authentication ") == 2
    assert run(after) == after


@pytest.mark.parametrize("key", ["", "ssh-ed25519", "ssh-ed25519 AAAA\nssh-rsa BBBB"])
def test_a_key_that_is_none(key: str) -> None:
    with pytest.raises(ValueError, match="public key"):
        build_user_data(key, Egress())


def test_the_installer_must_come_over_https() -> None:
    with pytest.raises(ValueError, match="https"):
        build_user_data(KEY, Egress(), openssh_msi="http://example.com/a.msi")
    assert isinstance(build_user_data(KEY, Egress(), openssh_msi="https://mirror.example/it's.msi"), UserData)
    assert (
        "'https://mirror.example/it''s.msi'"
        in build_user_data(KEY, Egress(), openssh_msi="https://mirror.example/it's.msi").text
    )
