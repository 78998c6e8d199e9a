"""The certificate authority and the serving certificate: what a Secret holds, and what it has to hold next.

A rotation of the authority takes three steps, with `overlap` between them. First the new authority is trusted beside the old
one, then it signs what is served, then the old one goes. So every client trusts what it is shown. The times are read from the
certificates themselves, so that any replica can go on where another stopped.
"""

import hmac
import ipaddress
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from transom.proxy.secret import Secret
from transom.webhook.holdings import LIVES, Holdings, Lives, held_in

BACKDATED: Final = timedelta(hours=1)
"""How much earlier than it was made a certificate is valid from: clocks differ."""


def holdings(data: Mapping[str, Secret]) -> Holdings | None:
    """What a Secret's data say; None where a part is missing or does not fit the others."""
    found = held_in(data)
    if found is None:
        return None
    try:
        authorities, serving = _read(found)
        fits = _matches(found.key, serving) and _matches(found.authority_key, authorities[0])
    except (ValueError, TypeError, x509.InvalidVersion):
        return None
    return found if fits and _signer(serving, authorities) is not None else None


def readable(data: Mapping[str, Secret]) -> Holdings | None:
    """What a Secret's data say of certificates that may be somebody else's; None where they cannot be read."""
    found = held_in(data)
    try:
        if found is not None:
            _read(found)
    except ValueError:
        return None
    return found


def next_holdings(
    current: Holdings | None, hosts: Iterable[str], now: datetime, trusted: str | None, lives: Lives = LIVES
) -> Holdings:
    """What the Secret has to hold now; `current` itself where nothing is to be done.

    `hosts` are the names and addresses that the server is called by. `trusted` is the registration's `caBundle`, None where
    there is no registration: an authority signs what is served only when it is in there, for `overlap` at least.
    """
    wanted = tuple(dict.fromkeys(hosts))
    if current is None:
        return _from_nothing(wanted, now, lives)
    authorities, serving = _read(current)
    newest = authorities[0]
    signer = _signer(serving, authorities)
    if newest.not_valid_after_utc <= now:
        return msgspec.structs.replace(_from_nothing(wanted, now, lives), hash_key=current.hash_key)
    if signer is newest and _due(newest, now, lives):
        made, key = _authority(now, lives)
        return msgspec.structs.replace(current, authorities=_pem(made) + current.authorities, authority_key=key)
    settled = now - _made(newest) >= lives.overlap and (trusted is None or _pem(newest) in trusted)
    if (signer is newest or settled or serving.not_valid_after_utc <= now) and (
        signer is not newest or _due(serving, now, lives) or _names(serving) != set(wanted)
    ):
        certificate, key = _serving(wanted, newest, current.authority_key, now, lives)
        return msgspec.structs.replace(current, certificate=certificate, key=key)
    if signer is newest and len(authorities) > 1 and now - _made(serving) >= lives.overlap:
        return msgspec.structs.replace(current, authorities=_pem(newest))
    return current


def seconds_to_next(current: Holdings, now: datetime, lives: Lives = LIVES) -> float:
    """When to look again: at the next step of a rotation, or at the end of a life."""
    authorities, serving = _read(current)
    if len(authorities) > 1:
        newest = authorities[0]
        began = _made(serving) if _signer(serving, authorities) is newest else _made(newest)
        return max(1.0, (began + lives.overlap - now).total_seconds())
    ends = (one.not_valid_after_utc - (one.not_valid_after_utc - _made(one)) * lives.renew for one in (*authorities, serving))
    return min(3600.0, max(1.0, (min(ends) - now).total_seconds()))


def expiry(current: Holdings) -> datetime:
    """When the serving certificate ends."""
    return _read(current)[1].not_valid_after_utc


def _from_nothing(hosts: tuple[str, ...], now: datetime, lives: Lives) -> Holdings:
    authority, authority_key = _authority(now, lives)
    certificate, key = _serving(hosts, authority, authority_key, now, lives)
    return Holdings(_pem(authority), authority_key, certificate, key, Secret(secrets.token_hex(32)))


def _authority(now: datetime, lives: Lives) -> tuple[x509.Certificate, Secret]:
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
    builder = _builder(name, name, key, now, lives.authority)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return builder.sign(key, hashes.SHA256()), _key_pem(key)


def _serving(
    hosts: tuple[str, ...], authority: x509.Certificate, authority_key: Secret, now: datetime, lives: Lives
) -> tuple[str, Secret]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "transom-webhook")])
    signer = load_pem_private_key(authority_key.reveal().encode(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)  # `holdings` takes no other
    builder = _builder(name, authority.subject, key, now, lives.serving)
    builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    made = builder.add_extension(identifier, critical=False).sign(signer, hashes.SHA256())
    return _pem(made), _key_pem(key)


def _builder(
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


def _read(current: Holdings) -> tuple[list[x509.Certificate], x509.Certificate]:
    """The authorities and the serving certificate. Raises ValueError."""
    return x509.load_pem_x509_certificates(current.authorities.encode()), x509.load_pem_x509_certificate(
        current.certificate.encode()
    )


def _signer(serving: x509.Certificate, authorities: Iterable[x509.Certificate]) -> x509.Certificate | None:
    for one in authorities:
        try:
            serving.verify_directly_issued_by(one)
        except (ValueError, TypeError, InvalidSignature):
            # another name, another kind of key, another key
            continue
        return one
    return None


def _matches(key: Secret, certificate: x509.Certificate) -> bool:
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    private = load_pem_private_key(key.reveal().encode(), None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        return False
    return hmac.compare_digest(private.public_key().public_bytes(*form), certificate.public_key().public_bytes(*form))


def _due(certificate: x509.Certificate, now: datetime, lives: Lives) -> bool:
    ends = certificate.not_valid_after_utc
    return now >= ends - (ends - _made(certificate)) * lives.renew


def _made(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc + BACKDATED


def _names(certificate: x509.Certificate) -> set[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(one.value) for one in names}


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> Secret:
    return Secret(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
