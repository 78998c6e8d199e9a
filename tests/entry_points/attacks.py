"""Worst inputs beyond those that other tests have: one more turn of each screw."""

import base64
import bz2
import gzip
import io
import json
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from asyncssh.kex_dh import _group18_p as GROUP_18  # the prime of RFC 3526
from tests.controllers.propagation.test_foreign_clusters import beside, kubeconfig
from tests.support.bundles import certificate
from tests.support.hostile_files import NAME

_MIB: Final = 1 << 20
_CA: Final = "certificate-authority-data"
_SEED: Final = 20261129


def encode_json(value: Any) -> bytes:
    """Return a value as JSON."""
    return json.dumps(value).encode()


def build_service(name: str, **spec: Any) -> bytes:
    """Return a Service with such fields."""
    metadata = {"name": name, "namespace": "tenant", "uid": name, "resourceVersion": "7"}
    return encode_json({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


def build_watched_line(kind: str, name: str, size: int) -> bytes:
    """Return a line of a watch whose object has one annotation of that size."""
    value = {"metadata": {"name": name, "namespace": "tenant", "uid": name, "annotations": {"a": "x" * size}}}
    return encode_json({"type": kind, "object": value}) + b"\n"


def build_deep_line(name: str, levels: int) -> bytes:
    """Return a line of a watch whose object is nested as deep as an API server takes."""
    head = encode_json({"metadata": {"name": name, "namespace": "tenant", "uid": name}})[:-1]
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    return b'{"type":"ADDED","object":' + head + b',"spec":' + deep + b"}}\n"


def _with_user(**user: str) -> str:
    encoded = {name.replace("_", "-"): base64.b64encode(text.encode()).decode() for name, text in user.items()}
    return kubeconfig({"server": "https://10.0.0.1:6443"}, encoded)


def _encode_der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag,)) + (bytes((size,)) if size < 128 else bytes((0x80 | len(digits),)) + digits) + content


def build_sealed_key(iterations: int) -> str:
    """Return a private key behind a passphrase, derived by PBKDF2 with so many iterations (RFC 8018, appendix A)."""

    def oid(hexadecimal: str) -> bytes:
        return _encode_der(6, bytes.fromhex(hexadecimal))

    count = _encode_der(2, iterations.to_bytes(iterations.bit_length() // 8 + 1, "big"))
    digest = _encode_der(0x30, oid("2a864886f70d0209"), b"\5\0")
    derivation = _encode_der(0x30, oid("2a864886f70d01050c"), _encode_der(0x30, _encode_der(4, bytes(16)), count, digest))
    cipher = _encode_der(0x30, oid("60864801650304012a"), _encode_der(4, bytes(16)))
    scheme = _encode_der(0x30, oid("2a864886f70d01050d"), _encode_der(0x30, derivation, cipher))
    body = base64.encodebytes(_encode_der(0x30, scheme, _encode_der(4, bytes(256)))).decode()
    return f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{body}-----END ENCRYPTED PRIVATE KEY-----\n"


def build_tiny_blocks(count: int) -> str:
    """Return a bundle of so many certificates that are none."""
    return "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n" * count


def build_one_certificate(count: int) -> str:
    """Return a bundle that has one certificate so many times."""
    return certificate("Corp Root") * count


KUBECONFIG_VARIANTS: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "key behind a passphrase": lambda: _with_user(
            client_certificate_data=certificate("tenant"), client_key_data=build_sealed_key(2**31 - 1)
        ),
        "CA of 400 certificates": lambda: kubeconfig(
            {"server": "https://10.0.0.1:6443", _CA: base64.b64encode(build_one_certificate(250).encode()).decode()}
        ),
        "CA of 3,000 blocks": lambda: kubeconfig(
            {"server": "https://10.0.0.1:6443", _CA: base64.b64encode(build_tiny_blocks(2_900).encode()).decode()}
        ),
        "a Diffie-Hellman key of a slow group": lambda: _with_user(
            client_certificate_data=certificate("tenant"), client_key_data=build_dh_key().decode()
        ),
        "an RSA key of 16,384 bits": lambda: _with_user(
            client_certificate_data=certificate("tenant"), client_key_data=build_rsa_key(16_384).decode()
        ),
        "a chain of 150 certificates": lambda: _with_user(
            client_certificate_data=build_one_certificate(150), client_key_data=build_rsa_key(2_048).decode()
        ),
        "clusters as aliases": lambda: (
            "a: &a {name: c, cluster: {server: 'https://10.0.0.1'}}\nclusters: [" + ",".join(["*a"] * 9_000) + "]\n"
        ),
        "9,000 merges of one": lambda: "a: &a {x: 1}\n" + "".join(f"k{number}: {{<<: *a}}\n" for number in range(4_000)),
        "keys without an end": lambda: "? " * 20_000 + "x: 1\n",
        "comments alone": lambda: "#\n" * 120_000,
        "brackets in quotes": lambda: beside('x: "' + "[" * 200_000 + '"'),
        "an anchor for each value": lambda: "".join(f"k{number}: &a{number} x\n" for number in range(9_000)),
        "the same names 3,000 times": lambda: (
            "clusters: ["
            + ",".join(["{name: c, cluster: {server: 'https://10.0.0.1:6443'}}"] * 2_000)
            + "]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
            + "users: [{name: u, user: {token: t}}]\ncurrent-context: x\n"
        ),
        "extensions beside all that is read": lambda: beside(
            "preferences: {colors: [" + ",".join(["{a: b}"] * 3_000) + "]}\nextensions: [{name: x, extension: {a: [1]}}]"
        ),
        "a namespace of 200 kB": lambda: kubeconfig({"server": "https://10.0.0.1"}).replace(
            '"cluster": "c"', '"cluster": "c", "namespace": "' + "\\u0041" * 35_000 + '"'
        ),
        "an auth-provider of 200 kB": lambda: kubeconfig(
            {"server": "https://10.0.0.1"}, {"auth-provider": {"name": "gcp", "config": {"cmd-path": "x" * 200_000}}}
        ),
        "a server of 200,000 dots": lambda: kubeconfig({"server": "https://" + "a." * 100_000}),
        "a server of 60,000 digits": lambda: kubeconfig({"server": "https://" + "9" * 60_000}),
        "a token of 200 kB": lambda: kubeconfig({"server": "https://10.0.0.1"}, {"token": "x" * 200_000}),
    }
)
"""Some of them are read, and lead nowhere; none costs more than the others."""

_SPACES: Final = b" " * _MIB
ANSWER_VARIANTS: Final[Mapping[str, tuple[bytes, list[bytes]]]] = MappingProxyType(
    {
        "headers without an end": (b"".join(b"X-%d: %b\r\n" % (number, b"a" * 4_000) for number in range(2_000)), [b"{}"]),
        "a header of 4 MB": (b"X: " + b"a" * 4 * _MIB + b"\r\n", [b"{}"]),
        "chunks of one byte": (b"Transfer-Encoding: chunked\r\n", [b"1\r\n \r\n" * 50_000] * 100),
        "a chunk without an end": (b"Transfer-Encoding: chunked\r\n", [b"ffffffffffffff\r\n", *[_SPACES] * 64]),
        "a chunk size without an end": (b"Transfer-Encoding: chunked\r\n", [b"0" * _MIB] * 32),
        "trailers without an end": (b"Transfer-Encoding: chunked\r\n", [b"2\r\n{}\r\n0\r\n", *[b"X: y\r\n" * 20_000] * 64]),
        "deflate": (b"Content-Encoding: deflate\r\n", [zlib.compress(_SPACES * 30)] * 10),
        "texts of one letter": (
            b"",
            [b'{"metadata":{"annotations":{' + b",".join(b'"%d":"x"' % n for n in range(90_000)) + b'"":""}}}'],
        ),
        "a letter of four bytes": (b"", [b'{"metadata":{"name":"' + b"x" * (4 * _MIB - 100) + "\U0001f600".encode() + b'"}}']),
        "the same field again and again": (b"", [b"{" + b",".join([b'"metadata":{"name":"x"}'] * 40_000) + b"}"]),
        "cookies without an end": (b"Set-Cookie: a=b\r\n" * 20_000, [b"{}"]),
        "informational answers without an end": (
            b"Content-Length: 2\r\n\r\n{}" + b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100_000,
            [],
        ),
        "a name of 4 MB": (b"", [b'{"metadata":{"name":"' + b"x" * (4 * _MIB - 100) + b'"}}']),
        "escapes": (b"", [b'{"metadata":{"name":"' + rb"\u0041" * 600_000 + b'"}}']),
    }
)
"""Headers and pieces of a body."""


def _pack_zip(method: int, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(NAME, content)
    return out.getvalue()


def build_sealed_zip() -> bytes:
    """Return a zip archive whose file says that it has a password."""
    data = bytearray(_pack_zip(zipfile.ZIP_STORED, b"program"))
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(mark) + offset] |= 1
    return bytes(data)


def build_broken_zip(method: int) -> bytes:
    """Return a zip archive whose packed bytes are junk."""
    data = bytearray(_pack_zip(method, random.Random(_SEED).randbytes(50_000)))
    start = data.index(NAME.encode()) + len(NAME)
    data[start + 20 : start + 4_000] = random.Random(_SEED).randbytes(3_980)
    return bytes(data)


def build_zip_of_large_dictionary() -> bytes:
    """Return a zip archive whose LZMA dictionary has 4 GiB."""
    data = bytearray(_pack_zip(zipfile.ZIP_LZMA, b"program"))
    start = data.index(NAME.encode()) + len(NAME)
    data[start + 5 : start + 9] = struct.pack("<I", 2**32 - 1)
    return bytes(data)


def build_broken_gzip() -> bytes:
    """Return a gzipped tar archive whose deflate stream is junk after its header."""
    return gzip.compress(tarfile.TarInfo(NAME).tobuf())[:20] + random.Random(_SEED).randbytes(10_000)


def build_sparse_tar() -> bytes:
    """Return a tar archive with a sparse file of 2**60 bytes."""
    entry = tarfile.TarInfo(NAME)
    entry.type, entry.size = tarfile.GNUTYPE_SPARSE, 512
    header = bytearray(entry.tobuf(format=tarfile.GNU_FORMAT))
    header[386:398], header[398:410] = b"00000000000\0", b"00000001000\0"
    header[483:495] = b"\x80\0\0\0" + (1 << 60).to_bytes(8, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return gzip.compress(bytes(header) + bytes(1024))


def build_negative_tar() -> bytes:
    """Return a tar archive with a file of fewer bytes than none."""
    header = bytearray(tarfile.TarInfo(NAME).tobuf())
    header[124:136] = b"\xff" * 12
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return gzip.compress(bytes(header) + bytes(4096))


def build_pax_numbers() -> bytes:
    """Return a tar archive whose PAX header has a size of 10,000 digits."""
    record = b"size=" + b"9" * 10_000 + b"\n"
    length = len(record) + 6
    body = b"%d %b" % (length, record)
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(body)
    padded = body + bytes(-len(body) % 512)
    return gzip.compress(header.tobuf(format=tarfile.USTAR_FORMAT) + padded + tarfile.TarInfo(NAME).tobuf() + bytes(1024))


ARCHIVE_VARIANTS: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "sealed.zip": build_sealed_zip,
        "broken-deflate.zip": lambda: build_broken_zip(zipfile.ZIP_DEFLATED),
        "broken-lzma.zip": lambda: build_broken_zip(zipfile.ZIP_LZMA),
        "broken-bzip2.zip": lambda: build_broken_zip(zipfile.ZIP_BZIP2),
        "large-dictionary.zip": build_zip_of_large_dictionary,
        "broken.tar.gz": build_broken_gzip,
        "sparse.tar.gz": build_sparse_tar,
        "negative.tar.gz": build_negative_tar,
        "pax-numbers.tar.gz": build_pax_numbers,
        "empty.tar.gz": lambda: b"",
        "junk.zip": lambda: random.Random(_SEED).randbytes(10_000),
    }
)
"""By a file name, as `HOSTILE_ARCHIVES`."""


def _request(path: bytes, headers: bytes, body: bytes = b"", version: bytes = b"HTTP/1.1", method: bytes = b"POST") -> bytes:
    return b"%b %b %b\r\nHost: x\r\n%b\r\n%b" % (method, path, version, headers, body)


HTTP_VARIANTS: Final[Mapping[str, Callable[[bytes], bytes]]] = MappingProxyType(
    {
        "HTTP/2": lambda _: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" * 50_000,
        "HTTP/1.0 without a length": lambda path: _request(path, b"", b" " * 4 * _MIB, b"HTTP/1.0"),
        "two lengths": lambda path: _request(path, b"Content-Length: 5\r\nContent-Length: 3000000\r\n", b"x" * _MIB),
        "a length and chunks": lambda path: _request(
            path, b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"5\r\nhello\r\n" * 50_000
        ),
        "a length of 5,000 digits": lambda path: _request(path, b"Content-Length: " + b"9" * 5_000 + b"\r\n", b"x" * _MIB),
        "a negative length": lambda path: _request(path, b"Content-Length: -1\r\n", b"x" * _MIB),
        "a chunk of 2**60 bytes": lambda path: _request(
            path, b"Transfer-Encoding: chunked\r\n", b"1000000000000000\r\n" + b" " * 4 * _MIB
        ),
        "chunk extensions": lambda path: _request(
            path, b"Transfer-Encoding: chunked\r\n", (b"1;" + b"a" * 8_000 + b"\r\n \r\n") * 500
        ),
        "chunks of one byte": lambda path: _request(path, b"Transfer-Encoding: chunked\r\n", b"1\r\n \r\n" * 400_000),
        "trailers": lambda path: _request(path, b"Transfer-Encoding: chunked\r\n", b"0\r\n" + b"X: y\r\n" * 400_000),
        "gzipped body": lambda path: _request(
            path,
            b"Content-Encoding: gzip\r\nContent-Length: %d\r\n" % len(_GZIPPED),
            _GZIPPED,
        ),
        "10,000 requests at once": lambda path: _request(path, b"", method=b"GET") * 10_000,
        "folded headers": lambda path: _request(path, b"A: b\r\n" + b" c\r\n" * 100_000),
        "a path of 4 MB": lambda path: _request(path + b"/a" * 2 * _MIB, b"", method=b"GET"),
        "a query of 100,000 fields": lambda path: _request(path + b"?" + b"a=b&" * 7_000, b"", method=b"GET"),
        "cookies": lambda path: _request(path, b"Cookie: " + b"a=b; " * 1_500 + b"\r\n", method=b"GET"),
        "a large Range": lambda path: _request(path, b"Range: bytes=" + b"0-1," * 1_900 + b"\r\n", method=b"GET"),
        "line feeds alone": lambda _: b"\n" * 4 * _MIB,
        "many Expects": lambda path: _request(path, b"Expect: 100-continue\r\nContent-Length: 2\r\n", b"{}") * 2_000,
        "2,000 bodies at once": lambda path: _request(path, b"Content-Length: 2\r\n", b"{}") * 2_000,
        "a whole URL of 7 kB": lambda path: _request(b"http://" + b"a" * 7_000 + path, b"", method=b"GET"),
        "a name that is no UTF-8": lambda path: _request(path + b"\xff\xfe\x00", b"X\xff: \xfe\r\n", method=b"GET"),
        "codings in a row": lambda path: _request(
            path, b"Transfer-Encoding: gzip, deflate, chunked\r\n", b"5\r\nhello\r\n" * 9_000
        ),
        "a size of a chunk in 8,000 digits": lambda path: _request(
            path, b"Transfer-Encoding: chunked\r\n", b"0" * 8_000 + b"1\r\n{\r\n0\r\n\r\n"
        ),
        "a change to HTTP/2": lambda path: _request(
            path,
            b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: " + b"A" * 7_000 + b"\r\n",
            method=b"GET",
        ),
        "a tunnel": lambda _: _request(b"169.254.169.254:80", b"", b"x" * _MIB, method=b"CONNECT"),
        "an Expect": lambda path: _request(path, b"Expect: 100-continue\r\nContent-Length: 2999999\r\n"),
    }
)
"""By name; each value makes bytes for a path that the server has."""
_GZIPPED: Final = gzip.compress(_SPACES * 100, 1)


def _build_record(kind: int, content: bytes) -> bytes:
    """Return a record of TLS (RFC 8446, 5.1)."""
    return bytes((kind, 3, 1)) + struct.pack(">H", len(content)) + content


def _build_hello(extension: int, *, whole: int = 0) -> bytes:
    """Return a ClientHello with an unknown extension of that size; `whole`: the size that it says to have."""
    data = struct.pack(">HH", 0xFACE, extension) + bytes(extension)
    body = b"\3\3" + bytes(32) + b"\0" + struct.pack(">HH", 2, 0x1301) + b"\1\0" + struct.pack(">H", len(data)) + data
    return b"\1" + (whole or len(body)).to_bytes(3, "big") + body


def _split_hello(size: int) -> bytes:
    hello = _build_hello(60_000)
    return b"".join(_build_record(22, hello[start : start + size]) for start in range(0, len(hello), size))


BROKEN_TLS: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "half a ClientHello": lambda: _build_record(22, _build_hello(200))[:100],
        "a ClientHello of 16 MB": lambda: _build_record(22, _build_hello(200, whole=(1 << 24) - 1)) + bytes(_MIB),
        "a ClientHello in records of one byte": lambda: _split_hello(1),
        "a ClientHello of 60 kB": lambda: _split_hello(16_000),
        "ClientHellos without an end": lambda: _build_record(22, _build_hello(200)) * 5_000,
        "empty records without an end": lambda: _build_record(22, b"") * 200_000,
        "alerts without an end": lambda: _build_record(21, b"\1\x5a") * 100_000,
        "heartbeats": lambda: _build_record(24, b"\1\xff\xff") * 50_000,
        "an end of the handshake before it": lambda: _build_record(20, b"\1") * 50_000,
        "a hello of SSL 2": lambda: b"\x80\x2e\1\0\2\0\x15\0\0\0\x10" + bytes(200_000),
        "HTTP without TLS": lambda: b"POST /pods HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000,
    }
)
"""Bytes that are sent in the place of a TLS handshake, or where none is expected."""

YAML_VARIANTS: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "aliases of a text of 1 MB": lambda: b"a: &a " + b"x" * _MIB + b"\nb: [" + b",".join([b"*a"] * 9_000) + b"]\n",
        "200,000 documents": lambda: b"---\na: 1\n" * 200_000,
        "100,000 empty documents": lambda: b"---\n" * 100_000,
        "300,000 keys": lambda: b"".join(b"k%d: 1\n" % number for number in range(300_000)),
        "a key of 7 MB": lambda: b"? " + b"k" * (7 * _MIB) + b"\n: 1\n",
        "8 MB of comments": lambda: b"# x\n" * (2 * _MIB - 10),
        "8 MB of line ends": lambda: b"\n" * (8 * _MIB - 10),
        "8 MB of spaces": lambda: b" " * (8 * _MIB - 10),
        "7 MB in quotes": lambda: b'a: "' + b"\\n" * (3 * _MIB) + b'"\n',
        "7 MB of numbers": lambda: b"[" + b"1," * (3 * _MIB) + b"]",
        "a directive without an end": lambda: b"%TAG ! " + b"x" * (7 * _MIB) + b"\n---\na: 1\n",
        "a letter of four bytes": lambda: b'a: "' + b"x" * (7 * _MIB) + "\U0001f600".encode() + b'"\n',
        "2 million separators of lines": lambda: "\u2028\u0085".encode() * _MIB,
        "1 million escapes of pairs": lambda: b'{"a": "' + rb"\ud83d\ude00" * 600_000 + b'"}',
        "documents that end": lambda: b"...\n" * 1_500_000,
        "10,000 tags": lambda: b"".join(b"%%TAG !t%d! tag:x\n" % number for number in range(10_000)) + b"---\na: 1\n",
        "200,000 anchors": lambda: b"".join(b"- &a%d x\n" % number for number in range(200_000)),
        "merges of many keys": lambda: (
            b"a: &a {"
            + b",".join(b"k%d: 1" % n for n in range(9_000))
            + b"}\n"
            + b"".join(b"b%d: {<<: *a}\n" % n for n in range(2_000))
        ),
        "a list of 9,000 mistakes": lambda: encode_json({"kind": "List", "apiVersion": "v1", "items": _MISTAKES * 9_000}),
    }
)
"""Files that are YAML, or almost."""
_MISTAKES: Final = [
    {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"name": "A_b"}, "spec": {"x": 1}}
]


def _build_template(**file: str) -> bytes:
    spec = {"template": {"spec": {"files": [file]}}}
    metadata = {"name": "win", "namespace": "default"}
    version = "bootstrap.cluster.x-k8s.io/v1beta1"
    return encode_json({"apiVersion": version, "kind": "KubeadmConfigTemplate", "metadata": metadata, "spec": spec})


def _pack_bomb(times: int) -> str:
    return base64.b64encode(gzip.compress(bytes(16 * _MIB)) * times).decode()


TEMPLATES: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "a packed file of 2 GiB": lambda: _build_template(path="C:/x", encoding="gzip+base64", content=_pack_bomb(128)),
        "a file of 4 MB": lambda: _build_template(path="C:/x", content="http://" * 600_000),
        "a path of 1 MB": lambda: _build_template(path="C:/" + "x/" * 500_000, content="x"),
        "a List of no list": lambda: b"kind: List\nitems: {a: b}\n",
        "a List of nothing": lambda: b"kind: List\nitems: null\n",
        "9,000 templates": lambda: encode_json({"kind": "List", "items": [json.loads(_build_template(path="C:/x"))] * 9_000}),
    }
)


def build_certificates(count: int) -> bytes:
    """Return a bundle of as many certificates, each another one and none of them valid any more."""
    return "".join(certificate(f"Corp {number}", ends="2021-01-01") for number in range(count)).encode()


def _build_huge_certificate() -> bytes:
    """Return a certificate whose modulus has 400,000 bits."""
    key = b"\2\x82\xc3\x51\0" + b"\xff" * 50_000
    text = base64.encodebytes(_encode_der(0x30, _encode_der(0x30, _encode_der(0x30, key, b"\2\3\1\0\1"))))
    return b"-----BEGIN CERTIFICATE-----\n" + text + b"-----END CERTIFICATE-----\n"


BUNDLES: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "60,000 blocks": lambda: build_tiny_blocks(60_000).encode(),
        "5,000 equal certificates": lambda: build_one_certificate(5_000).encode(),
        "1,500 certificates": lambda: build_certificates(1_500),
        "beginnings without an end": lambda: b"-----BEGIN CERTIFICATE-----\n" * 140_000,
        "a bundle of 1e5 certificates": lambda: build_one_certificate(100_000).encode(),
        "a million blocks": lambda: build_tiny_blocks(1_000_000).encode(),
        "4 MB of base64": lambda: b"-----BEGIN CERTIFICATE-----\n" + b"A" * 4_000_000 + b"\n-----END CERTIFICATE-----\n",
        "4 MB of line ends": lambda: b"-----BEGIN CERTIFICATE-----\n" + b"\r\n" * 2_000_000,
        "DER of 4 MB": lambda: b"\x30\x84\xff\xff\xff\xff" + b"\x30\x80" * 2_000_000,
        "certificates of 2,000 levels": lambda: encode_pem("CERTIFICATE", nest_der(2_000)) * 500,
        "PKCS#7 of 2,000 levels": lambda: encode_pem("PKCS7", nest_der(2_000)),
        "a letter of four bytes": lambda: b"x" * 3_900_000 + "\U0001f600".encode() + build_one_certificate(1).encode(),
        "PKCS#7 of junk": lambda: (
            b"-----BEGIN PKCS7-----\n" + base64.encodebytes(b"\x30\x80" * 1_000_000) + b"-----END PKCS7-----\n"
        ),
        "UTF-16 of junk": lambda: b"\xff\xfe" + b"\0\xd8" * 2_000_000,
        "a certificate with a huge RSA key": _build_huge_certificate,
    }
)


def encode_pem(label: str, der: bytes) -> bytes:
    """Return DER as PEM."""
    return f"-----BEGIN {label}-----\n".encode() + base64.encodebytes(der) + f"-----END {label}-----\n".encode()


def build_rsa_key(bits: int) -> bytes:
    """Return an RSA private key whose numbers are odd, and nothing more."""
    number = random.Random(_SEED).getrandbits(bits) | 1 | 1 << (bits - 1)
    half = random.Random(_SEED).getrandbits(bits // 2) | 1 | 1 << (bits // 2 - 1)
    values = (0, number, 65_537, number - 2, half, half + 2, half - 2, half - 4, half - 6)
    parts = (_encode_der(2, value.to_bytes(value.bit_length() // 8 + 1, "big")) for value in values)
    return encode_pem("RSA PRIVATE KEY", _encode_der(0x30, *parts))


def build_openssh_key(rounds: int) -> bytes:
    """Return a private key of OpenSSH behind a passphrase, derived by bcrypt with so many rounds (PROTOCOL.key)."""

    def field(data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + data

    options = field(field(bytes(16)) + struct.pack(">I", rounds))
    body = b"openssh-key-v1\0" + field(b"aes256-ctr") + field(b"bcrypt") + options + struct.pack(">I", 1)
    body += field(field(b"ssh-ed25519") + field(bytes(32))) + field(bytes(160))
    return encode_pem("OPENSSH PRIVATE KEY", body)


def nest_der(levels: int, tag: int = 0x30) -> bytes:
    """Return values of DER in each other."""
    value = b""
    for _ in range(levels):
        value = _encode_der(tag, value)
    return value


def _encode_integer(number: int) -> bytes:
    return _encode_der(2, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def build_dh_key() -> bytes:
    """Return a Diffie-Hellman private key whose prime OpenSSL tests for being one: its generator is not the usual one."""
    group = _encode_der(0x30, _encode_integer(GROUP_18), _encode_integer(5))
    algorithm = _encode_der(0x30, _encode_der(6, bytes.fromhex("2a864886f70d010301")), group)
    return encode_pem("PRIVATE KEY", _encode_der(0x30, _encode_integer(0), algorithm, _encode_der(4, _encode_integer(12345))))


def build_explicit_curve_key() -> bytes:
    """Return an elliptic-curve private key whose curve is written out, over a field of 8,192 bits."""
    field = _encode_der(0x30, _encode_der(6, bytes.fromhex("2a8648ce3d0101")), _encode_integer(GROUP_18))
    curve = _encode_der(0x30, _encode_der(4, b"\1" * 1024), _encode_der(4, b"\2" * 1024))
    order = _encode_der(4, b"\4" + b"\3" * 2048), _encode_integer(GROUP_18 - 2), _encode_integer(1)
    parameters = _encode_der(0xA0, _encode_der(0x30, _encode_integer(1), field, curve, *order))
    return encode_pem("EC PRIVATE KEY", _encode_der(0x30, _encode_integer(1), _encode_der(4, b"\1" * 1024), parameters))


PRIVATE_KEYS: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "an RSA key of 16,384 bits": lambda: build_rsa_key(16_384),
        "an RSA key of 100,000 bits": lambda: build_rsa_key(100_000),
        "a passphrase of 2**31 rounds": lambda: build_openssh_key(2**31),
        "a passphrase of 2**31 iterations": lambda: build_sealed_key(2**31 - 1).encode(),
        "8 MB of base64": lambda: encode_pem("OPENSSH PRIVATE KEY", bytes(6 * _MIB)),
        "8 MB of lines": lambda: b"-----BEGIN RSA PRIVATE KEY-----\n" + b"A\n" * 4 * _MIB,
        "8 MB of headers": lambda: b"-----BEGIN RSA PRIVATE KEY-----\n" + b"Proc-Type: 4,ENCRYPTED\n" * 300_000,
        "junk": lambda: random.Random(_SEED).randbytes(100_000),
        "a Diffie-Hellman key of a slow group": build_dh_key,
        "a slow group behind another block": lambda: encode_pem("OTHER PRIVATE KEY", b"junk") + build_dh_key(),
        "a curve that is written out": build_explicit_curve_key,
        "DER of 3,000 levels": lambda: encode_pem("PRIVATE KEY", nest_der(3_000)),
        "lengths of 4 GB": lambda: encode_pem("OPENSSH PRIVATE KEY", b"openssh-key-v1\0" + b"\xff" * 4_000),
    }
)
_POINT: Final = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
_PUBLIC: Final = base64.b64encode(struct.pack(">I", 11) + b"ssh-ed25519" + struct.pack(">I", 32) + _POINT).decode()
_HASHED: Final = f"|1|{base64.b64encode(bytes(20)).decode()}|{base64.b64encode(bytes(20)).decode()}"


def _build_line(names: str) -> bytes:
    """Return a line of known_hosts."""
    return f"{names} ssh-ed25519 {_PUBLIC}\n".encode()


KNOWN_HOSTS: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "honest": lambda: _build_line("10.0.0.7"),
        "40,000 names": lambda: _build_line(",".join(f"host-{number}" for number in range(40_000))),
        "20,000 lines": lambda: b"".join(_build_line(f"host-{number}") for number in range(20_000)),
        "10,000 hashed names": lambda: _build_line(_HASHED) * 10_000,
        "10,000 patterns": lambda: _build_line("*?*?*?*?*x") * 10_000,
        "a pattern of 30 stars": lambda: _build_line("*a" * 30 + "b"),
        "8 MB of comments": lambda: b"# x\n" * 2 * _MIB,
        "a line of 8 MB": lambda: b"host " + b"x" * 8 * _MIB,
        "an RSA key of 1,000,000 bits": lambda: b"10.0.0.7 ssh-rsa " + _encode_rsa(1_000_000) + b"\n",
        "100 RSA keys of 16,384 bits": lambda: (b"10.0.0.7 ssh-rsa " + _encode_rsa(16_384) + b"\n") * 100,
        "junk": lambda: random.Random(_SEED).randbytes(100_000),
    }
)


def _encode_rsa(bits: int) -> bytes:
    number = (random.Random(_SEED).getrandbits(bits) | 1 | 1 << (bits - 1)).to_bytes(bits // 8 + 1, "big")
    parts = (b"ssh-rsa", b"\1\0\1", number)
    return base64.b64encode(b"".join(struct.pack(">I", len(part)) + part for part in parts))


def build_tar_of(files: Mapping[str, bytes]) -> bytes:
    """Return a tar archive that is not packed."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def build_kit(name: str) -> bytes:
    """Return an archive that has the program."""
    if name.endswith(".zip"):
        return _pack_zip(zipfile.ZIP_DEFLATED, b"program")
    return gzip.compress(build_tar_of({NAME: b"program"}))


def build_image(*layers: bytes) -> bytes:
    """Return an image as `docker save` writes it, with these layers; without any, with the program."""
    chosen = layers or (build_tar_of({"k/kubelet.exe": b"program"}),)
    names = [f"{number}/layer.tar" for number in range(len(chosen))]
    manifest = encode_json([{"Layers": names}])
    return build_tar_of({"manifest.json": manifest, **dict(zip(names, chosen, strict=True))})


def _build_many(count: int) -> bytes:
    return b"".join(tarfile.TarInfo(f"file-{number}").tobuf() for number in range(1_000)) * (count // 1_000)


def _build_bomb(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return gzip.compress(entry.tobuf()) + gzip.compress(bytes(16 * _MIB)) * (size // (16 * _MIB))


def _build_long_name(kind: bytes, size: int) -> bytes:
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = kind, size
    return gzip.compress(header.tobuf(format=tarfile.GNU_FORMAT)) + gzip.compress(b"x" * size)


def _build_index_of_itself() -> bytes:
    digest = "a" * 64
    index = encode_json({"manifests": [{"digest": f"sha256:{digest}"}]})
    return build_tar_of({"index.json": index, f"blobs/sha256/{digest}": index})


def _build_linked_layer() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, target in (("0/layer.tar", "1/layer.tar"), ("1/layer.tar", "/etc/passwd")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    manifest = encode_json([{"Layers": ["0/layer.tar"]}])
    return out.getvalue()[: 2 * 512] + build_tar_of({"manifest.json": manifest})


IMAGES: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "a layer of 40,000 files": lambda: build_image(gzip.compress(_build_many(40_000))),
        "100,000 layers": lambda: build_tar_of({"manifest.json": encode_json([{"Layers": ["x"] * 100_000}])}),
        "100,000 parts": lambda: _build_many(100_000),
        "a program of 3 GiB": lambda: build_image(_build_bomb("k/kubelet.exe", 3 << 30)),
        "a packed program of 3 GiB": lambda: build_image(
            build_tar_of({"k/kubelet.exe.tar.gz": _build_bomb("kubelet.exe", 3 << 30)})
        ),
        "a name of 64 MB": lambda: build_image(_build_long_name(tarfile.GNUTYPE_LONGNAME, 64 * _MIB)),
        "a link of 64 MB": lambda: build_image(_build_long_name(tarfile.GNUTYPE_LONGLINK, 64 * _MIB)),
        "a header of 64 MB": lambda: build_image(_build_long_name(tarfile.XHDTYPE, 64 * _MIB)),
        "a manifest of 64 MB": lambda: build_tar_of({"manifest.json": b" " * 64 * _MIB}),
        "a manifest of numbers": lambda: build_tar_of({"manifest.json": b"[" + b"0," * 7_000_000 + b"0]"}),
        "a deep manifest": lambda: build_tar_of({"manifest.json": b"[" * 1_000_000}),
        "an index of itself": _build_index_of_itself,
        "broken gzip": lambda: build_image(build_broken_gzip()),
        "bzip2": lambda: build_image(bz2.compress(build_tar_of({"k/kubelet.exe": b"other"}))),
        "a layer that is a link": _build_linked_layer,
        "a path out of the image": lambda: build_tar_of({"manifest.json": encode_json([{"Layers": ["../../etc/passwd"]}])}),
    }
)
