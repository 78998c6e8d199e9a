"""Annotation `transom.dev/resume`, by which a person resumes halted rollouts: on the base settings or the namespace."""

from collections.abc import Callable
from typing import Final

import msgspec

from transom.controllers.runtime.informers import Informers
from transom.kube.objects import ObjectMeta
from transom.kube.resources import NAMESPACES
from transom.proxy.layers import BASE

RESUME: Final = "transom.dev/resume"
"""Each new value resumes halted rollouts once."""


class ResumeAnnotation:
    """The annotation as it stands on each object that may have it."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._namespaces = informers.watch(NAMESPACES, fields=f"metadata.name={informers.namespace}")

    def read(self) -> str:
        """Return the values of all objects as one text; empty if no object has the annotation."""
        namespace = self._namespaces.take_snapshot().find_named(self._informers.namespace)
        objects = (self._informers.egress_proxies.take_snapshot().find_named(BASE), self._informers.openshift_proxy, namespace)
        values = [_find_value(item.metadata) if item is not None else "" for item in objects]
        return msgspec.json.encode(values).decode() if any(values) else ""

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when a value changes."""
        known = self.read()

        def compare(*_: object) -> None:
            nonlocal known
            if (current := self.read()) != known:
                known = current
                on_change()

        self._namespaces.subscribe(compare)
        self._informers.egress_proxies.subscribe(compare)
        self._informers.openshift_proxies.subscribe(compare)


def _find_value(metadata: ObjectMeta) -> str:
    return (metadata.annotations or {}).get(RESUME, "")
