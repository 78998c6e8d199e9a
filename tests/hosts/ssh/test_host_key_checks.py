"""Which host keys are looked at, and that none of the others reaches a library."""

import base64
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from asyncssh.packet import MPInt, String
from hypothesis import given
from hypothesis import strategies as st
from tests.hosts.lying_servers import certificate, dsa, odd, rsa, signed

from transom.hosts.errors import HostKeyUnusable
from transom.hosts.ssh.host_key_checks import RSA_BITS, UnusableHostKey, check_host_key
from transom.hosts.ssh.known_hosts import KnownHostsFile, parse_pinned_key

TYPES: dict[str, dict[str, Any]] = {
    "ssh-ed25519": {},
    "ecdsa-sha2-nistp256": {},
    "ecdsa-sha2-nistp384": {},
    "ecdsa-sha2-nistp521": {},
    "ssh-rsa": {"key_size": 3072},
}
KEYS = {name: asyncssh.generate_private_key(name, **options) for name, options in TYPES.items()}
POINT = b"\4" + bytes(64)
REFUSED = {
    "nothing": b"",
    "half a name": b"\0\0\0\xff",
    "RSA of 8,193 bits": rsa(RSA_BITS + 1),
    "RSA of a million bits": rsa(1_000_000),
    "an exponent of 33 bits": rsa(2048, odd(33)),
    "a negative exponent": String(b"ssh-rsa") + MPInt(-3) + MPInt(odd(2048)),
    "no modulus": String(b"ssh-rsa") + MPInt(3) + MPInt(0),
    "zeros before a modulus": String(b"ssh-rsa") + MPInt(3) + String(bytes(200_000) + b"\1"),
    "DSA": dsa(1024),
    "a token": String(b"sk-ssh-ed25519@openssh.com") + String(bytes(32)) + String(b"ssh:"),
    "Ed448": String(b"ssh-ed448") + String(bytes(57)),
    "31 bytes": String(b"ssh-ed25519") + String(bytes(31)),
    "33 bytes": String(b"ssh-ed25519") + String(bytes(33)),
    "more behind the key": String(b"ssh-ed25519") + String(bytes(32)) + b"\0",
    "another curve than named": String(b"ecdsa-sha2-nistp256") + String(b"nistp384") + String(POINT),
    "a compressed point": String(b"ecdsa-sha2-nistp256") + String(b"nistp256") + String(b"\2" + bytes(32)),
    "no point": String(b"ecdsa-sha2-nistp256") + String(b"nistp256") + String(b""),
    "secp256k1": String(b"ecdsa-sha2-1.3.132.0.10") + String(b"1.3.132.0.10") + String(POINT),
    "X.509": String(b"x509v3-ssh-rsa") + bytes(8),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_windows_are_taken(name: str) -> None:
    check_host_key(KEYS[name].public_data)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("certificates", [False, True])
def test_other_keys_are_refused(name: str, certificates: bool) -> None:
    with pytest.raises(UnusableHostKey):
        check_host_key(REFUSED[name], certificates=certificates)


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("signer", KEYS)
def test_a_certificate_is_taken_where_it_may_be(name: str, signer: str) -> None:
    made = KEYS[signer].generate_host_certificate(KEYS[name], "host", principals=["host"])
    check_host_key(made.public_data, certificates=True)
    with pytest.raises(UnusableHostKey):
        check_host_key(made.public_data)


SIGNERS = {
    **{name: (blob, signed(b"ssh-ed25519", bytes(64))) for name, blob in REFUSED.items()},
    "SHA-1": (KEYS["ssh-rsa"].public_data, signed(b"ssh-rsa", bytes(384))),
    "another certificate": (certificate(KEYS["ssh-ed25519"].public_data, b""), signed(b"ssh-ed25519", bytes(64))),
    "no signature": (KEYS["ssh-ed25519"].public_data, b""),
}


@pytest.mark.parametrize("name", SIGNERS)
def test_a_certificate_by_another_key_or_by_sha_1_is_refused(name: str) -> None:
    signer, signature = SIGNERS[name]
    with pytest.raises(UnusableHostKey):
        check_host_key(certificate(signer, signature), certificates=True)


@given(st.binary(max_size=300), st.sampled_from(sorted(KEYS)), st.booleans())
def test_whatever_comes_is_taken_or_refused(noise: bytes, name: str, after_name: bool) -> None:
    blob = String(name.encode()) + noise if after_name else noise
    try:
        check_host_key(blob, certificates=True)
    except UnusableHostKey:
        return
    assert blob.startswith(String(name.encode()))


def line(blob: bytes) -> str:
    """A public key as its file has it: nothing has looked at the key."""
    size = int.from_bytes(blob[:4], "big")
    return f"{blob[4 : 4 + size].decode()} {base64.b64encode(blob).decode()}"


@pytest.mark.parametrize("name", ["RSA of 8,193 bits", "RSA of a million bits", "DSA", "an exponent of 33 bits"])
def test_pinned_and_recorded_keys_of_another_size_or_type_are_refused(name: str, tmp_path: Path) -> None:
    blob = REFUSED[name]
    with pytest.raises(HostKeyUnusable):
        parse_pinned_key(line(blob))
    recorded = tmp_path / "known_hosts"
    recorded.write_text(f"win {line(blob)}\n")
    with pytest.raises(HostKeyUnusable):
        KnownHostsFile(recorded).list_known_keys("win", 22)
    good = KEYS["ssh-ed25519"].convert_to_public()
    recorded.write_text(f"win {line(blob)}\nwin {line(good.public_data)}\n")
    assert list(KnownHostsFile(recorded).list_known_keys("win", 22)) == [good]
