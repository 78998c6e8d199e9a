"""Containers with variables of their own, and the warnings for those that may not work: half a proxy, or one from `envFrom`."""

from collections.abc import Iterator

from transom.pods.environment import NO, PROXY_VARIABLES
from transom.pods.pod import Container

_SHOWN = 4


class OwnProxies:
    """Collects the containers of one pod."""

    def __init__(self, *, windows: bool) -> None:
        self._windows = windows
        self._without_no_proxy: list[str] = []
        self._without_proxy: list[str] = []
        self._env_from: list[str] = []

    def given(self, container: Container) -> None:
        """Note a container that gets the variables: `env` takes precedence over `envFrom` (Kubernetes API, Container)."""
        if self._may_bring(container):
            self._env_from.append(container.name)

    def kept(self, container: Container) -> None:
        """Note a container that keeps what it has. A variable with an empty value says that there is to be none."""
        proxy = no_proxy = None
        for one in container.env or ():
            name = one.name.upper() if self._windows else one.name
            if name not in PROXY_VARIABLES:
                continue
            if name.upper() == NO:
                no_proxy = True
            else:
                proxy = proxy or bool(one.value or one.value_from)
        if proxy and no_proxy is None:
            self._without_no_proxy.append(container.name)
        elif no_proxy and proxy is None:
            self._without_proxy.append(container.name)

    def warnings(self) -> Iterator[str]:
        """A line for each shape that is there."""
        for names, text in (
            (self._without_no_proxy, "a proxy of its own without NO_PROXY: requests within the cluster go to that proxy too"),
            (self._without_proxy, "NO_PROXY of its own without a proxy: it gets none of ours"),
            (self._env_from, "envFrom may bring a proxy: ours takes precedence over it"),
        ):
            if names:
                rest = len(names) - _SHOWN
                yield f"{', '.join(names[:_SHOWN])}{f' and {rest} more' if rest > 0 else ''}: {text}"

    def _may_bring(self, container: Container) -> bool:
        """Whether a key with the prefix before it could be one of the variables."""
        for one in container.env_from or ():
            prefix = one.prefix or ""
            if any((name.upper() if self._windows else name).startswith(prefix) for name in PROXY_VARIABLES):
                return True
        return False
