"""The algorithms that Transom offers to SSH servers: each list is chosen here, and none is left to the library.

Every list has what sshd offers by default in each release of OpenSSH for Windows from 7.7 (Server 2019) to 9.8. Source:
PowerShell/openssh-portable, `myproposal.h` (KEX_SERVER_KEX, KEX_DEFAULT_PK_ALG, KEX_SERVER_ENCRYPT, KEX_SERVER_MAC) and
`contrib/win32/openssh/config.h.vs` (OPENSSL_HAS_ECC, OPENSSL_HAS_NISTP521, OPENSSL_HAVE_EVPGCM) at v7.7.2.0, v8.1.0.0,
v9.5.0.0 and v9.8.1.0.

No list has Diffie-Hellman in a finite field: a server chooses the group of a group exchange, and the library tests it for being
prime for as long as that takes. None has SHA-1, DSA, MACs of 64 bits or compression.
"""

from typing import Any, Final

from asyncssh.kex import get_kex_algs

KEY_EXCHANGES: Final = (
    # the first OpenSSH with it is 9.9; earlier ones take the next
    "mlkem768x25519-sha256",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
)
HOST_KEYS: Final = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
HOST_CERTIFICATES: Final = tuple(f"{name}-cert-v01@openssh.com" for name in HOST_KEYS)
"""Of jump hosts alone, whose authority is in a person's known_hosts."""
CIPHERS: Final = (
    # AES-GCM costs Python half of what ChaCha20 costs, a packet
    "aes256-gcm@openssh.com",
    "aes128-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes256-ctr",
    "aes192-ctr",
    "aes128-ctr",
)
MACS: Final = (
    # of the ciphers in CTR mode alone
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
)
SIGNATURES: Final = (
    *HOST_KEYS,
    # keys of an agent that lie on a token (OpenSSH 8.2, PROTOCOL.u2f)
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
"""How a client proves its key."""


def build_algorithm_options() -> dict[str, Any]:
    """Return the options of `asyncssh.connect` that say what is offered, but the host key algorithms."""
    known = {name.decode() for name in get_kex_algs()}
    return {
        # the library lacks those that its OpenSSL lacks: ML-KEM before 3.5, Curve25519 under FIPS
        "kex_algs": [name for name in KEY_EXCHANGES if name in known],
        "encryption_algs": list(CIPHERS),
        "mac_algs": list(MACS),
        "signature_algs": list(SIGNATURES),
        "compression_algs": None,
    }
