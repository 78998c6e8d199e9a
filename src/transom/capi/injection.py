"""Our entries in a KubeadmConfigSpec: put there, renewed and taken out by a JSON Patch (RFC 6902) that touches nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from transom.capi import windows_proxy
from transom.capi.kubeadm import Entries
from transom.capi.machine_files import MARK, is_ours, paths_from_secrets

LABEL: Final = "transom.dev/inject"
"""A label or annotation with the value `true` lets Transom edit a template or a control plane."""
TEMPLATE_SPEC: Final = ("spec", "template", "spec")
"""Where a KubeadmConfigTemplate has its KubeadmConfigSpec."""
CONTROL_PLANE_SPEC: Final = ("spec", "kubeadmConfigSpec")
"""Where a KubeadmControlPlane has it."""
CONFIG_SPEC: Final = ("spec",)
"""Where the KubeadmConfig of a MachinePool is one."""
CLUSTER_CLASS: Final = "ClusterClass"
TOPOLOGY_OWNED: Final = "topology.cluster.x-k8s.io/owned"
_GITOPS: Final = (
    "kustomize.toolkit.fluxcd.io/name",
    "helm.toolkit.fluxcd.io/name",
    "argocd.argoproj.io/instance",
    "argocd.argoproj.io/tracking-id",
)
"""What Flux's kustomize- and helm-controller and Argo CD put on each object, as a label or an annotation."""
_APPLIERS: Final = {
    "argocd-controller": "Argo CD",
    "argocd-application-controller": "Argo CD",
    "kustomize-controller": "Flux",
    "helm-controller": "Flux",
}
"""Their field managers: Argo CD's default label is one that Helm charts set, too."""

Operation = dict[str, Any]
"""An operation of a JSON Patch."""


class Edit(msgspec.Struct, frozen=True):
    """What there is to do. `foreign` are paths of files that somebody else has: then there is no operation at all."""

    operations: tuple[Operation, ...] = ()
    foreign: tuple[str, ...] = ()


def asks(metadata: Mapping[str, Any]) -> bool:
    """Whether an object lets Transom edit it."""
    return any((metadata.get(where) or {}).get(LABEL) == "true" for where in ("labels", "annotations"))


def keeper(metadata: Mapping[str, Any]) -> str | None:
    """Who else writes this object from a source of its own, so that an edit would not last; None for nobody."""
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if TOPOLOGY_OWNED in labels:
        return CLUSTER_CLASS
    for name in _GITOPS:
        if name in labels or name in annotations:
            return "Argo CD" if name.startswith("argocd") else "Flux"
    managers = (str(entry.get("manager")) for entry in metadata.get("managedFields") or ())
    return next((_APPLIERS[manager] for manager in managers if manager in _APPLIERS), None)


def on_windows(spec: Mapping[str, Any]) -> bool:
    """Whether a KubeadmConfigSpec is for Windows machines: its criSocket is a named pipe."""
    for configuration in ("joinConfiguration", "initConfiguration"):
        registration = (spec.get(configuration) or {}).get("nodeRegistration") or {}
        if str(registration.get("criSocket") or "").startswith("npipe:"):
            return True
    return False


def secrets_named(spec: Mapping[str, Any]) -> frozenset[str]:
    """The Secrets that files of a KubeadmConfigSpec come from."""
    return frozenset(name for file in spec.get("files") or () if (name := _secret_of(file)))


def edit(
    spec: Mapping[str, Any] | None, wanted: Entries, secrets: frozenset[str], at: Sequence[str], generation: int | None = None
) -> Edit:
    """The patch that leaves `wanted`, and nothing else of ours, in a KubeadmConfigSpec at a path of its object.

    `secrets` are the names of our Secrets: a file of ours is known by its path, and by its Secret where it comes from one.
    What is there already stays where it is, in whatever order. An empty `wanted` takes our entries out. The patch holds for
    that `generation` of the object alone. It cannot test the lists themselves: an API server compares JSON as text, in which Go
    writes `&` as an escape (evanphx/json-patch, lazyNode.equal).
    """
    spec_now = spec or {}
    files: list[dict[str, Any]] = list(spec_now.get("files") or ())
    paths = {file.path for file in wanted.files}
    before: list[str] = list(spec_now.get("preKubeadmCommands") or ())
    from_secrets = paths_from_secrets((*before, *wanted.pre)) | {windows_proxy.PROXY_REG}
    ours = [file for file in files if _ours(file, secrets, from_secrets)]
    foreign = tuple(file["path"] for file in files if file.get("path") in paths and file not in ours)
    if foreign:
        return Edit(foreign=foreign)
    new: dict[str, list[Any]] = {
        "files": _files(files, wanted, ours),
        "preKubeadmCommands": _commands(before, wanted.pre, first=True),
        "postKubeadmCommands": _commands(list(spec_now.get("postKubeadmCommands") or ()), wanted.post, first=False),
    }
    changed = {key: value for key, value in new.items() if value != list(spec_now.get(key) or ())}
    if not changed:
        return Edit()
    test: Operation = {"op": "test", "path": "/metadata/generation", "value": generation}
    if not any(new.values()) and not set(spec_now) - set(new):
        # v1beta2 does not take an empty spec
        return Edit((test, {"op": "remove", "path": _pointer(at)}))
    operations = [test] if spec is not None else [test, {"op": "add", "path": _pointer(at), "value": {}}]
    for key, value in changed.items():
        path = _pointer((*at, key))
        # of a member that is there, add is a replacement (RFC 6902, section 4.1)
        operations.append({"op": "add", "path": path, "value": value} if value else {"op": "remove", "path": path})
    return Edit(tuple(operations))


def _files(files: list[dict[str, Any]], wanted: Entries, ours: list[dict[str, Any]]) -> list[dict[str, Any]]:
    new = [msgspec.to_builtins(file) for file in wanted.files]
    kept = [file for file in files if file not in ours or file in new]
    return kept + [file for file in new if file not in kept]


def _commands(now: list[str], wanted: Sequence[str], *, first: bool) -> list[str]:
    kept = [command for command in now if not _our_command(command) or command in wanted]
    missing = [command for command in wanted if command not in kept]
    if not missing:
        return kept
    others = [command for command in kept if command not in wanted]
    return [*wanted, *others] if first else [*others, *wanted]


def _ours(file: Mapping[str, Any], secrets: frozenset[str], from_secrets: frozenset[str]) -> bool:
    path = str(file.get("path", ""))
    if path in from_secrets:
        return _secret_of(file) in secrets
    return path == windows_proxy.PROXY_CMD or is_ours(path)


def _our_command(command: str) -> bool:
    return command.endswith(MARK) or command in windows_proxy.CALLS


def _secret_of(file: Mapping[str, Any]) -> str | None:
    name = ((file.get("contentFrom") or {}).get("secret") or {}).get("name")
    return str(name) if name else None


def _pointer(path: Sequence[str]) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)
