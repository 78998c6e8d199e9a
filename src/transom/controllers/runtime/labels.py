"""Labels and annotations that tie WindowsInstances to what they come from, and to their Nodes."""

from typing import Final

SOURCE: Final = "transom.dev/source"
"""The label of the instances that Transom made: what kind of object each comes from."""
ORIGIN: Final = "transom.dev/origin"
ORIGIN_UID: Final = "transom.dev/origin-uid"
ORIGIN_FIELDS: Final = "transom.dev/origin-fields"
"""The annotation that names the optional fields of `spec` that come from there: one that goes there goes here."""
HOST_NAME: Final = "transom.dev/host-name"
CONFIRM: Final = "transom.dev/confirm-removal"
UNINSTALL: Final = "transom.dev/uninstall"
"""The annotation of Transom's namespace with which nothing becomes an instance any more, and those that Transom made go."""
