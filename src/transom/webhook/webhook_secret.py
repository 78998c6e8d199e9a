"""The Secret that the replicas share. What is in it is looked into by `transom.webhook.certificates` alone."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec

from transom.pods.environment import HASH_KEY
from transom.proxy.secret import Secret

AUTHORITY: Final = "ca.crt"
"""The authorities that are trusted, the newest first: `caBundle` of the registration."""
AUTHORITY_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
EXPIRES: Final = "expires"
"""When the serving certificate ends, RFC 3339."""


class CertificateLifetimes(msgspec.Struct, frozen=True):
    """The lifetimes. A certificate is renewed when less than `renew` of its life is left."""

    authority: timedelta = timedelta(days=3650)
    serving: timedelta = timedelta(days=365)
    renew: float = 0.25
    overlap: timedelta = timedelta(minutes=10)
    """Between two steps of a rotation: longer than any replica or API server takes to notice a change."""


LIVES: Final = CertificateLifetimes()


class WebhookSecret(msgspec.Struct, frozen=True):
    """The contents of the Secret as PEM. The key of an external authority is empty."""

    authorities: str
    authority_key: Secret
    certificate: str
    key: Secret
    hash_key: Secret

    def to_data(self) -> dict[str, Secret]:
        """As the data of a Secret."""
        return {
            AUTHORITY: Secret(self.authorities),
            AUTHORITY_KEY: self.authority_key,
            CERTIFICATE: Secret(self.certificate),
            KEY: self.key,
            HASH_KEY: self.hash_key,
        }


def parse_webhook_secret(data: Mapping[str, Secret]) -> WebhookSecret | None:
    """Return the contents of a Secret's data; None if a part that is required to serve is missing."""
    if not all(data.get(name) for name in (AUTHORITY, CERTIFICATE, KEY, HASH_KEY)):
        return None
    authority_key = data.get(AUTHORITY_KEY) or Secret("")
    return WebhookSecret(data[AUTHORITY].reveal(), authority_key, data[CERTIFICATE].reveal(), data[KEY], data[HASH_KEY])


class IssuedCertificate(msgspec.Struct, frozen=True):
    """A certificate of an external issuer such as cert-manager; it may be a chain. Texts are PEM."""

    authorities: str
    certificate: str
    key: Secret


def parse_issued(data: Mapping[str, Secret]) -> IssuedCertificate | None:
    """Parse the Secret of a Certificate (cert-manager.io, docs/usage/certificate); None if a part is missing."""
    if not all(data.get(name) for name in (AUTHORITY, CERTIFICATE, KEY)):
        return None
    return IssuedCertificate(data[AUTHORITY].reveal(), data[CERTIFICATE].reveal(), data[KEY])
