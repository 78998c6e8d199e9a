"""Every reason of a condition or an event, and every error of a host, with meaning and remedy. Pure data."""

from collections.abc import Mapping
from typing import Final

from transom.reasons.errors import ERRORS
from transom.reasons.hosts import HOSTS
from transom.reasons.reason import Reason
from transom.reasons.settings import SETTINGS

REASONS: Final[Mapping[str, Reason]] = {setting.id: setting for setting in (*SETTINGS, *HOSTS, *ERRORS)}
"""By id."""


def find_remedy(reason: str, name: str, namespace: str = "", address: str = "") -> str:
    """Return the remedy of a reason for an object. It is empty if none is required or known."""
    return REASONS[reason].format_remedy(name, namespace, address) if reason in REASONS else ""


def find_reason_page(reason: str) -> str:
    """Return the section of the documentation that explains a reason. It is empty for reasons of a kubelet."""
    return REASONS[reason].page if reason in REASONS else ""
