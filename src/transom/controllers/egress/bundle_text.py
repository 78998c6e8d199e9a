"""What a ConfigMap gets of the trust bundle: a text of 200 kB, made once for all of them."""

import hashlib
from pathlib import Path

from transom.proxy.injection import SYSTEM_CA_FILE, trust_text
from transom.proxy.trust import Certificate


class BundleText:
    """The text with the system's CAs or without them, and its SHA-256."""

    def __init__(self, system_ca_file: str = SYSTEM_CA_FILE) -> None:
        self.system_ca_file = system_ca_file
        self._trust: tuple[Certificate, ...] = ()
        self._made: dict[bool, tuple[str, str]] = {}

    def of(self, trust: tuple[Certificate, ...], *, bundle_only: bool = False) -> tuple[str, str]:
        """Text and SHA-256 in lower-case hex. Raises OSError where the system's CAs cannot be read."""
        if self._trust != trust:
            self._trust, self._made = trust, {}
        if bundle_only not in self._made:
            system = "" if bundle_only else Path(self.system_ca_file).read_text()
            text = trust_text(trust, system)
            self._made[bundle_only] = text, hashlib.sha256(text.encode()).hexdigest()
        return self._made[bundle_only]
