"""What a person asks of the operator by an annotation of a WindowsInstance: each new value is one request. Pure.

The operator writes the value of a request that it has handled into the status, as Flux does with `lastHandledReconcileAt`: the
annotation can stay, and waiting clients see that the request was handled.
"""

from collections.abc import Mapping
from typing import Final

from transom.common.escaping import escape_unprintable

RECONCILE: Final = "transom.dev/reconcile"
"""Look at the host now."""
RESTART: Final = "transom.dev/restart"
"""Restart the services whose restart waits for a person (`spec.windows.restart: Manual`)."""
_LONGEST: Final = 256


def read_request_annotation(annotations: Mapping[str, str] | None, name: str) -> str:
    """Return the request of that name as the status holds it once it was handled; empty without one.

    Two values with the same first 256 characters are one request: an annotation can be much longer than a status should be.
    """
    return escape_unprintable((annotations or {}).get(name, "")[:_LONGEST])
