"""The SSH key that opens hosts: RSA, ECDSA or Ed25519, in PEM or OpenSSH form, without a passphrase."""

import functools
import hashlib

import asyncssh

from transom.hosts.errors import KeyUnusable
from transom.proxy.secret import Secret


@functools.lru_cache(maxsize=64)
def private_key(key: Secret) -> asyncssh.SSHKey:
    """The key of a text. Raises KeyUnusable; nothing of the text is in its message."""
    try:
        return asyncssh.import_private_key(key.reveal())
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, ValueError) as error:
        # asyncssh has an error of its own for a wrong passphrase, and none for a missing one
        if isinstance(error, asyncssh.KeyEncryptionError) or "passphrase" in str(error).lower():
            raise KeyUnusable("the private key is encrypted; give one without a passphrase") from None
        raise KeyUnusable("the private key cannot be read; it must be a PEM or OpenSSH private key") from None


@functools.lru_cache(maxsize=64)
def public_line(key: Secret) -> str:
    """Type and base64 of the public key, as in `authorized_keys`, without a comment. Raises KeyUnusable."""
    parts = private_key(key).export_public_key().decode().split()
    return " ".join(parts[:2])


def public_hash(key: Secret) -> str:
    """SHA-256 of `public_line` in lower-case hex: what is recorded of the key that a host was given. Raises KeyUnusable."""
    return hashlib.sha256(public_line(key).encode()).hexdigest()
