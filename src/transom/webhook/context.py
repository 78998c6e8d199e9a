"""The TLS context of the server: new connections are shown the newest certificate, those that are there go on."""

import os
import ssl
import tempfile
from pathlib import Path
from typing import Final

from transom.webhook.holdings import Holdings

_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"


class ServingContext:
    """An SSLContext whose certificate can be replaced. No client certificate is asked for."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_ciphers(_CIPHERS)
        self._shown: Holdings | None = None

    @property
    def ready(self) -> bool:
        """Whether there is a certificate to show."""
        return self._shown is not None

    def show(self, current: Holdings) -> bool:
        """Show this certificate from now on; whether it is another one. Raises ssl.SSLError where it does not fit its key."""
        if self._shown is not None and self._shown.certificate == current.certificate:
            return False
        # Python's ssl reads certificates from files alone
        with tempfile.TemporaryDirectory(prefix="transom-webhook-") as directory:
            file = Path(directory, "tls.pem")
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                out.write(current.key.reveal() + current.certificate)
            self.context.load_cert_chain(file)
        self._shown = current
        return True
