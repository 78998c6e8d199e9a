"""UIDs of instances about which a process has to know something for as long as they are there."""

from transom.controllers.runtime.cached import CachedInstance
from transom.kube.store import Store


class Uids:
    """Forgets those that the store has no longer whenever one is added: a process lives longer than any instance."""

    def __init__(self, instances: Store[CachedInstance]) -> None:
        self._instances = instances
        self._noted = set[str | None]()

    def __contains__(self, cached: CachedInstance) -> bool:
        return cached.metadata.uid in self._noted

    def __len__(self) -> int:
        return len(self._noted)

    def add(self, cached: CachedInstance) -> None:
        """Note an instance."""
        self._noted &= {one.metadata.uid for one in self._instances.snapshot()}
        self._noted.add(cached.metadata.uid)
