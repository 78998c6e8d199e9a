r"""What another operator left on a host that Transom takes over from it.

The Windows Machine Config Operator sets the proxy in the machine's environment, and reboots the host for its services
(windows-machine-config-operator, pkg/daemon/envvar). It notes in a file which certificates it imported (pkg/daemon/certs).
"""

from typing import Final

import msgspec

from transom.proxy.trust import parse_bundle

TAKEN: Final = "of the operator that had the host before: Transom's from now on"
"""Why something of the peer enters the ledger."""
IMPORTED: Final = r"C:\k\imported-certs.pem"
"""The certificates that the peer imported."""
UNATTENDED: Final = (
    "the kubelet's client CAs",
    "mirrors",
    "registry logins",
    "registry CAs",
    "certificates",
    "services that are changed or stopped by others",
    "upgrades",
)
"""What the peer corrected on a node, and Transom does not on a node whose services it does not manage."""
PEER: Final = "windows-instance-config-daemon"
"""The peer's own service on a host, which made the others; it stays (windows-machine-config-operator, pkg/windows)."""
IMPORTED_LIMIT: Final = 2**21
"""The maximum size of a list of certificates, in bytes."""


class AdoptedState(msgspec.Struct, frozen=True):
    """What is known of the peer on a host: the SHA-1 of certificates that it imported, in upper-case hex."""

    certificates: frozenset[str] = frozenset()

    @classmethod
    def from_file(cls, imported: bytes | None) -> "AdoptedState":
        """Parse the peer's file; an empty state if there is none."""
        return cls(frozenset(certificate.sha1 for certificate in parse_bundle(imported or b"").certificates))
