"""An issuer such as cert-manager's: an authority, and Secrets with certificates of it."""

import datetime
import secrets

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from transom.proxy.secret import Secret
from transom.webhook.certificates import _to_general_name
from transom.webhook.webhook_secret import IssuedCertificate


class Issuer:
    """One authority, which is valid for long."""

    def __init__(self, now: datetime.datetime) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"corp-ca-{secrets.token_hex(4)}")])
        ends = now + datetime.timedelta(days=3650)
        builder = self._builder(self._name, self._key, now - datetime.timedelta(days=1), ends)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.authority = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()

    def issue(self, hosts: tuple[str, ...], began: datetime.datetime, ends: datetime.datetime) -> IssuedCertificate:
        """A certificate for names and addresses, as in `tls.crt`, `tls.key` and `ca.crt`."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(x509.Name([]), key, began, ends)
        names = x509.SubjectAlternativeName([_to_general_name(host) for host in hosts])
        made = builder.add_extension(names, critical=True).sign(self._key, hashes.SHA256())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return IssuedCertificate(self.authority, made.public_bytes(Encoding.PEM).decode(), Secret(private))

    def _builder(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, began: datetime.datetime, ends: datetime.datetime
    ) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key.public_key())
        return builder.serial_number(x509.random_serial_number()).not_valid_before(began).not_valid_after(ends)
