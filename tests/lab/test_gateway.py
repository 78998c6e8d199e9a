"""What the gateway of a network that intercepts reads of its clients."""

import ipaddress
import ssl
import struct

import pytest
from lab.gateway import answer_query, read_server_name

ADDRESS = ipaddress.IPv4Address("10.204.0.1")


def query(name: str, kind: int) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


@pytest.mark.parametrize(
    ("name", "kind", "code", "answers"),
    [("a.test", 1, 0, 1), ("a.test", 28, 0, 0), ("a.invalid", 1, 3, 0), ("a.Example", 1, 3, 0), ("example.test", 1, 0, 1)],
)
def test_names_resolve_to_the_gateway(name: str, kind: int, code: int, answers: int) -> None:
    answer = answer_query(query(name, kind), ADDRESS)
    number, flags, questions, found, _, _ = struct.unpack_from("!6H", answer)
    assert (number, flags & 0xF, questions, found) == (7, code, 1, answers)
    assert (answer[-4:] == ADDRESS.packed) is (answers == 1)


def test_the_name_in_a_client_hello_is_read_once_it_is_whole() -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="index.example")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    assert read_server_name(hello) == "index.example"
    assert [read_server_name(hello[:size]) for size in (0, 5, len(hello) - 1)] == [None] * 3
