"""Labels and annotations that tie WindowsInstances to what they come from, and to their Nodes."""

from typing import Final

SOURCE: Final = "transom.dev/source"
"""The label of the instances that Transom made: what kind of object each comes from."""
ORIGIN: Final = "transom.dev/origin"
ORIGIN_UID: Final = "transom.dev/origin-uid"
HOST_NAME: Final = "transom.dev/host-name"
CONFIRM: Final = "transom.dev/confirm-removal"
JOINED: Final = "transom.dev/instance"
"""The annotation of a Node that Transom joined: namespace and name of its WindowsInstance."""
