"""A pod in, the JSON patch (RFC 6902) that gives it the settings out: nothing of the pod's own is altered or removed.

The proxy of a container is one unit: where it has one of the variables already, in either case, all are its own and none is
set. So the patch of a patched pod is empty.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

import msgspec

from transom.common.counting import format_first
from transom.pods import decision
from transom.pods.decision import EXCLUDE_CONTAINERS
from transom.pods.environment import (
    BUNDLE_KEY,
    CA_VARIABLES,
    CONFIG_MAP,
    NOT_ON_WINDOWS,
    PROXY_VARIABLES,
    SECRET,
    Entry,
    PodEgress,
    VariablePair,
)
from transom.pods.pod_size import explain_oversized_pod
from transom.pods.pod_types import Container, Pod, PodVariable
from transom.pods.proxy_conflicts import ProxyConflicts
from transom.pods.trust_mounts import TrustMounts

SETTINGS_HASH: Final = "transom.dev/settings-hash"
"""The annotation that says which settings a pod was given."""
DIRECTORY: Final = "/etc/transom/ca"
WINDOWS_DIRECTORY: Final = r"C:\transom\ca"
NODE_VARIABLE: Final = "NODE_USE_ENV_PROXY"
List = Literal["initContainers", "containers", "ephemeralContainers"]
LISTS: Final[tuple[List, ...]] = ("initContainers", "containers", "ephemeralContainers")
_HASH_PATH: Final = "/metadata/annotations/" + SETTINGS_HASH.replace("/", "~1")
_VOLUME: Final = {"name": CONFIG_MAP, "configMap": {"name": CONFIG_MAP, "optional": False}}
_SHOWN: Final = 8
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
        """Created with the first access: many pods get the same operations."""
        text = msgspec.json.encode(self)
        return EncodedPatch(len(text), msgspec.Raw(msgspec.json.encode(text)))


class ContainerPatch(msgspec.Struct, frozen=True):
    """What one container gets (`added`), and what it keeps of its own; `excluded`: an annotation leaves it out."""

    container: str
    list: List
    added: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    mounted: bool = False
    excluded: bool = False
    blocked: bool = False
    """Whether a mount of its own keeps the CAs out."""


class Patch(msgspec.Struct, frozen=True):
    """What is done to a pod. `proxy` and `ca` are why it does not get them; None where it does."""

    operations: Operations = Operations()
    given: tuple[ContainerPatch, ...] = ()
    proxy: str | None = None
    ca: str | None = None
    warnings: tuple[str, ...] = ()
    needs_secret: bool = False
    """Whether a container refers to the Secret by this patch."""


def build_patch(
    pod: Pod,
    namespace: str,
    labels: Mapping[str, str],
    egress: PodEgress,
    *,
    before: Pod | None = None,
) -> Patch:
    """Build the operations on a pod in a namespace with these labels, as `PodPatcher.build_patch` does."""
    return PodPatcher(egress).build_patch(pod, namespace, labels, before=before)


class PodPatcher:
    """Gives pods the settings. What does not depend on the pod is made once, and the operations once for pods of one shape."""

    def __init__(self, egress: PodEgress, shapes: int = _SHAPES) -> None:
        """Give pods `egress`; the operations are kept for that many shapes of pods."""
        self.egress = egress
        self._linux, self._windows = (_SystemPatcher(egress, shapes, windows=windows) for windows in (False, True))

    def build_patch(self, pod: Pod, namespace: str, labels: Mapping[str, str], *, before: Pod | None = None) -> Patch:
        """Build the operations on a pod in a namespace with these labels.

        `before` is the existing pod if ephemeral containers are added to it: then only the new ones are patched.
        """
        excess = explain_oversized_pod(pod) or (explain_oversized_pod(before) if before is not None else None)
        if excess is not None:
            return build_empty_patch(excess)
        decided = decision.decide_pod(pod, namespace, labels, self.egress)
        warnings = []
        if decision.is_withheld(decided):
            warnings.append(f"no proxy for this pod: {decided.no_proxy_reason}")
        if (unknown := decision.find_unknown_value(pod)) and decided.no_proxy_reason is None:
            warnings.append(unknown)
        if decided.no_proxy_reason is not None and decided.no_ca_reason is not None:
            return Patch(proxy=decided.no_proxy_reason, ca=decided.no_ca_reason, warnings=tuple(warnings))
        platform = self._windows if pod.spec.windows else self._linux
        writer = _PodPatchBuilder(pod, platform, decided, before)
        container_patches = tuple(writer.iter_container_patches())
        writer.add_pod_steps(container_patches)
        return Patch(
            platform.build_operations(tuple(writer.steps)),
            container_patches,
            decided.no_proxy_reason,
            decided.no_ca_reason or writer.no_volume,
            (
                *warnings,
                *writer.own_proxies.iter_warnings(),
                *writer.own_trust.iter_warnings(),
                *(self.egress.no_proxy_warnings if writer.gave else ()),
            ),
            self.egress.in_secret and writer.gave,
        )


def build_empty_patch(reason: str, warnings: tuple[str, ...] = ()) -> Patch:
    """Return the patch of a pod that gets nothing, with a warning that says why."""
    return Patch(proxy=reason, ca=reason, warnings=(*warnings, f"no settings for this pod: {reason}"))


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


class _SystemPatcher:
    """What pods of one operating system get by some settings."""

    def __init__(self, egress: PodEgress, shapes: int, *, windows: bool) -> None:
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
        self._made = lru_cache(shapes)(self._make)

    def get_names(self, pair: VariablePair) -> tuple[str, ...]:
        """Return the names by which a pair is set."""
        return (pair.name,) if self.windows else (pair.name, pair.twin)

    def build_operations(self, steps: tuple[_Step, ...]) -> Operations:
        """Return the steps as operations, cached for the next pod that needs the same."""
        return self._made(steps) if len(steps) <= _SHAPE else self._make(steps)

    def _make(self, steps: tuple[_Step, ...]) -> Operations:
        return Operations(operation for step in steps for operation in self._iter_operations(step))

    def _iter_operations(self, step: _Step) -> Iterator[Operation]:
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
                yield _append_operation(f"/spec/{list_}/{index}/volumeMounts", mount, first=first)
            case _AddVolume(first):
                yield _append_operation("/spec/volumes", _VOLUME, first=first)
            case _Annotate(first):
                if first:
                    yield Operation("add", "/metadata/annotations", {SETTINGS_HASH: self.digest})
                else:
                    yield Operation("add", _HASH_PATH, self.digest)


def _append_operation(path: str, item: dict[str, Any], *, first: bool) -> Operation:
    return Operation("add", path, [item]) if first else Operation("add", f"{path}/-", item)


class _PodPatchBuilder:
    """Collects the steps for one pod."""

    def __init__(self, pod: Pod, platform: _SystemPatcher, decided: decision.PodDecision, before: Pod | None) -> None:
        self._pod = pod
        self._platform = platform
        self._ephemeral = before is not None
        self._there = (
            {ephemeral_container.name for ephemeral_container in (before.spec.ephemeral_containers or ())}
            if before
            else set[str]()
        )
        self._windows = platform.windows
        self._pairs = platform.pairs if decided.no_proxy_reason is None else ()
        self._proxied = platform.proxied if decided.no_proxy_reason is None else ()
        self._override = decision.should_override(pod)
        self._node = decided.no_proxy_reason is None and pod.metadata.get_annotation(decision.NODE_USE_ENV_PROXY) == "true"
        self.no_volume = _explain_no_volume(pod, adding=not self._ephemeral) if decided.no_ca_reason is None else None
        self._ca = decided.no_ca_reason is None and self.no_volume is None
        self._excluded = decision.list_excluded_containers(pod)
        self._own = False
        self.gave = False
        self.own_proxies = ProxyConflicts(windows=self._windows)
        self.own_trust = TrustMounts(pod, platform.directory, windows=self._windows)
        # what a container may have of its own, so that the usual one, which has nothing, is done at once
        self._known = PROXY_VARIABLES if self._pairs else set[str]()
        self.steps: list[_Step] = []

    def iter_container_patches(self) -> Iterator[ContainerPatch]:
        """Each container's part, in the order in which they start."""
        spec = self._pod.spec
        for name, item in zip(LISTS, (spec.init_containers, spec.containers, spec.ephemeral_containers), strict=True):
            if not item or (self._ephemeral and name != "ephemeralContainers"):
                continue
            for index, container in enumerate(item):
                if container.name not in self._there:
                    yield self._build_container_patch(container, name, index)

    def add_pod_steps(self, container_patches: Iterable[ContainerPatch]) -> None:
        """Write the pod's own part: the volume and the annotation."""
        if self._ephemeral:
            return
        mounted = self._ca and any(item.mounted for item in container_patches)
        volumes = self._pod.spec.volumes
        if mounted and not any(volume.name == CONFIG_MAP for volume in volumes or ()):
            self.steps.append(_AddVolume(volumes is None))
        if self.gave:
            self._add_annotation_step()

    def _add_annotation_step(self) -> None:
        present = self._pod.metadata.get_annotation(SETTINGS_HASH)
        # variables of an earlier call, before another webhook added a container, may be of older settings: those count
        if present == self._platform.digest or (present is not None and self._own):
            return
        self.steps.append(_Annotate(self._pod.metadata.annotations is None))

    def _build_container_patch(self, container: Container, list_name: List, index: int) -> ContainerPatch:
        if container.name in self._excluded:
            return ContainerPatch(container.name, list_name, excluded=True)
        names = _map_names(container, windows=self._windows)
        if self._known.isdisjoint(names):
            if self._pairs:
                self.gave = True
                self.own_proxies.add_patched(container)
            if not self._node and not self._ca:
                if self._proxied:
                    self.steps.append(_Prepend(list_name, index, container.env is None, self._proxied))
                return ContainerPatch(container.name, list_name, self._proxied)
            added, kept, replaced = list(self._proxied), list[str](), list[str]()
        else:
            added, kept, replaced = self._merge_with_own(container, names)
        if self._node and NODE_VARIABLE not in names:
            added.append(NODE_VARIABLE)
        mounted = self._ca and self._add_trust_steps(container, names, list_name, index, added, kept)
        for variable in reversed(self._list_indexes(container, replaced) if replaced else []):
            self.steps.append(_Remove(list_name, index, variable))
        if added:
            self.steps.append(_Prepend(list_name, index, container.env is None, tuple(added)))
        blocked = self._ca and self.own_trust.is_blocked(container.name)
        return ContainerPatch(container.name, list_name, tuple(added), tuple(kept), tuple(replaced), mounted, blocked=blocked)

    def _merge_with_own(self, container: Container, names: Mapping[str, str]) -> tuple[list[str], list[str], list[str]]:
        """Merge with the container's own variables: return what it gets, the kept ones, and the replaced ones."""
        env = container.env or []
        own = [item.name for item in env if (item.name.upper() if self._windows else item.name) in PROXY_VARIABLES]
        if not self._override:
            self._own = True
            if all(self._has_transom_value(env, name) for name in self._proxied):
                return [], [], []
            self.own_proxies.add_unchanged(container)
            return [], own, []
        added: list[str] = []
        replaced: dict[str, None] = {}
        for pair in self._pairs:
            present = [item for item in own if _is_same_name(item, pair, windows=self._windows)]
            if present and self._has_transom_pair(env, pair):
                self._own = True
                continue
            replaced.update(dict.fromkeys(present))
            added += self._platform.get_names(pair)
            self.gave = True
        return added, [item for item in own if item not in replaced], list(replaced)

    def _add_trust_steps(
        self, container: Container, names: Mapping[str, str], list_name: List, index: int, added: list[str], kept: list[str]
    ) -> bool:
        """Mount the directory and set the variables for it; return True if the directory then exists, and is Transom's."""
        directory = self._platform.directory
        present = self.own_trust.find_mount_at_directory(container)
        if present is not None and present.name != CONFIG_MAP:
            kept.append(directory)
            return False
        if present is None and not self.own_trust.can_mount(container):
            return False
        store = self.own_trust.has_own_store(container)
        for name in CA_VARIABLES:
            if name in names:
                kept.append(names[name])
            elif not store and not (self._windows and name == NOT_ON_WINDOWS):
                added.append(name)
        if present is None:
            self.steps.append(_Mount(list_name, index, container.volume_mounts is None))
        return True

    def _has_transom_pair(self, env: list[PodVariable], pair: VariablePair) -> bool:
        """Return True if each name of a pair occurs exactly once, with Transom's value."""
        wanted = self._platform.get_names(pair)
        present = [item for item in env if _is_same_name(item.name, pair, windows=self._windows)]
        return len(present) == len(wanted) and all(self._has_transom_value(present, name) for name in wanted)

    def _has_transom_value(self, env: list[PodVariable], name: str) -> bool:
        entry = self._platform.entries[name]
        return any(_matches_entry(item, entry) for item in env)

    def _list_indexes(self, container: Container, names: Iterable[str]) -> list[int]:
        upper = {name.upper() for name in names}
        pairs = [pair for pair in self._pairs if pair.name in upper]
        return [
            index
            for index, item in enumerate(container.env or ())
            if any(_is_same_name(item.name, pair, windows=self._windows) for pair in pairs)
        ]


def _map_names(container: Container, *, windows: bool) -> dict[str, str]:
    """Return a container's variable names by their lookup key, without case on Windows."""
    if not container.env:
        return {}
    if windows:
        return {item.name.upper(): item.name for item in container.env}
    return {item.name: item.name for item in container.env}


def _is_same_name(name: str, pair: VariablePair, *, windows: bool) -> bool:
    return (name.upper() if windows else name) in (pair.name, pair.twin)


def _matches_entry(variable: PodVariable, entry: Entry) -> bool:
    return (
        variable.name == entry["name"]
        and variable.value == entry.get("value")
        and variable.value_from == entry.get("valueFrom")
    )


def _explain_no_volume(pod: Pod, *, adding: bool) -> str | None:
    """Why the directory cannot be mounted; None where it can."""
    present = next((volume for volume in pod.spec.volumes or () if volume.name == CONFIG_MAP), None)
    if present is not None and (present.config_map is None or present.config_map.name != CONFIG_MAP):
        return f"the pod has another volume named {CONFIG_MAP}"
    if present is None and not adding:
        return f"the pod has no volume {CONFIG_MAP}, and volumes cannot be added to an existing pod"
    return None


def format_missing_secret(namespace: str) -> str:
    """Return the warning for a Secret that does not exist yet."""
    return f"Secret {SECRET} is not in namespace {namespace} yet: the containers wait for it"


def format_proxy_result(patch: Patch) -> str:
    """Return the result for the proxy variables in one line, without values."""
    if patch.proxy is not None:
        return f"not given: {patch.proxy}"
    return _format_containers(patch.given)


def format_ca_result(patch: Patch) -> str:
    """Return the result for the CAs in one line."""
    if patch.ca is not None:
        return f"not given: {patch.ca}"
    mounted = [item.container for item in patch.given if item.mounted]
    blocked = [item.container for item in patch.given if item.blocked]
    parts = [f"mounted in {format_first(mounted, _SHOWN)}"] if mounted else []
    if blocked:
        parts.append(f"not given to {format_first(blocked, _SHOWN)}: a volume of their own is mounted above the directory")
    return "; ".join(parts) or "nothing to do: the containers have it"


def _format_containers(container_patches: Sequence[ContainerPatch]) -> str:
    added = [item.container for item in container_patches if item.added]
    excluded = [item.container for item in container_patches if item.excluded]
    kept = [f"{item.container} keeps its {format_first(item.kept, _SHOWN)}" for item in container_patches if item.kept]
    rest = kept[:_SHOWN]
    if excluded:
        rest.append(f"annotation {EXCLUDE_CONTAINERS} leaves out {format_first(excluded, _SHOWN)}")
    if added:
        return "; ".join([f"given to {format_first(added, _SHOWN)}", *rest])
    return f"nothing to do: {'; '.join(rest) or 'the containers have it'}"
