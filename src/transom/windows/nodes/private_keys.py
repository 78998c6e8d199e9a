"""SSH private keys as people put them into Secrets and files: what is wrong with one, before a host is connected to."""

import binascii
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from transom.common.key_algorithms import has_permitted_algorithm, iter_pkcs8_heads
from transom.proxy.pem_text import FILE_PATH, LOST_LINE_BREAKS, is_encoded_pem, is_file_path
from transom.proxy.secret import Secret

_LENGTH: Final = 4
"""Bytes of the length of a field (RFC 4251, section 5)."""
_OPENSSH: Final = b"openssh-key-v1\0"
_BEGIN = re.compile(r"^-----BEGIN ((?:[A-Z0-9]+ )*)PRIVATE KEY-----", re.MULTILINE)
_PUBLIC = re.compile(
    r"\s*(ssh-(ed25519|rsa|dss)|ecdsa-sha2-nistp\d+|sk-\S+) AAAA|---- BEGIN SSH2 PUBLIC|-----BEGIN (RSA )?PUBLIC"
)
MAX_KEY: Final = 64 << 10
"""Characters of a private key; one for RSA with 16,384 bits has 13,000."""
_SEQUENCE: Final = b"\x30"
"""The first byte of every key in DER."""
OTHER_TYPE: Final = "is not an RSA, ECDSA or Ed25519 key; make one with `ssh-keygen -t ed25519`"
_DAMAGED: Final = "is damaged: its content is not a private key; copy it again"
NOT_A_KEY: Final = "is not a private key in PEM or OpenSSH form"


def normalize_key(text: str) -> str:
    """Return a key without what editors and copying add: a byte order mark, other line ends, indentation."""
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.strip() for line in lines).strip() + "\n"


def find_private_key_fault(key: Secret) -> str | None:
    """Return why no host can be reached with a key, and what to do; None for a key that can be used.

    Nothing of the key is in the sentence.
    """
    # before the cache, which would keep the text
    if len(key.reveal()) > MAX_KEY:
        return f"has more than {MAX_KEY:,} characters: it is not a private key"
    return _find_fault(key)


@lru_cache(maxsize=64)
def _find_fault(key: Secret) -> str | None:
    text = normalize_key(key.reveal())
    if not text.strip():
        return "is empty; put the private key itself there, such as the content of ~/.ssh/id_ed25519"
    if _PUBLIC.match(text):
        return f"{NOT_A_KEY}: it is the public key; the private key is in the file without `.pub`"
    if text.startswith("PuTTY-User-Key-File"):
        return f"{NOT_A_KEY}: it is PuTTY's; convert it with `puttygen KEY.ppk -O private-openssh -o KEY`"
    begin = _BEGIN.search(text)
    if begin is None:
        return _describe_other_content(text)
    if has_passphrase(text):
        return "has a passphrase, which Transom cannot enter: use a key without one (ssh-keygen -p -N '' -f COPY)"
    line = text[begin.start() :].partition("\n")[0]
    end = f"-----END {begin[1]}PRIVATE KEY-----"
    if end in line or line != begin[0]:
        return LOST_LINE_BREAKS
    if f"\n{end}" not in text:
        return "is cut off: its END line is missing"
    return _find_parse_error(text[begin.start() :])


def _describe_other_content(text: str) -> str:
    """Describe content that has no BEGIN line of a private key."""
    if "PRIVATE KEY" in text:
        return (
            f"{NOT_A_KEY}: its BEGIN and END lines begin and end with five hyphens; was it copied out of a document that "
            "changes them?"
        )
    if "-----BEGIN CERTIFICATE" in text:
        return f"{NOT_A_KEY}: it is a certificate"
    if is_encoded_pem(text, "PRIVATE KEY"):
        return f"{NOT_A_KEY}: it is base64 of one; `data` takes base64 of the key once, `stringData` takes the key itself"
    return f"{NOT_A_KEY}: it {FILE_PATH}" if is_file_path(text) else NOT_A_KEY


def has_passphrase(key: str) -> bool:
    """Return True if a key needs a passphrase: PKCS #8 and PEM say it in letters, OpenSSH in the cipher (PROTOCOL.key, 1)."""
    if "BEGIN ENCRYPTED PRIVATE KEY" in key or "Proc-Type: 4,ENCRYPTED" in key:
        return True
    body = "".join(line.strip() for line in key.splitlines() if "-----" not in line)
    try:
        raw = binascii.a2b_base64(body)
    except ValueError:
        return False
    return raw.startswith(_OPENSSH) and next(iter_fields(raw[len(_OPENSSH) :]), b"none") != b"none"


def iter_fields(raw: bytes) -> Iterator[bytes]:
    """Yield the strings of a key's blob, of which the first is its type (RFC 4253, section 6.6), up to one that is cut off."""
    while len(raw) >= _LENGTH:
        size = int.from_bytes(raw[:_LENGTH], "big")
        if len(raw) < _LENGTH + size:
            return
        yield raw[_LENGTH : _LENGTH + size]
        raw = raw[_LENGTH + size :]


def _find_parse_error(text: str) -> str | None:
    """Return why a key in PEM or OpenSSH form cannot be read."""
    if not text.isascii():
        return _DAMAGED
    # a tenth of a second to import: not for those who have no keys
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    data = text.encode()
    if fault := _find_algorithm_fault(text):
        return fault
    with warnings.catch_warnings():
        # cryptography warns of types that it will drop
        warnings.simplefilter("ignore")
        try:
            if text.startswith("-----BEGIN OPENSSH"):
                serialization.load_ssh_private_key(data, None, unsafe_skip_rsa_key_validation=True)
            else:
                serialization.load_pem_private_key(data, None, unsafe_skip_rsa_key_validation=True)
        except UnsupportedAlgorithm:
            return OTHER_TYPE
        except (ValueError, TypeError):
            return _DAMAGED
    return None


def _find_algorithm_fault(text: str) -> str | None:
    """Return why PKCS #8 keys are not loaded; None if all are of types that Transom uses."""
    try:
        for head in iter_pkcs8_heads(text):
            if not head.startswith(_SEQUENCE):
                return _DAMAGED
            if not has_permitted_algorithm(head):
                return OTHER_TYPE
    except ValueError:
        return _DAMAGED
    return None
