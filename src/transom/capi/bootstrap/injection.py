"""Our entries in a KubeadmConfigSpec: put there, renewed and taken out by a JSON Patch (RFC 6902) that touches nothing else."""

import base64
import contextlib
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from transom.capi.bootstrap import windows_proxy
from transom.capi.bootstrap.kubeadm import Entries
from transom.capi.bootstrap.machine_files import MARK, is_own_path, list_secret_paths
from transom.common.mappings import get_nested_value

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


class EntriesPatch(msgspec.Struct, frozen=True):
    """An edit. `foreign` are paths of files that another owner has: then it has no operations."""

    operations: tuple[Operation, ...] = ()
    foreign: tuple[str, ...] = ()


def is_injection_requested(metadata: Mapping[str, Any]) -> bool:
    """Return True if an object allows Transom to edit it."""
    return any((metadata.get(where) or {}).get(LABEL) == "true" for where in ("labels", "annotations"))


def find_managing_tool(metadata: Mapping[str, Any]) -> str | None:
    """Return the tool that writes this object from its own source, so that an edit would be overwritten; None if there is
    none.
    """
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if TOPOLOGY_OWNED in labels:
        return CLUSTER_CLASS
    for name in _GITOPS:
        if name in labels or name in annotations:
            return "Argo CD" if name.startswith("argocd") else "Flux"
    managers = (str(entry.get("manager")) for entry in metadata.get("managedFields") or ())
    return next((_APPLIERS[manager] for manager in managers if manager in _APPLIERS), None)


def is_for_windows(spec: Mapping[str, Any]) -> bool:
    """Return True if a KubeadmConfigSpec is for Windows machines: its criSocket is a named pipe."""
    for configuration in ("joinConfiguration", "initConfiguration"):
        if str(get_nested_value(spec, configuration, "nodeRegistration", "criSocket") or "").startswith("npipe:"):
            return True
    return False


def list_secret_names(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the Secrets from which files of a KubeadmConfigSpec come."""
    return frozenset(name for file in spec.get("files") or () if (name := _get_secret_name(file)))


_DROP_IN: Final = re.compile(r"/(?:etc|run|usr/lib|lib)/systemd/system/([^/]+)\.service\.d/[^/]+\.conf\Z")
_EVERY_SERVICE: Final = re.compile(r"/(?:etc|run|usr/lib|lib)/systemd/system/service\.d/[^/]+\.conf\Z")
"""Of every service (systemd.unit(5), "drop-in files for top-level type")."""
_SETS_PROXY: Final = re.compile(r"\b(?:https?|no|all)_proxy\s*=", re.IGNORECASE)
_ENVIRONMENT_FILE: Final = re.compile(r"^\s*EnvironmentFile\s*=\s*-?(\S+)", re.MULTILINE)


def list_foreign_drop_ins(
    files: Sequence[Mapping[str, Any]], paths: Collection[str], ours: Sequence[Mapping[str, Any]] = ()
) -> tuple[str, ...]:
    """Return the drop-ins of others that set a proxy for the services whose drop-ins `paths` has.

    systemd reads all drop-ins of a service by their names, and the last assignment of a variable wins (systemd.unit(5)). A
    drop-in from a Secret, whose text is not known here, counts if its name contains `proxy`.
    """
    services = {match[1] for path in paths if (match := _DROP_IN.match(path))}
    by_path = {str(file.get("path")): file for file in files}
    drop_ins = []
    for path, file in by_path.items():
        match = _DROP_IN.match(path)
        affects = bool(services) and (_EVERY_SERVICE.match(path) or (match and match[1] in services))
        if not affects or path in paths or file in ours:
            continue
        if file.get("contentFrom"):
            sets_proxy = "proxy" in path.rpartition("/")[2]
        else:
            text = decode_content(file)
            named = (by_path[name] for name in _ENVIRONMENT_FILE.findall(text) if name in by_path)
            sets_proxy = any(_SETS_PROXY.search(item) for item in (text, *map(decode_content, named)))
        if sets_proxy:
            drop_ins.append(path)
    return tuple(drop_ins)


_LONGEST_CONTENT: Final = 64 << 10
"""Bytes of a file that are looked at. Cluster API's v1beta2 takes 10,240 characters."""


def decode_content(file: Mapping[str, Any]) -> str:
    """Return the text of a file in `files`, decoded as its `encoding` says; empty if it cannot be decoded."""
    content, encoding = file.get("content"), str(file.get("encoding") or "")
    if not isinstance(content, str):
        return ""
    data = content.encode("utf-8", "replace")
    with contextlib.suppress(ValueError, zlib.error):
        if "base64" in encoding:
            data = base64.b64decode(data)
        if "gzip" in encoding:
            data = zlib.decompressobj(wbits=31).decompress(data, _LONGEST_CONTENT)
        return data[:_LONGEST_CONTENT].decode("utf-8", "replace")
    return ""


def build_entries_patch(
    spec: Mapping[str, Any] | None,
    wanted: Entries,
    secrets: frozenset[str],
    spec_path: Sequence[str],
    generation: int | None = None,
) -> EntriesPatch:
    """Build the patch that leaves only `wanted` from Transom in a KubeadmConfigSpec at the path `spec_path` of its object.

    `secrets` are the names of Transom's Secrets: they, and its path, identify a file from Transom. Existing entries keep their
    place and order. An empty `wanted` removes Transom's entries. The patch applies to that `generation` of the object alone.
    It cannot test the lists themselves: an API server compares JSON as text, in which Go writes `&` as an escape
    (evanphx/json-patch, lazyNode.equal).
    """
    spec_now = spec or {}
    files: list[dict[str, Any]] = list(spec_now.get("files") or ())
    paths = {file.path for file in wanted.files}
    before: list[str] = list(spec_now.get("preKubeadmCommands") or ())
    from_secrets = list_secret_paths((*before, *wanted.pre)) | {windows_proxy.PROXY_REG}
    ours = [file for file in files if _is_own_file(file, secrets, from_secrets)]
    foreign = tuple(file["path"] for file in files if file.get("path") in paths and file not in ours)
    foreign += list_foreign_drop_ins(files, paths, ours)
    if foreign:
        return EntriesPatch(foreign=foreign)
    new: dict[str, list[Any]] = {
        "files": _merge_files(files, wanted, ours),
        "preKubeadmCommands": _merge_commands(before, wanted.pre, first=True),
        "postKubeadmCommands": _merge_commands(list(spec_now.get("postKubeadmCommands") or ()), wanted.post, first=False),
    }
    changed = {key: value for key, value in new.items() if value != list(spec_now.get(key) or ())}
    if not changed:
        return EntriesPatch()
    test: Operation = {"op": "test", "path": "/metadata/generation", "value": generation}
    if not any(new.values()) and not set(spec_now) - set(new):
        # v1beta2 does not take an empty spec
        return EntriesPatch((test, {"op": "remove", "path": _format_pointer(spec_path)}))
    operations = [test] if spec is not None else [test, {"op": "add", "path": _format_pointer(spec_path), "value": {}}]
    for key, value in changed.items():
        path = _format_pointer((*spec_path, key))
        # of a member that is there, add is a replacement (RFC 6902, section 4.1)
        operations.append({"op": "add", "path": path, "value": value} if value else {"op": "remove", "path": path})
    return EntriesPatch(tuple(operations))


def _merge_files(files: list[dict[str, Any]], wanted: Entries, ours: list[dict[str, Any]]) -> list[dict[str, Any]]:
    new = [msgspec.to_builtins(file) for file in wanted.files]
    kept = [file for file in files if file not in ours or file in new]
    return kept + [file for file in new if file not in kept]


def _merge_commands(existing: list[str], wanted: Sequence[str], *, first: bool) -> list[str]:
    kept = [command for command in existing if not _is_own_command(command) or command in wanted]
    missing = [command for command in wanted if command not in kept]
    if not missing:
        return kept
    others = [command for command in kept if command not in wanted]
    return [*wanted, *others] if first else [*others, *wanted]


def _is_own_file(file: Mapping[str, Any], secrets: frozenset[str], from_secrets: frozenset[str]) -> bool:
    path = str(file.get("path", ""))
    if path in from_secrets:
        return _get_secret_name(file) in secrets
    return path == windows_proxy.PROXY_CMD or is_own_path(path)


def _is_own_command(command: str) -> bool:
    return command.endswith(MARK) or command in windows_proxy.CALLS


def _get_secret_name(file: Mapping[str, Any]) -> str | None:
    name = ((file.get("contentFrom") or {}).get("secret") or {}).get("name")
    return str(name) if name else None


def _format_pointer(path: Sequence[str]) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)
