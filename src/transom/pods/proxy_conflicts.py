"""The proxy settings that a pod's containers have of their own, and the warnings about them."""

from collections.abc import Iterator
from typing import Final

from transom.common.counting import format_first
from transom.pods.environment import NO, PROXY_VARIABLES
from transom.pods.pod_types import Container

_SHOWN: Final = 8


class ProxyConflicts:
    """Collects the containers of one pod for the warnings."""

    def __init__(self, *, windows: bool) -> None:
        self._windows = windows
        self._without_no_proxy: list[str] = []
        self._without_proxy: list[str] = []
        self._env_from: list[str] = []

    def add_patched(self, container: Container) -> None:
        """Note a container that gets the variables: `env` takes precedence over `envFrom` (Kubernetes API, Container)."""
        if self._can_set_proxy(container):
            self._env_from.append(container.name)

    def add_unchanged(self, container: Container) -> None:
        """Note a container that keeps its variables. A variable with an empty value disables the proxy."""
        proxy = no_proxy = None
        for item in container.env or ():
            name = item.name.upper() if self._windows else item.name
            if name not in PROXY_VARIABLES:
                continue
            if name.upper() == NO:
                no_proxy = True
            else:
                proxy = proxy or bool(item.value or item.value_from)
        if proxy and no_proxy is None:
            self._without_no_proxy.append(container.name)
        elif no_proxy and proxy is None:
            self._without_proxy.append(container.name)

    def iter_warnings(self) -> Iterator[str]:
        """Iterate over the warnings, one per kind of conflict."""
        for names, text in (
            (self._without_no_proxy, "a proxy of its own without NO_PROXY: requests within the cluster go to that proxy too"),
            (self._without_proxy, "NO_PROXY is set without a proxy: Transom adds no proxy"),
            (self._env_from, "envFrom may bring a proxy: ours takes precedence over it"),
        ):
            if names:
                yield f"{format_first(names, _SHOWN)}: {text}"

    def _can_set_proxy(self, container: Container) -> bool:
        """Return True if a key with the prefix could be one of the variables."""
        for item in container.env_from or ():
            prefix = item.prefix or ""
            if any((name.upper() if self._windows else name).startswith(prefix) for name in PROXY_VARIABLES):
                return True
        return False
