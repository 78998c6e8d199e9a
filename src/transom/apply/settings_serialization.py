"""Settings as text, to be kept where credentials may be: a sealed file, a Secret."""

import msgspec

from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import format_pem, parse_bundle


class KeptSettings(msgspec.Struct, frozen=True):
    """Stored settings: certificates as PEM, and credentials in plain text, which only `encode` writes."""

    settings: Egress
    trust: str = ""

    @classmethod
    def from_egress(cls, egress: Egress) -> "KeptSettings":
        """Convert settings for storage."""
        return cls(msgspec.structs.replace(egress, trust=()), format_pem(egress.trust) if egress.trust else "")

    def to_egress(self) -> Egress:
        """Convert to settings."""
        return msgspec.structs.replace(self.settings, trust=parse_bundle(self.trust).certificates if self.trust else ())


def encode(kept: KeptSettings | list[KeptSettings]) -> bytes:
    """JSON, with the credentials."""
    return msgspec.json.encode(kept, enc_hook=Secret.reveal)


def decode(data: bytes) -> list[KeptSettings]:
    """Decode a list that `encode` wrote. Raises msgspec.ValidationError, also for data of another version."""
    return msgspec.json.decode(data, type=list[KeptSettings], dec_hook=lambda type_, value: type_(value))
