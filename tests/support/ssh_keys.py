"""SSH private keys: good ones in each form, and what people give in their place."""

import base64
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

KEYS: Final = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "p521": ec.generate_private_key(ec.SECP521R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
}
FORMS = serialization.PrivateFormat
TEXTS: Final = {
    f"{name} {title}": key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
    for name, key in KEYS.items()
    for title, form in (("PKCS8", FORMS.PKCS8), ("PEM", FORMS.TraditionalOpenSSL), ("OpenSSH", FORMS.OpenSSH))
    if (name, title) != ("ed25519", "PEM")
}
PLAIN = TEXTS["ed25519 OpenSSH"]


def _sealed() -> str:
    """As `ssh-keygen -N hunter2` writes one (PROTOCOL.key, 1)."""

    def field(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    options = field(b"\1" * 16) + (16).to_bytes(4, "big")
    parts = (b"aes256-ctr", b"bcrypt", options)
    blob = b"openssh-key-v1\0" + b"".join(map(field, parts)) + (1).to_bytes(4, "big") + field(b"\2" * 51) + field(b"\3" * 160)
    return f"-----BEGIN OPENSSH PRIVATE KEY-----\n{base64.encodebytes(blob).decode()}-----END OPENSSH PRIVATE KEY-----\n"


WRONG: Final = {
    "empty": "",
    "blank": " \n",
    "words": "secret",
    "public key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGNvbnRlbnQ= a@b",
    "public key of RFC 4716": "---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n---- END SSH2 PUBLIC KEY ----\n",
    "public PEM": KEYS["rsa"]
    .public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode(),
    "PuTTY": "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n",
    "certificate": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    "base64 twice": base64.b64encode(PLAIN.encode()).decode(),
    "one line": PLAIN.replace("\n", " "),
    "no end": PLAIN[: len(PLAIN) // 2],
    "typographic dashes": PLAIN.replace("--", "—"),
    "three hyphens": PLAIN.replace("-----", "---"),
    "a line is missing": "\n".join(line for number, line in enumerate(PLAIN.splitlines()) if number != 2),
    "no content": "-----BEGIN OPENSSH PRIVATE KEY-----\n-----END OPENSSH PRIVATE KEY-----\n",
    "PEM of another kind": TEXTS["p256 PKCS8"].replace("BEGIN PRIVATE", "BEGIN RSA PRIVATE").replace("END P", "END RSA P"),
    **{
        f"passphrase: {name}": key.private_bytes(
            serialization.Encoding.PEM, form, serialization.BestAvailableEncryption(b"hunter2")
        ).decode()
        for name, key, form in (
            ("PKCS #8", KEYS["rsa"], FORMS.PKCS8),
            ("PEM", KEYS["rsa"], FORMS.TraditionalOpenSSL),
        )
    },
    "passphrase: OpenSSH": _sealed(),
}
