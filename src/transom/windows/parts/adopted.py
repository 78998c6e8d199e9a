r"""What another operator left on a host that Transom takes over from it.

The Windows Machine Config Operator sets the proxy in the machine's environment, and boots the host so that services run with it
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
    "services that somebody changes or stops",
    "upgrades",
)
"""What the peer kept right on a node, and nobody does on one whose services stay as they are."""
PEER: Final = "windows-instance-config-daemon"
"""The peer's own service on a host, which made the others; it stays (windows-machine-config-operator, pkg/windows)."""
IMPORTED_LIMIT: Final = 2**21
"""Bytes; more is no list of certificates."""


class Adopted(msgspec.Struct, frozen=True):
    """What is known of the peer on a host: the SHA-1 of certificates that it imported, in upper-case hex."""

    certificates: frozenset[str] = frozenset()

    @classmethod
    def of(cls, imported: bytes | None) -> "Adopted":
        """From the file of the peer; None where there is none."""
        return cls(frozenset(one.sha1 for one in parse_bundle(imported or b"").certificates))
