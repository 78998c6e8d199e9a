"""Namespaces, of which there can be thousands: their labels and no more."""

from typing import Final

from transom.kube.objects import Projected
from transom.kube.resources import NAMESPACES as WHOLE_NAMESPACES
from transom.kube.resources import Resource


class NamespaceMeta(Projected, frozen=True):
    """`metadata` of a Namespace."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None


class Namespace(Projected, frozen=True):
    """A Namespace: name and labels."""

    metadata: NamespaceMeta = NamespaceMeta()

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.metadata.labels or {}


NAMESPACES: Final = Resource("", "v1", WHOLE_NAMESPACES.kind, WHOLE_NAMESPACES.plural, False, Namespace)
