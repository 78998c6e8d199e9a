"""Private keys: what is called a fault is one for SSH too, and what SSH cannot read is called a fault."""

import asyncssh
import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st
from tests.support.ssh_keys import KEYS, TEXTS, WRONG

from transom.hosts.errors import KeyUnusable
from transom.hosts.ssh.ssh_client import parse_private_key
from transom.proxy.secret import Secret
from transom.windows.nodes.private_keys import find_private_key_fault
from transom.windows.nodes.windows_instance import find_host_key_fault

AS_GOOD = {
    "as it is": lambda text: text,
    "Windows line ends": lambda text: text.replace("\n", "\r\n"),
    "old Mac line ends": lambda text: text.replace("\n", "\r"),
    "byte order mark": lambda text: "\ufeff" + text,
    "indented": lambda text: "".join(f"    {line}\n" for line in text.splitlines()),
    "empty lines around": lambda text: f"\n\n{text}\n\n",
    "no line end": lambda text: text.rstrip(),
    "blanks behind lines": lambda text: text.replace("\n", "  \n"),
    "words before": lambda text: f"the key of win-1\n{text}",
}


def usable(text: str) -> bool:
    try:
        parse_private_key(Secret(text))
    except KeyUnusable:
        return False
    return True


@pytest.mark.parametrize("change", AS_GOOD)
@pytest.mark.parametrize("name", TEXTS)
def test_what_editors_do_to_a_key_does_no_harm(name: str, change: str) -> None:
    text = AS_GOOD[change](TEXTS[name])
    assert usable(text)
    assert find_private_key_fault(Secret(text)) is None


@pytest.mark.parametrize("name", WRONG)
def test_what_opens_no_host_has_a_fault(name: str) -> None:
    fault = find_private_key_fault(Secret(WRONG[name]))
    assert not usable(WRONG[name])
    assert fault
    assert "hunter2" not in fault


@given(st.sampled_from(sorted(TEXTS)), st.integers(0, 4000), st.integers(0, 40), st.text(max_size=3))
def test_a_key_without_a_fault_can_be_used(name: str, at: int, length: int, put: str) -> None:
    """Of a key that was damaged anywhere: nothing is called good that a pass refuses before it connects."""
    text = TEXTS[name][:at] + put + TEXTS[name][at + length :]
    if find_private_key_fault(Secret(text)) is None:
        assert usable(text)


@given(st.text(max_size=200))
def test_any_text_is_judged(text: str) -> None:
    assert (find_private_key_fault(Secret(text)) is None) <= usable(text)


def pinned(line: str) -> bool:
    try:
        asyncssh.import_public_key(line)
    except (asyncssh.KeyImportError, ValueError):
        return False
    return True


@given(st.sampled_from(sorted(KEYS)), st.integers(0, 400), st.integers(0, 3), st.text("ABCab+/=01", max_size=3))
def test_a_host_key_without_a_fault_can_be_pinned(name: str, at: int, length: int, put: str) -> None:
    line = KEYS[name].public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    assert find_host_key_fault(line) is None
    damaged = line[:at] + put + line[at + length :]
    if find_host_key_fault(damaged) is None:
        assert pinned(damaged)
