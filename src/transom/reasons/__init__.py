"""Every reason of a condition or an event, and every kind of error of a host: what it means, and what to do. Pure data."""

from collections.abc import Mapping
from typing import Final

from transom.reasons.errors import ERRORS
from transom.reasons.hosts import HOSTS
from transom.reasons.reason import Reason
from transom.reasons.settings import SETTINGS

REASONS: Final[Mapping[str, Reason]] = {one.id: one for one in (*SETTINGS, *HOSTS, *ERRORS)}
"""By id."""


def next_step(reason: str, name: str, namespace: str = "", address: str = "") -> str:
    """What there is to do about an object of which this is said; empty where nothing is, or nothing is known."""
    return REASONS[reason].step(name, namespace, address) if reason in REASONS else ""


def page_of(reason: str) -> str:
    """Where a reason is told of; empty of what is nobody's word but a kubelet's."""
    return REASONS[reason].page if reason in REASONS else ""
