"""What `transom init` has to know. Each answer is checked by its option, or at its prompt, which then asks again."""

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import typer

from transom.cli.credential_masks import mask_url
from transom.cli.home import explain_unknown_home, is_home_known
from transom.cli.messages import print_to_stderr
from transom.cli.output import ExitCode, fail, get_columns, wrap_line
from transom.common.regular_files import read_regular_file

PASSWORD: Final = "TRANSOM_PROXY_PASSWORD"  # noqa: S105  # the name of a variable
NETWORKS: Final = {"machineNetwork": "machine", "serviceNetwork": "service", "podNetwork": "pod"}
"""The fields of `spec.networks` that are lists, and what people call them."""
_EXAMPLES: Final = {"machineNetwork": "10.0.0.0/16", "serviceNetwork": "10.96.0.0/12", "podNetwork": "10.244.0.0/16"}
_T = TypeVar("_T")


class InvalidAnswer(ValueError):
    """An answer that cannot be used: the text says why, and what to write instead. Nothing secret is in it."""


class HostAnswer(msgspec.Struct, frozen=True):
    """A Windows host. An empty `name` is made up; an empty `username` is that of all hosts."""

    address: str
    port: int = 22
    username: str = ""
    name: str = ""


class Answers(msgspec.Struct):
    """The inputs of the directory: None is prompted for, or omitted."""

    proxy: str | None = None
    proxy_user: str | None = None
    password: str | None = None
    no_proxy: str | None = None
    ca: str | None = None
    networks: dict[str, Any] = {}
    hosts: list[HostAnswer] | None = None
    offered: list[HostAnswer] = []
    """Hosts that a cluster has, of which a person at a terminal is asked."""
    username: str = "Administrator"
    key: str | None = None
    host_key: str | None = None

    def __repr__(self) -> str:
        return "Answers(***)"


def parse_proxy(text: str) -> tuple[str, str, str]:
    """Return a proxy URL without userinfo, its user name and its password, both empty where it has none."""
    from transom.proxy import proxy_url
    from transom.proxy.url import parse

    text = unquote(text)
    if not text:
        raise InvalidAnswer("a proxy is needed, such as http://proxy.example.com:3128")
    if faults := proxy_url.list_url_faults(text, ("http",)):
        hint = ""
        if (
            "://" not in text
            and not proxy_url.has_userinfo(text)
            and not proxy_url.list_url_faults(f"http://{text}", ("http",))
        ):
            hint = f": did you mean http://{text}?"
        raise InvalidAnswer(faults[0] + hint)
    url = parse(text)
    if url.username is None:
        return text, "", ""
    password = url.password.reveal() if url.password else ""
    return f"{text[: text.index('//') + 2]}{text.rpartition('@')[2]}", url.username.reveal(), password


def parse_proxy_user(text: str) -> str:
    """Return the proxy's user name; empty for none."""
    if "://" in text:
        raise InvalidAnswer("this is a URL, not a user name; leave it empty if the proxy asks for none")
    return text


def parse_password(text: str) -> str:
    """Return the password of the proxy's user."""
    if not text:
        raise InvalidAnswer("a password is required; to change the user name, stop with Ctrl-C and start again")
    return text


def parse_no_proxy(text: str) -> str:
    """Return what bypasses the proxy; empty for nothing."""
    from transom.proxy import no_proxy_findings
    from transom.proxy.finding import Place

    text = unquote(text)
    faults = [item for item in no_proxy_findings.examine_no_proxy(text, Place("", ""), ()) if item.severity == "error"]
    if faults:
        raise InvalidAnswer(f"{faults[0].message}; items are separated by commas, such as .corp.example,10.1.0.0/16")
    return text


def parse_networks(text: str) -> list[str]:
    """Return the CIDRs of a list with commas or spaces; empty where they are not known."""
    from transom.proxy.finding import Place
    from transom.proxy.networks import examine_networks
    from transom.proxy.no_proxy import is_ip
    from transom.proxy.objects import Networks

    cidrs = unquote(text).replace(",", " ").split()
    for cidr in cidrs:
        if is_ip(cidr):
            raise InvalidAnswer(f"`{cidr}` is an address, not a network: add the prefix length, such as {cidr}/16")
        for item in examine_networks(Networks(pod_network=(cidr,)), Place("", "")):
            raise InvalidAnswer(f"`{mask_url(cidr)}` {item.message}")
    return cidrs


def parse_api_host(text: str) -> str:
    """Return the host by which nodes reach the API server; empty where it is not known."""
    from transom.proxy.finding import Place
    from transom.proxy.networks import examine_networks
    from transom.proxy.objects import Networks

    text = unquote(text)
    for item in examine_networks(Networks(internal_api_host=text or None), Place("", "")):
        raise InvalidAnswer(item.message)
    return text


def parse_hosts(text: str) -> list[HostAnswer]:
    """Return the Windows hosts of a list with spaces or commas, each as `ADDRESS`, `USER@ADDRESS` or with `:PORT`."""
    hosts: list[HostAnswer] = []
    for part in unquote(text).replace(",", " ").split():
        host = _parse_host(part.removeprefix("ssh://").rstrip("/"))
        if any((host.address, host.port) == (other.address, other.port) for other in hosts):
            raise InvalidAnswer(f"`{part}` is in the list twice")
        hosts.append(host)
    return hosts


def _parse_host(text: str) -> HostAnswer:
    from transom.windows.nodes.windows_instance import is_address

    username, _, place = text.rpartition("@")
    if ":" in username:
        raise InvalidAnswer(f"`{mask_url(text)}`: write USER@ADDRESS: Transom logs in with an SSH key, not with a password")
    head, colon, tail = place.rpartition(":")
    if is_address(place.removeprefix("[").removesuffix("]")):
        return HostAnswer(place.removeprefix("[").removesuffix("]"), username=username)
    address = head.removeprefix("[").removesuffix("]")
    if colon and is_address(address) and tail.isascii() and tail.isdigit():
        if len(tail) > 5 or not 1 <= int(tail) <= 65535:
            raise InvalidAnswer(f"`{text}`: the port must be 1 to 65535")
        return HostAnswer(address, int(tail), username)
    raise InvalidAnswer(f"`{text}` is not a host: write 10.0.0.11, win-1.example.com or Administrator@10.0.0.11:22")


def parse_login(text: str) -> str:
    """Return the account on the hosts."""
    if not text or not text.isprintable() or "://" in text:
        raise InvalidAnswer("must be the name of an account that is an administrator there, such as Administrator")
    return text


def read_key(name: str) -> str:
    """Return the SSH private key of a file."""
    from transom.proxy.secret import Secret
    from transom.windows.nodes.private_keys import find_private_key_fault, normalize_key

    if not name:
        raise InvalidAnswer("a private key is needed, such as ~/.ssh/id_ed25519")
    text = read_text_file(name)
    fault = find_private_key_fault(Secret(text))
    if fault is not None:
        raise InvalidAnswer(f"{name}: the SSH key {fault}")
    # as other programs read it that are less patient
    return normalize_key(text)


def read_ca(name: str) -> str:
    """Return the certificates of a file as PEM; empty for no file."""
    from transom.proxy.trust import format_pem, read_bundle

    if not name:
        return ""
    read = read_bundle(_read_file(name))
    for problem in read.bundle.problems:
        if problem.severity == "error":
            raise InvalidAnswer(f"{name}: {problem}")
    if not read.bundle.certificates:
        raise InvalidAnswer(f"{name}: no certificate found")
    # the file's own comments say whose certificate is whose
    return read.text if read.text is not None else format_pem(read.bundle.certificates)


def read_text_file(name: str) -> str:
    """Return the text of a file, UTF-8 or, as PowerShell writes it, UTF-16."""
    from transom.proxy.trust import decode_utf16

    data = _read_file(name)
    try:
        return decode_utf16(data) or data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidAnswer(f"{name}: cannot be read: it is not text") from None


def _read_file(name: str) -> bytes:
    if name.startswith("~") and not is_home_known():
        raise InvalidAnswer(f"{name}: {explain_unknown_home()}; write the whole path")
    try:
        return read_regular_file(Path(name).expanduser())
    except OSError as error:
        raise InvalidAnswer(f"{name}: cannot be read: {error.strerror}") from None


def unquote(text: str) -> str:
    """Remove spaces and quotes that were copied with a value."""
    text = text.strip()
    for left, right in ("''", '""', "“”", "‘’"):
        if len(text) > 1 and text[0] == left and text[-1] == right:
            return text[1:-1].strip()
    return text


def parse_option(option: str, parse: Callable[[str], _T], text: str) -> _T:
    """Return what an option says; the command ends where that cannot be used."""
    try:
        return parse(text)
    except InvalidAnswer as error:
        fail(f"{option}: {error}")


def ask_missing_answers(answers: Answers) -> None:
    """Ask at the terminal for what no option said; an empty answer leaves a field out.

    Ctrl-C ends the command with 130 and the end of the input with 2; nothing is written then.
    """
    try:
        _ask_proxy(answers)
        _ask_networks(answers)
        _ask_hosts(answers)
    except typer.Abort as abort:
        print_to_stderr("")
        if isinstance(abort.__context__, EOFError):
            fail("the input ended before the last question: nothing was written")
        fail("stopped: nothing was written", ExitCode.INTERRUPTED)


def _ask_proxy(answers: Answers) -> None:
    if answers.proxy is None:
        answers.proxy, user, password = _prompt_until_valid("Proxy URL, such as http://proxy.example.com:3128", parse_proxy)
        if user:
            answers.proxy_user, answers.password = answers.proxy_user or user, answers.password or password
            print_to_stderr("  its user name and password go into a Secret")
        elif answers.proxy_user is None:
            answers.proxy_user = _prompt_until_valid("User name at the proxy (empty: none)", parse_proxy_user)
    if answers.proxy_user and answers.password is None and PASSWORD not in os.environ:
        answers.password = _prompt_until_valid(f"Password of {answers.proxy_user} (not shown)", parse_password, hidden=True)
    if answers.no_proxy is None:
        answers.no_proxy = _prompt_until_valid(
            "Hosts that bypass the proxy, such as .corp.example (empty: none)", parse_no_proxy
        )
    if answers.ca is None:
        answers.ca = _prompt_until_valid("File with the CAs to trust: PEM, DER or PKCS#7 (empty: none)", read_ca)


def _ask_networks(answers: Answers) -> None:
    if "internalAPIHost" not in answers.networks:
        question = "API server host, required for hosts with a kubelet (empty: leave out)"
        if host := _prompt_until_valid(question, parse_api_host):
            answers.networks["internalAPIHost"] = host
    for field, name in NETWORKS.items():
        if field not in answers.networks:
            question = f"Networks of {name}s, such as {_EXAMPLES[field]} (empty: leave out)"
            if cidrs := _prompt_until_valid(question, parse_networks):
                answers.networks[field] = cidrs


def _ask_hosts(answers: Answers) -> None:
    if answers.hosts is None and answers.offered:
        names = ", ".join(f"{item.name} ({item.address})" for item in answers.offered)
        for line in wrap_line(f"The cluster has the Windows Nodes {names}.", get_columns(sys.stderr)):
            print_to_stderr(line)
        if typer.confirm("Make hosts of them?", default=True, err=True):
            answers.hosts = answers.offered
            answers.username = _prompt_until_valid("User name on the hosts", parse_login, default=answers.username, shown=True)
    if answers.hosts is None:
        question = "Windows hosts, separated by spaces, such as 10.0.0.11 bob@win-2:2222 (empty: none)"
        answers.hosts = _prompt_until_valid(question, parse_hosts)
        if any(not host.username for host in answers.hosts):
            answers.username = _prompt_until_valid("User name on the hosts", parse_login, default=answers.username, shown=True)
    if answers.hosts and answers.key is None:
        answers.key = _prompt_until_valid(
            "File with the SSH private key for the hosts", read_key, default=_find_default_key(), shown=True
        )


def _find_default_key() -> str:
    """Return the first key that ssh would take (ssh_config(5), IdentityFile), or ""; Windows' OpenSSH accepts all types."""
    for name in ("id_ed25519", "id_ecdsa", "id_rsa"):
        with contextlib.suppress(OSError, RuntimeError):
            if Path(f"~/.ssh/{name}").expanduser().is_file():
                return f"~/.ssh/{name}"
    return ""


def _prompt_until_valid(
    question: str, parse: Callable[[str], _T], *, default: str = "", hidden: bool = False, shown: bool = False
) -> _T:
    """Ask until the answer can be used."""
    while True:
        # with a default of None, the prompt repeats an empty answer without a reason
        text = typer.prompt(question, default=default, show_default=shown and bool(default), hide_input=hidden, err=True)
        try:
            return parse(text if hidden else text.strip())
        except InvalidAnswer as error:
            for line in wrap_line(f"  {error}", get_columns(sys.stderr)):
                print_to_stderr(line)
