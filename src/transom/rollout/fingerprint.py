"""What makes a change another one: hosts whose settings have the same fingerprint share a rollout."""

from collections.abc import Hashable

import msgspec

from transom.proxy.settings import Egress


def compute_settings_key(egress: Egress) -> Hashable:
    """Return the part of the settings that reaches a host, as a key of one process."""
    return egress.http_proxy, egress.https_proxy, egress.no_proxy, egress.trust, egress.windows


def compute_settings_fingerprint(egress: Egress) -> str:
    """Return the same as text, equal in all processes. It holds credentials: use it for keyed hashes only."""
    trust = [certificate.sha256 for certificate in egress.trust]
    return msgspec.json.encode((egress.variables, trust, egress.windows)).decode()


def compute_rollout_fingerprint(egress: Egress) -> str:
    """Return the text that tells rollouts apart: what reaches a host, and how that is judged. It holds credentials."""
    judged_by = msgspec.json.encode((egress.readiness_endpoints, egress.readiness_policy)).decode()
    return f"{compute_settings_fingerprint(egress)} {judged_by}"
