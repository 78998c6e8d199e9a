"""Trust bundles: what is read, in which order, and what is said of the rest."""

import base64
import hashlib
import ssl
import subprocess
import warnings
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from tests.support.bundles import NOW, certificate, private_key
from tests.support.command import run

from transom.proxy.trust import MAX_BUNDLE, Certificate, format_pem, iter_certificate_warnings, parse_bundle, parse_subject

ROOT = certificate("Root")
ISSUING = certificate("Issuing", "Root")


def der(text: str) -> bytes:
    return x509.load_pem_x509_certificate(text.encode()).public_bytes(Encoding.DER)


def broken(label: str, body: str = "AAAA\n") -> str:
    return f"-----BEGIN {label}-----\n{body}-----END {label}-----\n"


@pytest.mark.parametrize(
    ("text", "held"),
    [
        (ROOT, [ROOT]),
        (ROOT + ISSUING, [ROOT, ISSUING]),
        (ISSUING + ROOT, [ISSUING, ROOT]),
        (ROOT + ISSUING + ROOT, [ROOT, ISSUING]),
        (ROOT.replace("\n", "\r\n") + ISSUING, [ROOT, ISSUING]),
        ("# Corp\nsubject: CN=Root\n" + ROOT + "\n\n  \n# more\n" + ISSUING + "# end", [ROOT, ISSUING]),
        (ROOT.rstrip("\n"), [ROOT]),
        ("\n".join("    " + line for line in ROOT.splitlines()), [ROOT]),
        ("\ufeff" + ROOT, [ROOT]),
        (ROOT.replace("\n", "\r"), [ROOT]),
        ("", []),
        ("nothing", []),
        (ROOT + broken("X509 CRL"), [ROOT]),
    ],
)
def test_what_is_read(text: str, held: list[str]) -> None:
    bundle = parse_bundle(text)
    assert not [problem for problem in bundle.problems if problem.severity == "error"]
    assert [certificate.der for certificate in bundle.certificates] == [der(item) for item in held]
    assert parse_bundle(text.encode()).certificates == bundle.certificates
    assert parse_bundle(format_pem(bundle.certificates)).certificates == bundle.certificates


@pytest.mark.parametrize(
    ("text", "index", "line", "says"),
    [
        (broken("CERTIFICATE"), 1, 1, "not an X.509 certificate"),
        (ROOT + "# comment\n" + broken("CERTIFICATE"), 2, len(ROOT.splitlines()) + 2, "not an X.509 certificate"),
        (broken("CERTIFICATE", "é\n"), 1, 1, "not base64"),
        (broken("CERTIFICATE", ""), 1, 1, "not an X.509 certificate"),
        (ROOT.replace("-----END", "-----Ende"), 1, 1, "no matching BEGIN and END"),
        (ROOT.replace("-----END CERTIFICATE-----\n", "") + ROOT, 1, 1, "no matching BEGIN and END"),
        ("-----END CERTIFICATE-----\n", 1, 1, "no matching BEGIN and END"),
        (private_key(), 1, 1, "this is a private key"),
        (broken("RSA PRIVATE KEY"), 1, 1, "this is a private key"),
        (broken("ENCRYPTED PRIVATE KEY"), 1, 1, "this is a private key"),
        (broken("TRUSTED CERTIFICATE"), 1, 1, "openssl x509"),
        (broken("X509 CERTIFICATE"), 1, 1, "write CERTIFICATE"),
        (broken("PKCS7"), 1, 1, "openssl pkcs7"),
        (broken("CERTIFICATE", "QUJD\n" * 30_000), 1, 1, "too large"),
        ("x" * (MAX_BUNDLE + 1), 1, 1, "at most"),
        (ROOT.rstrip("\n") + ISSUING, 1, 1, "no line break"),
        ("# c\n" + ROOT.rstrip("\n") + ISSUING.rstrip("\n") + ROOT, 1, 2, "no line break"),
        (ISSUING + ROOT.rstrip("\n") + ISSUING, 2, len(ISSUING.splitlines()) + 1, "no line break"),
        (ROOT.rstrip("\n") + private_key(), 1, 1, "this is a private key"),
        (private_key().rstrip("\n") + ROOT, 1, 1, "this is a private key"),
        (ROOT.rstrip("\n") + broken("X509 CRL"), 1, 1, "no line break"),
    ],
)
def test_what_is_refused(text: str, index: int, line: int, says: str) -> None:
    (problem,) = [problem for problem in parse_bundle(text).problems if problem.severity == "error"][:1]
    assert (problem.index, problem.line) == (index, line)
    assert says in problem.message


def test_der_is_told_apart() -> None:
    (problem,) = parse_bundle(der(ROOT)).problems
    assert "this is DER, not PEM" in problem.message


def test_five_hundred_certificates() -> None:
    single = [certificate(f"Root {number}") for number in range(500)]
    bundle = parse_bundle("".join(single))
    assert [held.der for held in bundle.certificates] == [der(item) for item in single]
    assert not bundle.problems


def test_a_bundle_as_a_system_has_it() -> None:
    """The system's own bundle is read whole, the same number as `cryptography` finds in it."""
    data = Path("/etc/ssl/certs/ca-certificates.crt").read_bytes()
    bundle = parse_bundle(data)
    assert not bundle.problems
    with warnings.catch_warnings(action="ignore"):
        theirs = x509.load_pem_x509_certificates(data)
    assert list(dict.fromkeys(c.public_bytes(Encoding.DER) for c in theirs)) == [held.der for held in bundle.certificates]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ROOT, []),
        (ROOT + ISSUING, []),
        (ISSUING, ["an intermediate whose issuer is not in the bundle"]),
        (certificate("Old", ends="2026-05-31"), ["expired on 2026-05-31"]),
        (certificate("Soon", ends="2026-06-30"), ["expires on 2026-06-30"]),
        (certificate("Later", ends="2026-07-03"), []),
        (certificate("Future", begins="2030-01-01"), ["not valid before 2030-01-01"]),
        (certificate("proxy.corp.example", authority=False), ["is not a CA (basic constraints): CN=proxy.corp.example"]),
        (certificate("proxy.corp.example", authority=None), ["is not a CA (basic constraints)"]),
        (ROOT + certificate("proxy.corp.example", "Root", authority=False), ["is not a CA (basic constraints)"]),
    ],
)
def test_concerns(text: str, says: list[str]) -> None:
    found = [message for _, message in iter_certificate_warnings(parse_bundle(text).certificates, NOW)]
    assert len(found) == len(says)
    assert all(part in message for part, message in zip(says, found, strict=True))


def as_version_1(text: str) -> str:
    """Return a certificate without extensions as one of version 1; its signature no longer fits."""

    def read_content(data: bytes) -> bytes:
        return data[2 + data[1] - 0x80 :]

    def build_sequence(content: bytes) -> bytes:
        size = len(content).to_bytes(1 if len(content) < 256 else 2, "big")
        return bytes((0x30, 0x80 + len(size))) + size + content

    content = read_content(der(text))
    end = 2 + content[1] - 0x80 + int.from_bytes(content[2 : 2 + content[1] - 0x80], "big")
    version = b"\xa0\x03\x02\x01\x02"
    data = build_sequence(build_sequence(read_content(content[:end]).removeprefix(version)) + content[end:])
    return format_pem([Certificate(data, None)])


def test_version_1_is_a_concern_unless_self_issued() -> None:
    own = as_version_1(certificate("Old Root", authority=None))
    issued = as_version_1(certificate("proxy.corp.example", "Root", authority=None))
    assert list(iter_certificate_warnings(parse_bundle(own).certificates, NOW)) == []
    (found,) = (message for _, message in iter_certificate_warnings(parse_bundle(ROOT + issued).certificates, NOW))
    assert "is probably not a CA: CN=proxy.corp.example" in found


def with_negative_serial(text: str) -> str:
    """Return a certificate whose serial number has the sign bit; nothing else of it changes."""
    data = bytearray(der(text))
    # version 3, then the INTEGER with the serial number: its tag, its length, its bytes (RFC 5280, 4.1)
    start = data.index(b"\xa0\x03\x02\x01\x02\x02") + 7
    data[start] |= 0x80
    return format_pem([Certificate(bytes(data), None)])


def test_negative_serial_number_is_a_concern() -> None:
    (found,) = parse_bundle(with_negative_serial(ROOT)).certificates
    assert found.serial.startswith("-")
    assert [message for _, message in iter_certificate_warnings([found], NOW) if "Go 1.23" in message]
    assert not [
        message for _, message in iter_certificate_warnings(parse_bundle(ROOT).certificates, NOW) if "serial" in message
    ]


def test_inspect_says_what_openssl_says(tmp_path: Path) -> None:
    file = tmp_path / "bundle.pem"
    file.write_text(ROOT + ISSUING + ROOT)
    first, second = run("trust", "inspect", str(file), "-o", "json").json
    options = "-noout -subject -nameopt RFC2253 -serial -fingerprint -sha1 -dates -dateopt iso_8601"
    result = subprocess.run(["openssl", "x509", *options.split()], input=ROOT, capture_output=True, text=True, check=True)
    said = dict(line.split("=", 1) for line in result.stdout.splitlines())
    assert first == {
        "subject": said["subject"],
        "issuer": said["subject"],
        "serial": said["serial"].lower().lstrip("0"),
        "sha1": said["sha1 Fingerprint"].replace(":", ""),
        "sha256": hashlib.sha256(der(ROOT)).hexdigest(),
        "notBefore": said["notBefore"].replace(" ", "T"),
        "notAfter": said["notAfter"].replace(" ", "T"),
        "store": "ROOT",
    }
    assert (second["store"], second["issuer"]) == ("CA", first["subject"])


def test_a_serial_number_of_old_roots_is_shown_without_a_word_of_the_library(tmp_path: Path) -> None:
    """RFC 5280 forbids negative ones; the system's bundle has some."""
    raw = bytearray(der(ROOT))
    at = raw.index(b"\xa0\x03\x02\x01\x02\x02") + 7
    raw[at] = 0x80
    file = tmp_path / "old.pem"
    file.write_text(ssl.DER_cert_to_PEM_cert(bytes(raw)))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ran = run("trust", "inspect", str(file), "-o", "json")
    assert ran.json[0]["serial"].startswith("-")
    assert [str(item.message) for item in said] == []
    assert ran.err == ""


def test_inspect_refuses(tmp_path: Path) -> None:
    file = tmp_path / "bundle.pem"
    for text, says in (
        (ROOT + broken("CERTIFICATE"), f"certificate 2 (line {len(ROOT.splitlines()) + 1})"),
        ("nothing", "no certificate found"),
        (private_key(), "this is a private key, not a certificate\n"),
    ):
        file.write_text(text)
        ran = run("trust", "inspect", str(file), "-o", "json")
        assert (ran.code, ran.out) == (2, "")
        assert says in ran.err
    assert run("trust", "inspect", str(tmp_path / "nobody.pem")).code == 2


def test_inspect_for_people(tmp_path: Path) -> None:
    file = tmp_path / "bundle.pem"
    file.write_text(ISSUING)
    ran = run("trust", "inspect", str(file))
    assert ran.code == 0
    assert "store    CA" in ran.out
    assert "issuer is not in the bundle" in ran.err


def test_a_name_that_is_a_string_of_bits() -> None:
    """cryptography decodes a name when it is asked for, and raises TypeError for it (BIT STRING in a common name)."""
    made = der(certificate("Odd CA"))
    odd = made.replace(bytes.fromhex("06035504030c"), bytes.fromhex("060355040303"))
    assert odd != made
    found = parse_bundle(broken("CERTIFICATE", base64.encodebytes(odd).decode()))
    assert [item.subject for item in found.certificates] == ["(name cannot be read)"]
    assert parse_subject(odd) == "(name cannot be read)"
    assert parse_subject(b"none") == "(name cannot be read)"
