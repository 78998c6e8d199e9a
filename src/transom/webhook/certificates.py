"""The certificate authority and the serving certificate: what a Secret holds, and what it has to hold next.

A rotation of the authority takes three steps, with `overlap` between them. First both are trusted, the new and the old
one, then it signs what is served, then the old one goes. So every client trusts what it is shown. The times are read from the
certificates themselves, so that any replica can continue where another stopped.
"""

import hmac
import ipaddress
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, PublicKeyAlgorithmOID

from transom.common.key_algorithms import is_servable_key
from transom.proxy.secret import Secret
from transom.webhook.webhook_secret import LIVES, CertificateLifetimes, WebhookSecret, parse_webhook_secret

BACKDATED: Final = timedelta(hours=1)
"""How much earlier than it was made a certificate is valid from: clocks differ."""


class WrongKeyType(ValueError):
    """A private key that is not for an elliptic curve: Transom makes no other, and signs with no other."""

    def __init__(self) -> None:
        super().__init__("the private key is not for an elliptic curve")


def parse_matching_secret(data: Mapping[str, Secret]) -> WebhookSecret | None:
    """Return the contents of a Secret's data; None if a part is missing or does not match the others."""
    contents = parse_webhook_secret(data)
    if contents is None:
        return None
    try:
        authorities, serving = _parse_certificates(contents)
        # before a key is loaded: OpenSSL works on those of some types for minutes
        if any(item.public_key_algorithm_oid != PublicKeyAlgorithmOID.EC_PUBLIC_KEY for item in (*authorities, serving)):
            return None
        fits = _matches_certificate(contents.key, serving) and _matches_certificate(contents.authority_key, authorities[0])
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        return None
    return contents if fits and _find_signer(serving, authorities) is not None else None


def parse_readable_secret(data: Mapping[str, Secret]) -> WebhookSecret | None:
    """Return the contents of a Secret's data, also with certificates of another issuer; None if they cannot be parsed."""
    contents = parse_webhook_secret(data)
    try:
        if contents is not None:
            _parse_certificates(contents)
    except ValueError:
        return None
    return contents


def compute_next_secret(
    current: WebhookSecret | None,
    hosts: Iterable[str],
    now: datetime,
    ca_bundle: str | None,
    lifetimes: CertificateLifetimes = LIVES,
) -> WebhookSecret:
    """Compute the required content of the Secret; `current` itself if it is valid.

    `hosts` are the names and addresses of the server. `ca_bundle` is the registration's `caBundle`, None if
    no registration exists: an authority signs what is served only when it is in there, for `overlap` at least.
    """
    wanted = tuple(dict.fromkeys(hosts))
    if current is None:
        return _create_webhook_secret(wanted, now, lifetimes)
    authorities, serving = _parse_certificates(current)
    newest = authorities[0]
    signer = _find_signer(serving, authorities)
    if newest.not_valid_after_utc <= now:
        return msgspec.structs.replace(_create_webhook_secret(wanted, now, lifetimes), hash_key=current.hash_key)
    if signer is newest and _needs_renewal(newest, now, lifetimes):
        made, key = _create_authority(now, lifetimes)
        return msgspec.structs.replace(current, authorities=_to_pem(made) + current.authorities, authority_key=key)
    settled = now - _get_creation_time(newest) >= lifetimes.overlap and (ca_bundle is None or _to_pem(newest) in ca_bundle)
    if (signer is newest or settled or serving.not_valid_after_utc <= now) and (
        signer is not newest or _needs_renewal(serving, now, lifetimes) or _list_alternative_names(serving) != set(wanted)
    ):
        certificate, key = _create_serving_certificate(wanted, newest, current.authority_key, now, lifetimes)
        return msgspec.structs.replace(current, certificate=certificate, key=key)
    if signer is newest and len(authorities) > 1 and now - _get_creation_time(serving) >= lifetimes.overlap:
        return msgspec.structs.replace(current, authorities=_to_pem(newest))
    return current


def compute_rotation_delay(current: WebhookSecret, now: datetime, lifetimes: CertificateLifetimes = LIVES) -> float:
    """When to look again: at the next step of a rotation, or at the end of a life."""
    authorities, serving = _parse_certificates(current)
    if len(authorities) > 1:
        newest = authorities[0]
        began = _get_creation_time(serving) if _find_signer(serving, authorities) is newest else _get_creation_time(newest)
        return max(1.0, (began + lifetimes.overlap - now).total_seconds())
    ends = (
        authority.not_valid_after_utc - (authority.not_valid_after_utc - _get_creation_time(authority)) * lifetimes.renew
        for authority in (*authorities, serving)
    )
    return min(3600.0, max(1.0, (min(ends) - now).total_seconds()))


def get_expiry(current: WebhookSecret) -> datetime:
    """When the serving certificate ends."""
    return _parse_certificates(current)[1].not_valid_after_utc


def _create_webhook_secret(hosts: tuple[str, ...], now: datetime, lifetimes: CertificateLifetimes) -> WebhookSecret:
    authority, authority_key = _create_authority(now, lifetimes)
    certificate, key = _create_serving_certificate(hosts, authority, authority_key, now, lifetimes)
    return WebhookSecret(_to_pem(authority), authority_key, certificate, key, Secret(secrets.token_hex(32)))


def _create_authority(now: datetime, lifetimes: CertificateLifetimes) -> tuple[x509.Certificate, Secret]:
    key = ec.generate_private_key(ec.SECP256R1())
    # a name of its own for each: a client that trusts two must not take one for the other
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"transom-webhook-ca-{secrets.token_hex(4)}")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _create_builder(name, name, key, now, lifetimes.authority)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return builder.sign(key, hashes.SHA256()), _to_key_pem(key)


def _create_serving_certificate(
    hosts: tuple[str, ...], authority: x509.Certificate, authority_key: Secret, now: datetime, lifetimes: CertificateLifetimes
) -> tuple[str, Secret]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "transom-webhook")])
    signer = _load_key(authority_key)
    builder = _create_builder(name, authority.subject, key, now, lifetimes.serving)
    builder = builder.add_extension(x509.SubjectAlternativeName([_to_general_name(host) for host in hosts]), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    made = builder.add_extension(identifier, critical=False).sign(signer, hashes.SHA256())
    return _to_pem(made), _to_key_pem(key)


def _create_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + life)
    )


def _parse_certificates(current: WebhookSecret) -> tuple[list[x509.Certificate], x509.Certificate]:
    """Return the authorities and the serving certificate. Raises ValueError."""
    return x509.load_pem_x509_certificates(current.authorities.encode()), x509.load_pem_x509_certificate(
        current.certificate.encode()
    )


def _find_signer(serving: x509.Certificate, authorities: Iterable[x509.Certificate]) -> x509.Certificate | None:
    for authority in authorities:
        try:
            serving.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            # another name, another kind of key, another key
            continue
        return authority
    return None


def _load_key(key: Secret) -> ec.EllipticCurvePrivateKey:
    """Return the private key of a certificate. Raises WrongKeyType, and ValueError or TypeError if it cannot be read."""
    if not is_servable_key(key.reveal()):
        raise WrongKeyType
    private = load_pem_private_key(key.reveal().encode(), None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise WrongKeyType
    return private


def _matches_certificate(key: Secret, certificate: x509.Certificate) -> bool:
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hmac.compare_digest(_load_key(key).public_key().public_bytes(*form), certificate.public_key().public_bytes(*form))


def _needs_renewal(certificate: x509.Certificate, now: datetime, lifetimes: CertificateLifetimes) -> bool:
    ends = certificate.not_valid_after_utc
    return now >= ends - (ends - _get_creation_time(certificate)) * lifetimes.renew


def _get_creation_time(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc + BACKDATED


def _list_alternative_names(certificate: x509.Certificate) -> set[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def _to_general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _to_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _to_key_pem(key: ec.EllipticCurvePrivateKey) -> Secret:
    return Secret(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
