"""All of them."""

from collections.abc import Mapping
from typing import Final

from transom.reasons.errors import ERRORS
from transom.reasons.hosts import HOSTS
from transom.reasons.reason import Reason
from transom.reasons.settings import SETTINGS

REASONS: Final[Mapping[str, Reason]] = {one.id: one for one in (*SETTINGS, *HOSTS, *ERRORS)}
"""By id."""
