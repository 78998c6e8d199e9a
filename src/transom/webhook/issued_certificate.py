"""A certificate that another program issues and renews: the required content of the replicas' Secret, and when.

Where its authority is another one, it is trusted for `overlap` before what it signed is shown, as in a rotation of our own.
"""

import secrets
from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import PublicKeyAlgorithmOID

from transom.common.key_algorithms import NOT_SERVABLE, is_servable_key
from transom.proxy.secret import Secret
from transom.webhook.webhook_secret import CertificateLifetimes, IssuedCertificate, WebhookSecret

_KEYS: Final = frozenset(
    {PublicKeyAlgorithmOID.RSAES_PKCS1_v1_5, PublicKeyAlgorithmOID.EC_PUBLIC_KEY, PublicKeyAlgorithmOID.ED25519}
)


class InvalidIssuedCertificate(Exception):
    """What was issued cannot be served; the message says why, and has no key."""


def compute_issued_secret(
    current: WebhookSecret | None,
    issued: IssuedCertificate,
    hosts: Iterable[str],
    now: datetime,
    ca_bundle: str | None,
    lifetimes: CertificateLifetimes,
) -> WebhookSecret:
    """Compute the required content of the Secret.

    `ca_bundle` is the registration's `caBundle`, None if no registration exists.

    Raises:
        InvalidIssuedCertificate: the certificate has ended, is for other names, or does not match its key, or its key has
            another type or size than those of TLS servers.
    """
    serving = _validate_issued_certificate(issued, tuple(hosts), now)
    if current is None:
        key = Secret(secrets.token_hex(32))
        return WebhookSecret(issued.authorities, Secret(""), issued.certificate, issued.key, key)
    known = _join_distinct(issued.authorities, current.authorities)
    if current.certificate == issued.certificate:
        # replicas and API servers have seen it for long: the authority before it goes
        settled = now - serving.not_valid_before_utc >= 2 * lifetimes.overlap
        return msgspec.structs.replace(current, authorities=issued.authorities) if settled else current
    shown = x509.load_pem_x509_certificate(current.certificate.encode())
    heard = ca_bundle is None or all(pem in ca_bundle for pem in _split_pems(issued.authorities))
    waited = now - serving.not_valid_before_utc >= lifetimes.overlap
    same = set(_split_pems(issued.authorities)) == set(_split_pems(current.authorities))
    if same or (heard and waited) or shown.not_valid_after_utc <= now:
        return WebhookSecret(known, Secret(""), issued.certificate, issued.key, current.hash_key)
    return msgspec.structs.replace(current, authorities=known)


def compute_issued_rotation_delay(
    current: WebhookSecret, issued: IssuedCertificate, now: datetime, lifetimes: CertificateLifetimes
) -> float:
    """When to look again: at the next step, or in an hour. A renewal is heard of."""
    if current.certificate == issued.certificate and current.authorities == issued.authorities:
        return 3600.0
    made = x509.load_pem_x509_certificate(issued.certificate.encode()).not_valid_before_utc
    steps = 2 if current.certificate == issued.certificate else 1
    return min(3600.0, max(1.0, (made + steps * lifetimes.overlap - now).total_seconds()))


def _validate_issued_certificate(issued: IssuedCertificate, hosts: tuple[str, ...], now: datetime) -> x509.Certificate:
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        serving = x509.load_pem_x509_certificate(issued.certificate.encode())
        # before either key is loaded: OpenSSL works on some for minutes
        if serving.public_key_algorithm_oid not in _KEYS or not is_servable_key(issued.key.reveal()):
            raise InvalidIssuedCertificate(NOT_SERVABLE)
        _split_pems(issued.authorities)
        private = load_pem_private_key(issued.key.reveal().encode(), None)
        fits = private.public_key().public_bytes(*form) == serving.public_key().public_bytes(*form)
        named = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound):
        raise InvalidIssuedCertificate("it cannot be read") from None
    if not fits:
        raise InvalidIssuedCertificate("it does not match its key")
    if serving.not_valid_after_utc <= now:
        raise InvalidIssuedCertificate(f"it ended at {serving.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}")
    if missing := [host for host in hosts if host not in {str(item.value) for item in named}]:
        raise InvalidIssuedCertificate(f"it is not for {', '.join(missing)}")
    return serving


def _split_pems(text: str) -> list[str]:
    return [
        pem_x509_certificate.public_bytes(Encoding.PEM).decode()
        for pem_x509_certificate in x509.load_pem_x509_certificates(text.encode())
    ]


def _join_distinct(*texts: str) -> str:
    return "".join(dict.fromkeys(pem for text in texts for pem in _split_pems(text)))
