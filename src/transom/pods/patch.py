"""A pod in, the JSON patch (RFC 6902) that gives it the settings out: nothing of the pod's own is altered or removed.

The proxy of a container is one unit: where it has one of the variables already, in either case, all are its own and none is
set. So the patch of a patched pod is empty.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from transom.pods import Container, Pod, PodVariable, decision
from transom.pods.decision import EXCLUDE_CONTAINERS
from transom.pods.environment import (
    BUNDLE_KEY,
    CA_VARIABLES,
    CONFIG_MAP,
    NO,
    NOT_ON_WINDOWS,
    PROXY_VARIABLES,
    SECRET,
    Entry,
    Pair,
    PodEgress,
)

SETTINGS_HASH: Final = "transom.dev/settings-hash"
"""The annotation that says which settings a pod was given."""
DIRECTORY: Final = "/etc/transom/ca"
WINDOWS_DIRECTORY: Final = r"C:\transom\ca"
NODE_VARIABLE: Final = "NODE_USE_ENV_PROXY"
List = Literal["initContainers", "containers", "ephemeralContainers"]
LISTS: Final[tuple[List, ...]] = ("initContainers", "containers", "ephemeralContainers")
_HASH_PATH: Final = "/metadata/annotations/" + SETTINGS_HASH.replace("/", "~1")
_VOLUME: Final = {"name": CONFIG_MAP, "configMap": {"name": CONFIG_MAP, "optional": False}}
_SHOWN = 4


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation of a JSON patch; `path` is a JSON pointer (RFC 6901)."""

    op: Literal["add", "remove"]
    path: str
    value: Any = msgspec.UNSET


class Given(msgspec.Struct, frozen=True):
    """What one container gets (`added`), and what it keeps of its own; `excluded`: an annotation leaves it out."""

    container: str
    list: List
    added: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    mounted: bool = False
    excluded: bool = False


class Patch(msgspec.Struct, frozen=True):
    """What is done to a pod. `proxy` and `ca` are why it does not get them; None where it does."""

    operations: tuple[Operation, ...] = ()
    given: tuple[Given, ...] = ()
    proxy: str | None = None
    ca: str | None = None
    warnings: tuple[str, ...] = ()
    needs_secret: bool = False
    """Whether a container refers to the Secret by this patch."""


def patch(
    pod: Pod,
    namespace: str,
    labels: Mapping[str, str],
    egress: PodEgress,
    *,
    before: Pod | None = None,
) -> Patch:
    """What is to be done to a pod in a namespace with these labels.

    `before` is the pod as it is where ephemeral containers are added to it: then only the new ones are patched.
    """
    decided = decision.decide(pod, namespace, labels, egress)
    warnings = []
    if decision.withheld(decided):
        warnings.append(f"no proxy for this pod: {decided.proxy}")
    if (unknown := decision.unknown_value(pod)) and decided.proxy is None:
        warnings.append(unknown)
    if decided.proxy is not None and decided.ca is not None:
        return Patch(proxy=decided.proxy, ca=decided.ca, warnings=tuple(warnings))
    writer = _Writer(pod, egress, decided, before)
    given = tuple(writer.containers())
    writer.rest(given)
    return Patch(
        tuple(writer.operations),
        given,
        decided.proxy,
        decided.ca or writer.no_volume,
        (*warnings, *writer.own_proxies.warnings()),
        egress.in_secret and writer.gave,
    )


class _Writer:
    """Collects the operations for one pod."""

    def __init__(self, pod: Pod, egress: PodEgress, decided: decision.PodDecision, before: Pod | None) -> None:
        self._pod = pod
        self._egress = egress
        self._ephemeral = before is not None
        self._there = {one.name for one in (before.spec.ephemeral_containers or ())} if before else set[str]()
        self._windows = pod.spec.windows
        self._pairs = egress.pairs if decided.proxy is None else ()
        self._override = decision.overrides(pod)
        self._node = decided.proxy is None and pod.metadata.annotation(decision.NODE_USE_ENV_PROXY) == "true"
        self.no_volume = _no_volume(pod, adding=not self._ephemeral) if decided.ca is None else None
        self._ca = decided.ca is None and self.no_volume is None
        self._excluded = decision.excluded_containers(pod)
        self._own = False
        self.gave = False
        self.own_proxies = OwnProxies(windows=self._windows)
        self._entries = tuple(entry for pair in self._pairs for entry in self._of(pair))
        self._proxied = tuple(entry["name"] for entry in self._entries)
        # what a container may have of its own, so that the usual one, which has nothing, is done at once
        self._known = PROXY_VARIABLES if self._pairs else frozenset[str]()
        self.operations: list[Operation] = []

    def containers(self) -> Iterator[Given]:
        """Each container's part, in the order in which they start."""
        spec = self._pod.spec
        for name, found in zip(LISTS, (spec.init_containers, spec.containers, spec.ephemeral_containers), strict=True):
            if self._ephemeral and name != "ephemeralContainers":
                continue
            for index, container in enumerate(found or ()):
                if container.name not in self._there:
                    yield self._container(container, name, f"/spec/{name}/{index}")

    def rest(self, given: Iterable[Given]) -> None:
        """What the pod itself gets: the volume, and the annotation."""
        if self._ephemeral:
            return
        mounted = any(one.mounted for one in given)
        volumes = self._pod.spec.volumes
        if mounted and not any(volume.name == CONFIG_MAP for volume in volumes or ()):
            self._append("/spec/volumes", volumes, _VOLUME)
        if self.gave:
            self._annotate()

    def _annotate(self) -> None:
        present = self._pod.metadata.annotation(SETTINGS_HASH)
        # variables of an earlier call, before another webhook added a container, may be of older settings: those count
        if present == self._egress.digest or (present is not None and self._own):
            return
        if self._pod.metadata.annotations is None:
            self.operations.append(Operation("add", "/metadata/annotations", {SETTINGS_HASH: self._egress.digest}))
        else:
            self.operations.append(Operation("add", _HASH_PATH, self._egress.digest))

    def _container(self, container: Container, list_: List, path: str) -> Given:
        if container.name in self._excluded:
            return Given(container.name, list_, excluded=True)
        names = _names(container, windows=self._windows)
        if self._known.isdisjoint(names):
            if self._pairs:
                self.gave = True
                self.own_proxies.given(container)
            if not self._node and not self._ca:
                if self._entries:
                    self._prepend(f"{path}/env", container.env, self._entries)
                return Given(container.name, list_, self._proxied)
            entries, kept, replaced = list(self._entries), list[str](), list[str]()
        else:
            entries, kept, replaced = self._beside_its_own(container, names)
        if self._node and NODE_VARIABLE not in names:
            entries.append({"name": NODE_VARIABLE, "value": "1"})
        mounted = self._ca and self._trust(container, names, path, entries, kept)
        for index in reversed(self._indexes(container, replaced) if replaced else []):
            self.operations.append(Operation("remove", f"{path}/env/{index}"))
        if entries:
            self._prepend(f"{path}/env", container.env, entries)
        return Given(container.name, list_, tuple(entry["name"] for entry in entries), tuple(kept), tuple(replaced), mounted)

    def _beside_its_own(self, container: Container, names: Mapping[str, str]) -> tuple[list[Entry], list[str], list[str]]:
        """What a container gets that has some of the variables; those that it keeps, and those that are replaced."""
        env = container.env or []
        own = [one.name for one in env if (one.name.upper() if self._windows else one.name) in PROXY_VARIABLES]
        if not self._override:
            self._own = True
            if all(any(_equal(one, entry) for one in env) for entry in self._entries):
                return [], [], []
            self.own_proxies.kept(container)
            return [], own, []
        entries: list[Entry] = []
        replaced: list[str] = []
        for pair in self._pairs:
            present = [one for one in own if _same(one, pair, windows=self._windows)]
            if present and self._ours(env, pair):
                self._own = True
                continue
            replaced += present
            entries += self._of(pair)
            self.gave = True
        return entries, [one for one in own if one not in replaced], list(dict.fromkeys(replaced))

    def _of(self, pair: Pair) -> tuple[Entry, ...]:
        return (pair.upper,) if self._windows else (pair.upper, pair.lower)

    def _trust(self, container: Container, names: Mapping[str, str], path: str, entries: list[Entry], kept: list[str]) -> bool:
        """The directory and the variables that point into it; whether the directory is there then, and ours."""
        directory = WINDOWS_DIRECTORY if self._windows else DIRECTORY
        file = directory + ("\\" if self._windows else "/") + BUNDLE_KEY
        present = next((one for one in container.volume_mounts or () if one.mount_path == directory), None)
        if present is not None and present.name != CONFIG_MAP:
            kept.append(directory)
            return False
        for name in CA_VARIABLES:
            if name in names:
                kept.append(names[name])
            elif not (self._windows and name == NOT_ON_WINDOWS):
                entries.append({"name": name, "value": file})
        if present is None:
            mount = {"name": CONFIG_MAP, "mountPath": directory, "readOnly": True}
            self._append(f"{path}/volumeMounts", container.volume_mounts, mount)
        return True

    def _ours(self, env: list[PodVariable], pair: Pair) -> bool:
        """Whether each name of a pair is there exactly once, with our value."""
        wanted = [pair.upper] if self._windows else [pair.upper, pair.lower]
        present = [one for one in env if _same(one.name, pair, windows=self._windows)]
        return len(present) == len(wanted) and all(any(_equal(one, entry) for one in present) for entry in wanted)

    def _indexes(self, container: Container, names: Iterable[str]) -> list[int]:
        upper = {name.upper() for name in names}
        pairs = [pair for pair in self._pairs if pair.name in upper]
        return [
            index
            for index, one in enumerate(container.env or ())
            if any(_same(one.name, pair, windows=self._windows) for pair in pairs)
        ]

    def _prepend(self, path: str, env: list[PodVariable] | None, entries: Sequence[Entry]) -> None:
        if env is None:
            self.operations.append(Operation("add", path, list(entries)))
        else:
            self.operations += [Operation("add", f"{path}/{index}", entry) for index, entry in enumerate(entries)]

    def _append(self, path: str, items: list[Any] | None, item: dict[str, Any]) -> None:
        if items is None:
            self.operations.append(Operation("add", path, [item]))
        else:
            self.operations.append(Operation("add", f"{path}/-", item))


def _names(container: Container, *, windows: bool) -> dict[str, str]:
    """The names of a container's variables, by how they are looked for: on Windows case says nothing."""
    if not container.env:
        return {}
    if windows:
        return {one.name.upper(): one.name for one in container.env}
    return {one.name: one.name for one in container.env}


def _same(name: str, pair: Pair, *, windows: bool) -> bool:
    return (name.upper() if windows else name) in (pair.name, pair.twin)


def _equal(one: PodVariable, entry: Entry) -> bool:
    return one.name == entry["name"] and one.value == entry.get("value") and one.value_from == entry.get("valueFrom")


def _no_volume(pod: Pod, *, adding: bool) -> str | None:
    """Why the directory cannot be mounted; None where it can."""
    present = next((one for one in pod.spec.volumes or () if one.name == CONFIG_MAP), None)
    if present is not None and (present.config_map is None or present.config_map.name != CONFIG_MAP):
        return f"the pod has another volume named {CONFIG_MAP}"
    if present is None and not adding:
        return f"the pod has no volume {CONFIG_MAP}, and none can be added to a pod that is there"
    return None


def secret_missing(namespace: str) -> str:
    """The warning where the Secret is not there yet."""
    return f"Secret {SECRET} is not in namespace {namespace} yet: the containers wait for it"


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


_SHOWN = 8


def proxy_text(patch: Patch) -> str:
    """What became of the proxy variables, in one line. No value is in it."""
    if patch.proxy is not None:
        return f"not given: {patch.proxy}"
    return _given(patch.given)


def ca_text(patch: Patch) -> str:
    """What became of the CAs, in one line."""
    if patch.ca is not None:
        return f"not given: {patch.ca}"
    mounted = [one.container for one in patch.given if one.mounted]
    return f"mounted in {_listed(mounted)}" if mounted else "nothing to do: the containers have it"


def _given(given: Sequence[Given]) -> str:
    added = [one.container for one in given if one.added]
    excluded = [one.container for one in given if one.excluded]
    kept = [f"{one.container} keeps its {_listed(one.kept)}" for one in given if one.kept]
    rest = kept[:_SHOWN]
    if excluded:
        rest.append(f"annotation {EXCLUDE_CONTAINERS} leaves out {_listed(excluded)}")
    if added:
        return "; ".join([f"given to {_listed(added)}", *rest])
    return f"nothing to do: {'; '.join(rest) or 'the containers have it'}"


def _listed(names: Iterable[str]) -> str:
    """Names with commas; of many the first ones."""
    names = list(names)
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
