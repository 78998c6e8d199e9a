"""A pod in, the JSON patch (RFC 6902) that gives it the settings out: nothing of the pod's own is altered or removed.

The proxy of a container is one unit: where it has one of the variables already, in either case, all are its own and none is
set. So the patch of a patched pod is empty.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
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
_SHAPES: Final = 32
"""How many patches are kept for pods of the same shape: some 6 kB each."""
_SHAPE: Final = 16
"""Steps of a patch that is kept: more are some user's pod with hundreds of containers."""


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation of a JSON patch; `path` is a JSON pointer (RFC 6901)."""

    op: Literal["add", "remove"]
    path: str
    value: Any = msgspec.UNSET


class EncodedPatch(msgspec.Struct, frozen=True):
    """A JSON patch as a review's response has it."""

    size: int
    """Bytes of its JSON."""
    base64: msgspec.Raw
    """That JSON in base64, a JSON string."""


class Operations(tuple[Operation, ...]):
    """The operations of one patch, in order."""

    @cached_property
    def encoded(self) -> EncodedPatch:
        """Made when it is asked for first: many pods get the same operations."""
        text = msgspec.json.encode(self)
        return EncodedPatch(len(text), msgspec.Raw(msgspec.json.encode(text)))


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

    operations: Operations = Operations()
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
    """What is to be done to a pod in a namespace with these labels, as `PodPatcher.patch`."""
    return PodPatcher(egress).patch(pod, namespace, labels, before=before)


class PodPatcher:
    """Gives pods the settings. What does not depend on the pod is made once, and the operations once for pods of one shape."""

    def __init__(self, egress: PodEgress) -> None:
        self.egress = egress
        self._linux, self._windows = (_OfOneSystem(egress, windows=windows) for windows in (False, True))

    def patch(self, pod: Pod, namespace: str, labels: Mapping[str, str], *, before: Pod | None = None) -> Patch:
        """What is to be done to a pod in a namespace with these labels.

        `before` is the pod as it is where ephemeral containers are added to it: then only the new ones are patched.
        """
        decided = decision.decide(pod, namespace, labels, self.egress)
        warnings = []
        if decision.withheld(decided):
            warnings.append(f"no proxy for this pod: {decided.proxy}")
        if (unknown := decision.unknown_value(pod)) and decided.proxy is None:
            warnings.append(unknown)
        if decided.proxy is not None and decided.ca is not None:
            return Patch(proxy=decided.proxy, ca=decided.ca, warnings=tuple(warnings))
        platform = self._windows if pod.spec.windows else self._linux
        writer = _Writer(pod, platform, decided, before)
        given = tuple(writer.containers())
        writer.rest(given)
        return Patch(
            platform.operations(tuple(writer.steps)),
            given,
            decided.proxy,
            decided.ca or writer.no_volume,
            (*warnings, *writer.own_proxies.warnings()),
            self.egress.in_secret and writer.gave,
        )


class _Prepend(msgspec.Struct, frozen=True, gc=False):
    """Variables for a container, before its own; `first`: it has none."""

    list: List
    index: int
    first: bool
    names: tuple[str, ...]


class _Remove(msgspec.Struct, frozen=True, gc=False):
    """A container's variable is taken out."""

    list: List
    index: int
    variable: int


class _Mount(msgspec.Struct, frozen=True, gc=False):
    """A container gets the directory with the CAs; `first`: it mounts nothing else."""

    list: List
    index: int
    first: bool


class _AddVolume(msgspec.Struct, frozen=True, gc=False):
    """The pod gets the volume; `first`: it has no other."""

    first: bool


class _Annotate(msgspec.Struct, frozen=True, gc=False):
    """The pod gets the annotation; `first`: it has no other."""

    first: bool


_Step = _Prepend | _Remove | _Mount | _AddVolume | _Annotate


class _OfOneSystem:
    """What pods of one operating system get by some settings."""

    def __init__(self, egress: PodEgress, *, windows: bool) -> None:
        self.windows = windows
        self.pairs = egress.pairs
        self.digest = egress.digest
        self.directory = WINDOWS_DIRECTORY if windows else DIRECTORY
        file = self.directory + ("\\" if windows else "/") + BUNDLE_KEY
        proxied = tuple(entry for pair in egress.pairs for entry in ((pair.upper,) if windows else (pair.upper, pair.lower)))
        self.proxied: tuple[str, ...] = tuple(entry["name"] for entry in proxied)
        self.entries: dict[str, Entry] = {entry["name"]: entry for entry in proxied}
        """By name, each variable that a container may get."""
        self.entries |= {
            name: {"name": name, "value": file} for name in CA_VARIABLES if not (windows and name == NOT_ON_WINDOWS)
        }
        self.entries[NODE_VARIABLE] = {"name": NODE_VARIABLE, "value": "1"}
        self._made = lru_cache(_SHAPES)(self._make)

    def of(self, pair: Pair) -> tuple[str, ...]:
        """The names by which a pair is set."""
        return (pair.name,) if self.windows else (pair.name, pair.twin)

    def operations(self, steps: tuple[_Step, ...]) -> Operations:
        """The steps as operations, which are kept for the next pod that needs the same."""
        return self._made(steps) if len(steps) <= _SHAPE else self._make(steps)

    def _make(self, steps: tuple[_Step, ...]) -> Operations:
        return Operations(operation for step in steps for operation in self._operations(step))

    def _operations(self, step: _Step) -> Iterator[Operation]:
        match step:
            case _Prepend(list_, index, first, names):
                path, entries = f"/spec/{list_}/{index}/env", [self.entries[name] for name in names]
                if first:
                    yield Operation("add", path, entries)
                else:
                    yield from (Operation("add", f"{path}/{number}", entry) for number, entry in enumerate(entries))
            case _Remove(list_, index, variable):
                yield Operation("remove", f"/spec/{list_}/{index}/env/{variable}")
            case _Mount(list_, index, first):
                mount = {"name": CONFIG_MAP, "mountPath": self.directory, "readOnly": True}
                yield _appended(f"/spec/{list_}/{index}/volumeMounts", mount, first=first)
            case _AddVolume(first):
                yield _appended("/spec/volumes", _VOLUME, first=first)
            case _Annotate(first):
                if first:
                    yield Operation("add", "/metadata/annotations", {SETTINGS_HASH: self.digest})
                else:
                    yield Operation("add", _HASH_PATH, self.digest)


def _appended(path: str, item: dict[str, Any], *, first: bool) -> Operation:
    return Operation("add", path, [item]) if first else Operation("add", f"{path}/-", item)


class _Writer:
    """Collects the steps for one pod."""

    def __init__(self, pod: Pod, platform: _OfOneSystem, decided: decision.PodDecision, before: Pod | None) -> None:
        self._pod = pod
        self._platform = platform
        self._ephemeral = before is not None
        self._there = {one.name for one in (before.spec.ephemeral_containers or ())} if before else set[str]()
        self._windows = platform.windows
        self._pairs = platform.pairs if decided.proxy is None else ()
        self._proxied = platform.proxied if decided.proxy is None else ()
        self._override = decision.overrides(pod)
        self._node = decided.proxy is None and pod.metadata.annotation(decision.NODE_USE_ENV_PROXY) == "true"
        self.no_volume = _no_volume(pod, adding=not self._ephemeral) if decided.ca is None else None
        self._ca = decided.ca is None and self.no_volume is None
        self._excluded = decision.excluded_containers(pod)
        self._own = False
        self.gave = False
        self.own_proxies = OwnProxies(windows=self._windows)
        # what a container may have of its own, so that the usual one, which has nothing, is done at once
        self._known = PROXY_VARIABLES if self._pairs else set[str]()
        self.steps: list[_Step] = []

    def containers(self) -> Iterator[Given]:
        """Each container's part, in the order in which they start."""
        spec = self._pod.spec
        for name, found in zip(LISTS, (spec.init_containers, spec.containers, spec.ephemeral_containers), strict=True):
            if not found or (self._ephemeral and name != "ephemeralContainers"):
                continue
            for index, container in enumerate(found):
                if container.name not in self._there:
                    yield self._container(container, name, index)

    def rest(self, given: Iterable[Given]) -> None:
        """What the pod itself gets: the volume, and the annotation."""
        if self._ephemeral:
            return
        mounted = self._ca and any(one.mounted for one in given)
        volumes = self._pod.spec.volumes
        if mounted and not any(volume.name == CONFIG_MAP for volume in volumes or ()):
            self.steps.append(_AddVolume(volumes is None))
        if self.gave:
            self._annotate()

    def _annotate(self) -> None:
        present = self._pod.metadata.annotation(SETTINGS_HASH)
        # variables of an earlier call, before another webhook added a container, may be of older settings: those count
        if present == self._platform.digest or (present is not None and self._own):
            return
        self.steps.append(_Annotate(self._pod.metadata.annotations is None))

    def _container(self, container: Container, list_: List, index: int) -> Given:
        if container.name in self._excluded:
            return Given(container.name, list_, excluded=True)
        names = _names(container, windows=self._windows)
        if self._known.isdisjoint(names):
            if self._pairs:
                self.gave = True
                self.own_proxies.given(container)
            if not self._node and not self._ca:
                if self._proxied:
                    self.steps.append(_Prepend(list_, index, container.env is None, self._proxied))
                return Given(container.name, list_, self._proxied)
            added, kept, replaced = list(self._proxied), list[str](), list[str]()
        else:
            added, kept, replaced = self._beside_its_own(container, names)
        if self._node and NODE_VARIABLE not in names:
            added.append(NODE_VARIABLE)
        mounted = self._ca and self._trust(container, names, list_, index, added, kept)
        for variable in reversed(self._indexes(container, replaced) if replaced else []):
            self.steps.append(_Remove(list_, index, variable))
        if added:
            self.steps.append(_Prepend(list_, index, container.env is None, tuple(added)))
        return Given(container.name, list_, tuple(added), tuple(kept), tuple(replaced), mounted)

    def _beside_its_own(self, container: Container, names: Mapping[str, str]) -> tuple[list[str], list[str], list[str]]:
        """What a container gets that has some of the variables; those that it keeps, and those that are replaced."""
        env = container.env or []
        own = [one.name for one in env if (one.name.upper() if self._windows else one.name) in PROXY_VARIABLES]
        if not self._override:
            self._own = True
            if all(self._there_as_ours(env, name) for name in self._proxied):
                return [], [], []
            self.own_proxies.kept(container)
            return [], own, []
        added: list[str] = []
        replaced: list[str] = []
        for pair in self._pairs:
            present = [one for one in own if _same(one, pair, windows=self._windows)]
            if present and self._ours(env, pair):
                self._own = True
                continue
            replaced += present
            added += self._platform.of(pair)
            self.gave = True
        return added, [one for one in own if one not in replaced], list(dict.fromkeys(replaced))

    def _trust(
        self, container: Container, names: Mapping[str, str], list_: List, index: int, added: list[str], kept: list[str]
    ) -> bool:
        """The directory and the variables that point into it; whether the directory is there then, and ours."""
        directory = self._platform.directory
        present = next((one for one in container.volume_mounts or () if one.mount_path == directory), None)
        if present is not None and present.name != CONFIG_MAP:
            kept.append(directory)
            return False
        for name in CA_VARIABLES:
            if name in names:
                kept.append(names[name])
            elif not (self._windows and name == NOT_ON_WINDOWS):
                added.append(name)
        if present is None:
            self.steps.append(_Mount(list_, index, container.volume_mounts is None))
        return True

    def _ours(self, env: list[PodVariable], pair: Pair) -> bool:
        """Whether each name of a pair is there exactly once, with our value."""
        wanted = self._platform.of(pair)
        present = [one for one in env if _same(one.name, pair, windows=self._windows)]
        return len(present) == len(wanted) and all(self._there_as_ours(present, name) for name in wanted)

    def _there_as_ours(self, env: list[PodVariable], name: str) -> bool:
        entry = self._platform.entries[name]
        return any(_equal(one, entry) for one in env)

    def _indexes(self, container: Container, names: Iterable[str]) -> list[int]:
        upper = {name.upper() for name in names}
        pairs = [pair for pair in self._pairs if pair.name in upper]
        return [
            index
            for index, one in enumerate(container.env or ())
            if any(_same(one.name, pair, windows=self._windows) for pair in pairs)
        ]


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
