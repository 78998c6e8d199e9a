"""Refuse a host key by its type and size before a library works on it: anybody may have made a key that is not verified yet."""

from typing import Final

from asyncssh.packet import PacketDecodeError, SSHPacket

RSA_BITS: Final = 8192
"""Bits of a modulus; ssh-keygen of OpenSSH for Windows makes 2,048 or 3,072."""
_RSA_EXPONENT_BITS: Final = 32
_ED25519_SIZE: Final = 32
# SEC 1, section 2.3.3: uncompressed points, the only ones that RFC 5656 asks for
_CURVES: Final = {
    b"ecdsa-sha2-nistp256": (b"nistp256", 65),
    b"ecdsa-sha2-nistp384": (b"nistp384", 97),
    b"ecdsa-sha2-nistp521": (b"nistp521", 133),
}
_CERTIFICATE: Final = b"-cert-v01@openssh.com"
_SIGNATURES: Final = {b"ssh-ed25519", *_CURVES, b"rsa-sha2-256", b"rsa-sha2-512"}


class UnusableHostKey(ValueError):
    """A host key of a type or size that Transom does not accept; the text names those that it accepts."""

    def __init__(self) -> None:
        super().__init__(f"it must be Ed25519, ECDSA (nistp256, nistp384, nistp521) or RSA of at most {RSA_BITS:,} bits")


def check_host_key(blob: bytes, *, certificates: bool = False) -> None:
    """Raise UnusableHostKey unless a public key in SSH's format (RFC 4253, section 6.6) is of a type and size that is used.

    With `certificates` an OpenSSH certificate counts whose key and whose signer's key are.
    """
    try:
        packet = SSHPacket(blob)
        name = packet.get_string()
        if certificates and name.endswith(_CERTIFICATE):
            _check_certificate(name.removesuffix(_CERTIFICATE), packet)
        else:
            _check_key(name, packet)
        packet.check_end()
    except PacketDecodeError:
        raise UnusableHostKey from None


def _check_key(name: bytes, packet: SSHPacket) -> None:
    match name:
        case b"ssh-ed25519":
            usable = len(packet.get_string()) == _ED25519_SIZE
        case b"ssh-rsa" | b"rsa-sha2-256" | b"rsa-sha2-512":
            exponent, modulus = packet.get_string(), packet.get_string()
            usable = _count_bits(exponent) <= _RSA_EXPONENT_BITS and _count_bits(modulus) <= RSA_BITS
        case _ if name in _CURVES:
            curve, size = _CURVES[name]
            usable = packet.get_string() == curve and _is_uncompressed_point(packet.get_string(), size)
        case _:
            usable = False
    if not usable:
        raise UnusableHostKey


def _check_certificate(name: bytes, packet: SSHPacket) -> None:
    """Check the fields that hold keys (OpenSSH, PROTOCOL.certkeys)."""
    packet.get_string()  # nonce
    _check_key(name, packet)
    packet.get_uint64()  # serial number
    packet.get_uint32()  # type
    packet.get_string()  # key id
    packet.get_string()  # principals
    packet.get_uint64()  # valid after
    packet.get_uint64()  # valid before
    for _ in ("critical options", "extensions", "reserved"):
        packet.get_string()
    check_host_key(packet.get_string())
    # a signature begins with the name of its algorithm: none is by SHA-1
    if SSHPacket(packet.get_string()).get_string() not in _SIGNATURES:
        raise UnusableHostKey


def _is_uncompressed_point(data: bytes, size: int) -> bool:
    return len(data) == size and data[0] == 4


def _count_bits(number: bytes) -> int:
    """Return the bits of a positive mpint (RFC 4251, section 5). Raises UnusableHostKey for zero and for a negative one."""
    if not number or number[0] >= 0x80 or not any(number):
        raise UnusableHostKey
    return len(number) * 8 if len(number) > RSA_BITS // 8 + 1 else int.from_bytes(number, "big").bit_length()
