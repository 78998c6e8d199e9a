"""Trust bundles: PEM in, certificates out, in order, each once; and the ConfigMaps that request them by label.

PEM is read as RFC 7468 writes it, with any line endings and with text between the blocks, which is left out.
"""

import binascii
import contextlib
import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from transom.proxy.objects import ConfigMap
from transom.proxy.pem_text import FILE_PATH, LOST_LINE_BREAKS, is_encoded_pem, is_file_path

if TYPE_CHECKING:
    from cryptography import x509

MAX_BUNDLE: Final = 4 << 20
"""Bytes. A ConfigMap holds 1 MiB (kubernetes.io, "ConfigMaps"), a file of the system's CAs about 250 kB."""
MAX_CERTIFICATE: Final = 64 << 10
"""Bytes of DER. Real ones have less than 10 kB."""
EXPIRES_SOON: Final = timedelta(days=30)

# begins with a literal, which the engine searches for without looking at each line
_MARKER = re.compile(r"-----(BEGIN|END) ([A-Z0-9][A-Z0-9 #]*)-----(?=[ \t]*(?:\n|\Z))")
_JOINED = "----------BEGIN "
"""The end of an END line and the next BEGIN line, as `cat a b` joins files without a line break at the end."""
_UNREADABLE = "(name cannot be read)"
_UNDECODED = (ValueError, TypeError)
"""The exceptions of cryptography for a name, which it decodes when it is read: a common name may be a bit string."""
PRIVATE_KEY: Final = "this is a private key, not a certificate"
_BEGIN = re.compile(r"-----BEGIN CERTIFICATE-----[ \t]*[^\s]")
INJECT_LABEL = "transom.dev/inject-trusted-cabundle"
OPENSHIFT_LABEL = "config.openshift.io/inject-trusted-cabundle"
SYSTEM_CA_FILE = "/etc/ssl/certs/ca-certificates.crt"
"""Where Debian and its images have the system's CAs."""


class Certificate(msgspec.Struct, frozen=True, eq=False):
    """A certificate: its DER bytes, and what they say. Two are equal when their bytes are."""

    der: bytes
    parsed: Any
    """The `cryptography.x509.Certificate`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self.der == other.der

    def __hash__(self) -> int:
        return hash(self.der)

    def __repr__(self) -> str:
        return f"Certificate({self.subject}, sha256 {self.sha256})"

    @property
    def subject(self) -> str:
        """The subject as RFC 4514."""
        return _format_name(self.parsed, "subject")

    @property
    def issuer(self) -> str:
        """The issuer as RFC 4514."""
        return _format_name(self.parsed, "issuer")

    @property
    def serial(self) -> str:
        """The serial number in lower-case hex."""
        with warnings.catch_warnings():
            # old roots have one that is zero or negative
            warnings.simplefilter("ignore")
            return f"{self.parsed.serial_number:x}"

    @property
    def sha1(self) -> str:
        """The thumbprint as Windows names it: SHA-1 in upper-case hex."""
        return hashlib.sha1(self.der, usedforsecurity=False).hexdigest().upper()

    @property
    def sha256(self) -> str:
        """SHA-256 in lower-case hex."""
        return hashlib.sha256(self.der).hexdigest()

    @property
    def not_before(self) -> datetime:
        """The beginning of its life, UTC."""
        moment: datetime = self.parsed.not_valid_before_utc
        return moment

    @property
    def not_after(self) -> datetime:
        """The end of its life, UTC."""
        moment: datetime = self.parsed.not_valid_after_utc
        return moment

    @property
    def self_issued(self) -> bool:
        """Whether subject and issuer are the same (RFC 5280, section 3.2): a root; all others are intermediates."""
        names = _parse_names(self.parsed)
        return names is not None and names[0] == names[1]

    @property
    def is_authority(self) -> bool:
        """Whether it may issue others as Go reads it (crypto/x509, CheckSignatureFrom): one of version 1 does not say."""
        from cryptography import x509

        if self.parsed.version is not x509.Version.v3:
            return True
        try:
            constraints = self.parsed.extensions.get_extension_for_class(x509.BasicConstraints)
        except x509.ExtensionNotFound:
            return False
        except (*_UNDECODED, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
            # extensions that cannot be read say nothing
            return True
        return bool(constraints.value.ca)

    @property
    def has_no_extensions(self) -> bool:
        """Whether it has version 1, which has no basic constraints."""
        from cryptography import x509

        return self.parsed.version is x509.Version.v1

    @property
    def store(self) -> Literal["ROOT", "CA"]:
        """The Windows store that it belongs to."""
        return "ROOT" if self.self_issued else "CA"


class Problem(msgspec.Struct, frozen=True):
    """What is wrong at one place of a bundle: the block's number and its line, both from 1. No part of the block is in it."""

    severity: Literal["error", "warning"]
    index: int
    line: int
    message: str

    def __str__(self) -> str:
        return f"certificate {self.index} (line {self.line}): {self.message}"


class Bundle(msgspec.Struct, frozen=True):
    """What was read: the certificates, and what is wrong."""

    certificates: tuple[Certificate, ...] = ()
    problems: tuple[Problem, ...] = ()


class ReadBundle(msgspec.Struct, frozen=True):
    """A bundle out of a file: `form` is how it is written there, `text` its text; None for what is none."""

    bundle: Bundle
    form: Literal["PEM", "DER", "PKCS#7", "UTF-16"]
    text: str | None = None


def read_bundle(data: bytes) -> ReadBundle:
    """Read the certificates of a file: PEM as `parse_bundle`, and what Windows and its tools write.

    That is one certificate in DER (`.cer`), PKCS#7 in DER or PEM (`.p7b`), and PEM in UTF-16.
    """
    if (text := decode_utf16(data)) is not None:
        return ReadBundle(parse_bundle(text), "UTF-16", text)
    if _is_der(data) or data.lstrip().startswith((b"-----BEGIN PKCS7-----", b"-----BEGIN CMS-----")):
        der = data if _is_der(data) else None
        if der is not None and (certificate := _parse_der(der)) is not None:
            return ReadBundle(Bundle((certificate,)), "DER")
        if (certificates := _parse_pkcs7(data)) is not None:
            return ReadBundle(Bundle(certificates), "PKCS#7")
    return ReadBundle(parse_bundle(data), "PEM", data.decode("utf-8-sig", "replace"))


def decode_utf16(data: bytes) -> str | None:
    """Return the text of UTF-16 with a byte order mark, as PowerShell's `>` and Notepad write it; None for another text."""
    if data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return None
    return data.decode("utf-16", "replace")


def _is_der(data: bytes) -> bool:
    """Return True for what begins as a sequence in DER does and holds no PEM."""
    return data[:1] == b"\x30" and b"-----BEGIN" not in data


def _parse_pkcs7(data: bytes) -> tuple[Certificate, ...] | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs7

    load = pkcs7.load_der_pkcs7_certificates if _is_der(data) else pkcs7.load_pem_pkcs7_certificates
    with contextlib.suppress(ValueError, UnsupportedAlgorithm), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(dict.fromkeys(Certificate(item.public_bytes(Encoding.DER), item) for item in load(data)))
    return None


def parse_bundle(text: str | bytes) -> Bundle:
    """Read a PEM bundle. Never raises: unreadable content is a problem with severity `error`.

    The certificates come in order, each once. A bundle without any certificate has no problem of its own: the caller
    decides whether that is an error. Blocks that are not certificates (CRLs, requests) are warnings and left out.
    """
    if len(text) > MAX_BUNDLE:
        return _build_refusal(f"the bundle has {len(text):,} bytes; at most {MAX_BUNDLE:,} are read")
    if isinstance(text, bytes):
        if _is_der(text):
            return _build_refusal("this is DER, not PEM: convert it with `openssl x509 -inform der -in FILE`")
        text = text.decode("utf-8", "replace")
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    certificates: dict[Certificate, None] = {}
    problems: list[Problem] = []
    with warnings.catch_warnings():
        # cryptography warns of serial numbers that are zero or negative, which old roots have
        warnings.simplefilter("ignore")
        line, counted = 1, 0
        for index, (start, label, body) in enumerate(_iter_blocks(text), 1):
            line, counted = line + text.count("\n", counted, start), start
            read = _parse_certificate(label, body)
            if isinstance(read, Certificate):
                certificates.setdefault(read)
            else:
                problems.append(Problem(read[0], index, line, read[1]))
    return Bundle(tuple(certificates), tuple(problems))


def explain_missing_certificates(text: str) -> str | None:
    """Return why a string holds no certificate, although its writer put one there in another form; None if none is in it."""
    if is_encoded_pem(text, "CERTIFICATE"):
        return "is base64 of PEM: put the PEM itself there, which begins with `-----BEGIN CERTIFICATE-----`"
    if _BEGIN.search(text):
        return LOST_LINE_BREAKS
    return FILE_PATH if is_file_path(text) else None


def format_pem(certificates: Iterable[Certificate]) -> str:
    r"""Format the certificates as PEM: 64 characters a line, `\n` line ends, nothing else."""
    blocks = []
    for certificate in certificates:
        encoded = binascii.b2a_base64(certificate.der, newline=False).decode()
        lines = "\n".join(encoded[at : at + 64] for at in range(0, len(encoded), 64))
        blocks.append(f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
    return "".join(blocks)


def iter_certificate_warnings(certificates: Iterable[Certificate], now: datetime) -> Iterator[tuple[Certificate, str]]:
    """Yield warnings about a valid bundle: certificates that are expired or not yet valid, missing issuers.

    Also certificates that are not CAs: the usual mistake is the proxy's own.
    """
    certificates = tuple(certificates)
    subjects = None
    for certificate in certificates:
        after, before = certificate.not_after, certificate.not_before
        if after < now:
            yield certificate, f"expired on {after:%Y-%m-%d}: {certificate.subject}"
        elif after - now < EXPIRES_SOON:
            yield certificate, f"expires on {after:%Y-%m-%d}: {certificate.subject}"
        if before > now:
            yield certificate, f"is not valid before {before:%Y-%m-%d}: {certificate.subject}"
        if certificate.serial.startswith("-"):
            yield (
                certificate,
                f"has a negative serial number, which programs in Go 1.23 and newer refuse, containerd and the kubelet among "
                f"them: {certificate.subject}; ask its issuer for another one",
            )
        if not certificate.is_authority:
            yield (
                certificate,
                f"is not a CA (basic constraints): {certificate.subject}; if it is the proxy's own, "
                "the bundle needs the CA that signed it",
            )
        elif certificate.has_no_extensions and not certificate.self_issued:
            yield (
                certificate,
                f"is probably not a CA: {certificate.subject}; its version 1 has no mark of a CA, and it has another issuer "
                f"({certificate.issuer}). If it is the proxy's own, the bundle needs the CA that signed it",
            )
        if not certificate.self_issued:
            if subjects is None:
                subjects = {names[0] for other in certificates if (names := _parse_names(other.parsed))}
            names = _parse_names(certificate.parsed)
            if names is None or names[1] not in subjects:
                yield (
                    certificate,
                    f"is an intermediate whose issuer is not in the bundle: {certificate.subject}; add the issuer "
                    f"({certificate.issuer}): programs in Go for Windows do not trust an intermediate alone",
                )


def _build_refusal(message: str) -> Bundle:
    return Bundle(problems=(Problem("error", 1, 1, message),))


def _iter_blocks(text: str) -> Iterator[tuple[int, str, str | None]]:
    """Each block: where it begins, its label, and its body; None for a block that has no end of its own."""
    begin: re.Match[str] | None = None
    for marker in _MARKER.finditer(text):
        if text[text.rfind("\n", 0, marker.start()) + 1 : marker.start()].strip():
            continue
        if marker[1] == "BEGIN":
            if begin:
                yield begin.start(), begin[2], None
            begin = marker
        elif begin and (begin[2] == marker[2] or _has_joined_blocks(text[begin.end() : marker.start()])):
            yield begin.start(), begin[2], text[begin.end() : marker.start()]
            begin = None
        else:
            yield marker.start() if begin is None else begin.start(), marker[2] if begin is None else begin[2], None
            begin = None
    if begin:
        yield begin.start(), begin[2], None


def _has_joined_blocks(body: str) -> bool:
    """Return True if a body has the END line of one block and the BEGIN line of the next, without a line break."""
    return _JOINED in body


def _parse_certificate(label: str, body: str | None) -> Certificate | tuple[Literal["error", "warning"], str]:
    if "PRIVATE KEY" in label or (body is not None and _has_joined_blocks(body) and "PRIVATE KEY-----" in body):
        return "error", PRIVATE_KEY
    if body is None:
        return "error", f"the block `{label}` has no matching BEGIN and END line"
    if _has_joined_blocks(body):
        return "error", "no line break between the END line of this block and the BEGIN line of the next: insert one"
    if label == "TRUSTED CERTIFICATE":
        return "error", "this is OpenSSL's TRUSTED CERTIFICATE: write it as CERTIFICATE with `openssl x509 -in FILE`"
    if label in ("PKCS7", "CMS"):
        return "error", "this is PKCS#7: write its certificates as PEM with `openssl pkcs7 -print_certs`"
    if label == "X509 CERTIFICATE":
        return "error", "the label X509 CERTIFICATE is read by few programs: write CERTIFICATE"
    if label != "CERTIFICATE":
        return "warning", f"a block `{label}` is not a certificate and is ignored"
    if len(body) > MAX_CERTIFICATE * 4 // 3 + 4096:
        return "error", f"the certificate is too large: at most {MAX_CERTIFICATE:,} bytes are read"
    try:
        der = binascii.a2b_base64("".join(body.split()), strict_mode=True)
    except ValueError:
        return "error", "the content is not base64"
    return _parse_der(der) or ("error", "the content is not an X.509 certificate")


def _parse_der(der: bytes) -> Certificate | None:
    # a tenth of a second to import: not for those who have no certificates
    from cryptography import x509

    try:
        return Certificate(der, x509.load_der_x509_certificate(der))
    except (ValueError, TypeError, x509.InvalidVersion):
        return None


def parse_subject(der: bytes) -> str:
    """Return the subject of a certificate as RFC 4514, or a note that it is unreadable."""
    certificate = _parse_der(der)
    return certificate.subject if certificate is not None else _UNREADABLE


def _parse_names(parsed: "x509.Certificate") -> "tuple[x509.Name, x509.Name] | None":
    with contextlib.suppress(*_UNDECODED), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parsed.subject, parsed.issuer
    return None


def _format_name(parsed: "x509.Certificate", which: Literal["subject", "issuer"]) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name: x509.Name = getattr(parsed, which)
            return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name.rfc4514_string())
    except _UNDECODED:
        return _UNREADABLE


class BundleTarget(msgspec.Struct, frozen=True):
    """A ConfigMap that gets `ca-bundle.crt`; with `bundle_only` without the system's CAs."""

    namespace: str
    name: str
    bundle_only: bool


def iter_bundle_targets(config_maps: Iterable[ConfigMap], *, openshift: bool) -> Iterator[BundleTarget]:
    """Those that ask. OpenShift's own label is its network operator's if a `Proxy/cluster` exists (`openshift`)."""
    for item in config_maps:
        labels = item.metadata.labels
        value = labels.get(INJECT_LABEL)
        is_requested = value in ("true", "bundle-only") or (not openshift and labels.get(OPENSHIFT_LABEL) == "true")
        if is_requested:
            yield BundleTarget(item.metadata.namespace or "", item.metadata.name, value == "bundle-only")


def format_trust_store(bundle: Iterable[Certificate], system: str) -> str:
    """Format the replacement of a trust store: the system's CAs, then the bundle, each certificate once."""
    return format_pem(dict.fromkeys((*parse_bundle(system).certificates, *bundle)))
