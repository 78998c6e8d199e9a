"""Settings as text, to be kept where credentials may be: a sealed file, a Secret."""

import msgspec

from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import parse_bundle, pem


class KeptSettings(msgspec.Struct, frozen=True):
    """The certificates as PEM, credentials as they are: `encoded` is the only way in which they are shown."""

    settings: Egress
    trust: str = ""

    @classmethod
    def of(cls, egress: Egress) -> "KeptSettings":
        """Settings that are to be kept."""
        return cls(msgspec.structs.replace(egress, trust=()), pem(egress.trust) if egress.trust else "")

    def egress(self) -> Egress:
        """The settings themselves."""
        return msgspec.structs.replace(self.settings, trust=parse_bundle(self.trust).certificates if self.trust else ())


def encoded(kept: KeptSettings | list[KeptSettings]) -> bytes:
    """JSON, with the credentials."""
    return msgspec.json.encode(kept, enc_hook=Secret.reveal)


def decoded(data: bytes) -> list[KeptSettings]:
    """What `encoded` has made of a list. Raises msgspec.ValidationError, also for what another version has written."""
    return msgspec.json.decode(data, type=list[KeptSettings], dec_hook=lambda type_, value: type_(value))
