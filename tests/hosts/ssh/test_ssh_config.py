"""Which options of `~/.ssh/config` count, and that no other one that asyncssh knows changes anything about a connection."""

import getpass
import re
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from asyncssh.config import SSHClientConfig

from transom.hosts.errors import Unreachable
from transom.hosts.ssh.connections import build_connection_options
from transom.hosts.ssh.jump_hosts import JumpHost, parse_jump_hosts
from transom.hosts.ssh.ssh_config import BLOCKS, JUMP_HOST_OPTIONS, OPTIONS, read_ssh_config

PAGE = Path(__file__).parents[3] / "docs" / "ssh.md"
KEY = asyncssh.generate_private_key("ssh-ed25519")
READ = {
    "Hostname": ("10.0.0.7", "host", "10.0.0.7"),
    "Port": ("2222", "port", 2222),
    "User": ("carol", "username", "carol"),
    "IdentityFile": ("~/.ssh/other", "client_keys", [KEY.public_data]),
    "IdentitiesOnly": ("yes", "agent_identities", []),
    "IdentityAgent": ("~/agent", "agent_path", "~/agent"),
    "ProxyJump": ("bastion", "tunnel", "bastion"),
    "ProxyCommand": ("nc %h %p", "proxy_command", "nc win 22"),
}
"""A value of each option that is read, the option of asyncssh that comes of it, and what that is."""
UNREAD = {
    "AddressFamily": "inet6",
    "BindAddress": "127.0.0.9",
    "CanonicalDomains": "corp.example",
    "CanonicalizeFallbackLocal": "no",
    "CanonicalizeHostname": "always",
    "CanonicalizeMaxDots": "5",
    "CanonicalizePermittedCNAMEs": "*.a:*.b",
    "CASignatureAlgorithms": "ssh-rsa",
    "CertificateFile": "~/.ssh/other-cert.pub",
    "ChallengeResponseAuthentication": "yes",
    "Ciphers": "aes128-cbc",
    "Compression": "yes",
    "ConnectTimeout": "3600",
    "EnableSSHKeySign": "yes",
    "ForwardAgent": "yes",
    "ForwardX11Trusted": "yes",
    "GlobalKnownHostsFile": "/dev/null",
    "GSSAPIAuthentication": "yes",
    "GSSAPIDelegateCredentials": "yes",
    "GSSAPIKeyExchange": "yes",
    "HostbasedAuthentication": "yes",
    "HostKeyAlgorithms": "ssh-rsa",
    "HostKeyAlias": "somebody-else",
    "KbdInteractiveAuthentication": "yes",
    "KexAlgorithms": "diffie-hellman-group14-sha1",
    "MACs": "hmac-sha1",
    "PasswordAuthentication": "yes",
    "PKCS11Provider": "/usr/lib/token.so",
    "PreferredAuthentications": "keyboard-interactive,password",
    "PubkeyAuthentication": "no",
    "RekeyLimit": "1K 1s",
    "RemoteCommand": "whoami %Q",
    "RequestTTY": "force",
    "SendEnv": "*",
    "ServerAliveCountMax": "1",
    "ServerAliveInterval": "1",
    "SetEnv": "SECRET=hunter2",
    "TCPKeepAlive": "no",
    "UserKnownHostsFile": "none",
}
"""A value of each that would change something if it came through."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / ".ssh"
    directory.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nowhere/agent")
    (directory / "other").write_bytes(KEY.export_private_key())
    (directory / "other").chmod(0o600)
    return directory


def options(home: Path, config: str, host: str = "win", **fields: Any) -> dict[str, Any]:
    """Return what asyncssh makes of a file, as a connection to a host has it, and the ProxyCommand that Transom runs."""
    (home / "config").write_text(config)
    read = read_ssh_config(host, **fields)
    given = build_connection_options() | {"client_keys": (), "agent_path": (), "known_hosts": ([], [], [])}
    made = asyncssh.SSHClientConnectionOptions(read.options, host=host, **given)
    assert made.proxy_command is None
    return {name: value for name, value in vars(made).items() if name not in ("config", "kwargs")} | {
        "proxy_command": read.proxy_command
    }


def test_each_option_that_asyncssh_knows_is_read_or_is_not() -> None:
    known = {name for name, _ in SSHClientConfig._handlers.values()}
    assert known == set(OPTIONS) | set(JUMP_HOST_OPTIONS) | set(BLOCKS) | set(UNREAD)
    assert set(READ) == set(OPTIONS)
    assert set(OPTIONS) & set(UNREAD) == set()
    assert set(JUMP_HOST_OPTIONS) <= set(UNREAD)


def test_the_page_names_those_that_are_read() -> None:
    section = PAGE.read_text("utf-8").partition("## Which options")[2].partition("ignores every other option")[0]
    named = {name.lower() for name in re.findall(r"`([A-Za-z]+)`", section)}
    assert {name.lower() for name in (*OPTIONS, *JUMP_HOST_OPTIONS, *BLOCKS)} <= named
    assert {name.lower() for name in UNREAD if name not in JUMP_HOST_OPTIONS} & named == set()


@pytest.mark.parametrize("option", UNREAD)
def test_an_option_that_is_not_read_changes_nothing(home: Path, option: str) -> None:
    assert options(home, f"Host *\n  {option} {UNREAD[option]}\n{option.upper()}={UNREAD[option]}\n") == options(home, "")


@pytest.mark.parametrize("option", sorted(set(UNREAD) - set(JUMP_HOST_OPTIONS)))
@pytest.mark.parametrize("value", ["", "%z ${NOBODY}"])
def test_nor_does_a_value_of_it_that_is_none(home: Path, option: str, value: str) -> None:
    assert options(home, f"Host *\n  {option} {value}\n") == options(home, "")


@pytest.mark.parametrize("option", READ)
def test_an_option_that_is_read_counts(home: Path, option: str) -> None:
    value, name, expected = READ[option]
    found = options(home, f"Host *\n  {option} {value}\n")[name]
    if option == "IdentityFile":
        found = [pair.public_data for pair in found]
    if option == "IdentityAgent":
        expected = str(home.parent / "agent")
    assert found == expected
    assert options(home, "")[name] != expected


@pytest.mark.parametrize("value", ["yes", "/run/somebody/agent", "$SSH_AUTH_SOCK", "~/agent"])
def test_no_agent_is_forwarded(home: Path, value: str) -> None:
    assert options(home, f"Host *\n  ForwardAgent {value}\n")["agent_forward_path"] is None


def test_blocks_are_evaluated_as_asyncssh_does(home: Path) -> None:
    (home / "more").write_text("Host win\n  User from-include\nMatch exec true host win\n  Port 2200\n")
    lines = "Include more\nMatch final\n  User final\n  IdentityFile ~/.ssh/other\nHost other\n  Port 1\n"
    found = options(home, lines)
    assert (found["username"], found["port"]) == ("from-include", 2200)
    assert len(found["client_keys"]) == 1
    assert options(home, lines, "third")["username"] == "final"


def test_what_is_given_comes_before_the_file(home: Path) -> None:
    found = options(home, "Host *\n  User carol\n  Port 2200\n  ProxyCommand nc %r %p\n", port=22, username="Administrator")
    assert found["proxy_command"] == "nc Administrator 22"
    assert read_ssh_config("win", 22).port == 22
    assert read_ssh_config("win").port == 2200


def test_without_a_file_there_is_nothing(home: Path) -> None:
    read = read_ssh_config("win")
    assert (read.port, read.jump_hosts, read.host_key_alias) == (22, None, None)
    assert options(home, "")["username"] == getpass.getuser()


@pytest.mark.parametrize(
    ("lines", "jump", "command"),
    [
        ("ProxyJump a\nProxyCommand nc", "a", None),
        ("ProxyCommand nc\nProxyJump a", None, "nc"),
        ("ProxyJump none\nProxyJump a\nProxyCommand nc", None, None),
        ("ProxyCommand none\nProxyJump a", None, None),
    ],
)
def test_the_first_way_counts(home: Path, lines: str, jump: str | None, command: str | None) -> None:
    """ssh_config(5): whichever of ProxyJump and ProxyCommand is there first."""
    found = options(home, f"Host *\n{lines}\n")
    assert (found["tunnel"], found["proxy_command"]) == (jump, command)
    assert read_ssh_config("win").jump_hosts == jump


def test_a_key_file_that_is_not_there_is_passed_over(home: Path) -> None:
    found = options(home, "Host *\n  IdentityFile ~/.ssh/none\n  IdentityFile ~/.ssh/other\n")
    assert [pair.public_data for pair in found["client_keys"]] == [KEY.public_data]


@pytest.mark.parametrize(
    "text", ["Port many\n", "Host *\n  User 'carol\n", "Match nonsense\n", "Include \\\n", "IdentityFile %z\n"]
)
def test_a_file_that_cannot_be_read(home: Path, text: str) -> None:
    (home / "config").write_text(text)
    with pytest.raises(Unreachable, match=r"~/\.ssh/config"):
        read_ssh_config("win")


def test_a_file_that_is_no_text(home: Path) -> None:
    (home / "config").write_bytes(b"\xff\xfe")
    with pytest.raises(Unreachable, match=r"~/\.ssh/config"):
        read_ssh_config("win")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", (JumpHost("a"),)),
        ("carol@a:2222", (JumpHost("a", 2222, "carol"),)),
        ("a,b:1 , c@d", (JumpHost("a"), JumpHost("b", 1), JumpHost("d", None, "c"))),
        ("[2001:db8::1]:2222", (JumpHost("2001:db8::1", 2222),)),
        ("[2001:db8::1]", (JumpHost("2001:db8::1"),)),
        ("2001:db8::1", (JumpHost("2001:db8::1"),)),
        ("carol@corp@a", (JumpHost("a", None, "carol@corp"),)),
        ("ssh://carol@a:2222", (JumpHost("a", 2222, "carol"),)),
        ("ssh://carol%40corp@a/", (JumpHost("a", None, "carol@corp"),)),
        ("ssh://[2001:db8::1]:2222", (JumpHost("2001:db8::1", 2222),)),
    ],
)
def test_jump_hosts_are_written_as_ssh_takes_them(value: str, expected: tuple[JumpHost, ...]) -> None:
    assert parse_jump_hosts(value) == expected


@pytest.mark.parametrize("value", ["", "a,,b", "a:port", "a:0", "a:65536", "a:١", "@", "carol@", ":22"])
def test_what_is_no_jump_host_is_said(value: str) -> None:
    with pytest.raises(Unreachable, match="ProxyJump"):
        parse_jump_hosts(value)
