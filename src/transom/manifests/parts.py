"""The parts of an install."""

import enum


class Part(enum.StrEnum):
    """A part, as `--part` names it."""

    CRDS = "crds"
    RBAC = "rbac"
    OPERATOR = "operator"
    WEBHOOK = "webhook"
    POLICIES = "policies"
    MONITORING = "monitoring"
