"""What `reg query` prints, on hosts of several languages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom.windows.registry import reg as query

ROOT = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\SystemCertificates\ROOT\Certificates"
SERVICES = r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services"


def test_subkeys() -> None:
    output = (
        "\r\nHKEY_LOCAL_MACHINE\\SOFTWARE\\Microsoft\\SystemCertificates\\Root\\Certificates\r\n"
        "    Note    REG_SZ    HKEY_LOCAL_MACHINE\\x\r\n\r\n"
        f"{ROOT}\\0563B8630D62D75ABBC8AB1E4BDFB5A899B24D43\r\n{ROOT}\\00aa\r\n{ROOT}\\0\\1\r\n{ROOT}\\\r\n{ROOT}2\\x\r\n"
    ).encode()
    assert query.parse_subkeys(output, ROOT) == ("0563B8630D62D75ABBC8AB1E4BDFB5A899B24D43", "00aa")


def test_a_name_in_another_code_page_is_not_lost() -> None:
    assert query.parse_subkeys(f"{ROOT}\\é\r\n".encode("cp850"), ROOT) == ("\ufffd",)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("    BootId    REG_DWORD    0x1a", 26),
        ("    bootid    REG_QWORD    0xFF  ", 255),
        ("    BootId    REG_SZ    0x1a", None),
        ("    OtherBootId    REG_DWORD    0x1a", None),
        ("", None),
    ],
)
def test_number(line: str, number: int | None) -> None:
    assert query.parse_number(f"\r\nHKEY_LOCAL_MACHINE\\X\r\n{line}\r\n\r\n".encode(), "BootId") == number


def test_dependencies() -> None:
    output = (
        f"\r\n{SERVICES}\\kubelet\r\n    DependOnService    REG_MULTI_SZ    containerd\\0RpcSs\r\n\r\n"
        f"{SERVICES}\\odd\r\n    DependOnService    REG_SZ    containerd\r\n\r\n"
        f"{SERVICES}\\none\r\n    DependOnService    REG_MULTI_SZ    \r\n\r\n"
        f"{SERVICES}\\a\\Parameters\r\n    DependOnService    REG_MULTI_SZ    x\r\n\r\n"
        "Ende der Suche: 4 Übereinstimmungen gefunden.\r\n"
    ).encode("cp850")
    assert query.parse_dependencies(output, SERVICES.upper()) == {"kubelet": ("containerd", "RpcSs"), "none": ()}


@given(st.binary())
def test_any_output_is_read(output: bytes) -> None:
    assert query.parse_subkeys(output, ROOT) == ()
    assert query.parse_dependencies(output, SERVICES) == {}
    query.parse_number(output, "BootId")
