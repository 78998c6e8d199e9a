"""What a person commits where Transom does not edit: the entries for templates in Git, and the patch for a ClusterClass."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from transom.capi.bootstrap import windows_proxy
from transom.capi.bootstrap.kubeadm import Entries
from transom.capi.bootstrap.machine_files import build_linux_entries, find_runtime_service
from transom.capi.bootstrap.machine_index import ClassTemplate, MachineIndex, MachineTemplate
from transom.capi.bootstrap.machine_kinds import SPEC_PATHS, MachineFamily, get_spec_path
from transom.capi.bootstrap.other_bootstraps import build_eks_entries, build_rke2_entries, build_talos_patches
from transom.capi.values.cluster_identity import ID_LABEL, build_systemd_name, get_cluster_id
from transom.common.mappings import get_nested_value
from transom.proxy.objects import Cluster, MachineObject
from transom.proxy.settings import Egress

LINUX_CLASSES: Final = ("<classes of Linux machines>",)
WINDOWS_CLASSES: Final = ("<classes of Windows machines>",)
_PLACEHOLDER: Final = "TRANSOM-CLUSTER-ID"
_BY_NAME: Final = "{{ .builtin.cluster.name }}"
_BY_LABEL: Final = f'{{{{ index .builtin.cluster.metadata.labels "{ID_LABEL}" }}}}'
_LISTS: Final[Mapping[MachineFamily, tuple[str, str, str]]] = {
    MachineFamily.KUBEADM: ("files", "preKubeadmCommands", "postKubeadmCommands"),
    MachineFamily.RKE2: ("files", "preRKE2Commands", "postRKE2Commands"),
    MachineFamily.EKS: ("files", "preBootstrapCommands", "postBootstrapCommands"),
    # has no commands after the join
    MachineFamily.NODEADM: ("files", "preNodeadmCommands", ""),
}
"""The lists of files, of commands before the join, and of those after it."""


def convert_entries(entries: Entries, family: MachineFamily = MachineFamily.KUBEADM) -> dict[str, Any]:
    """Convert entries to the lists of a bootstrap configuration, as plain values; empty lists are omitted."""
    values = ([msgspec.to_builtins(file) for file in entries.files], list(entries.pre), list(entries.post))
    return {name: value for name, value in zip(_LISTS[family], values, strict=True) if value}


def build_template_objects(
    cluster: Cluster,
    egress: Egress,
    templates: Iterable[MachineTemplate] | None = None,
    *,
    show_secrets: bool = False,
) -> list[dict[str, Any]]:
    """Build the parts of a cluster's control plane and templates to commit, as objects of their kind, version and name.

    `templates` configure its machines; None: those that its control plane lets expect. Add the lists to the existing objects.
    Those of Talos contain the proxy in plain with `show_secrets`. Raises InvalidIdentity.
    """
    identity = get_cluster_id(cluster)
    items = []
    for template in MachineIndex(()).list_templates(cluster) if templates is None else templates:
        if template.family is MachineFamily.TALOS:
            patches = build_talos_patches(egress, show_secrets=show_secrets)
            lists: dict[str, Any] = {"strategicPatches": patches} if patches else {}
        else:
            lists = convert_entries(build_entries(template, identity, egress), template.family)
        if lists:
            items.append(_build_partial_object(template, lists))
    return items


def _build_partial_object(template: MachineTemplate, lists: dict[str, Any]) -> dict[str, Any]:
    for key in reversed(get_spec_path(template.kind)):
        lists = {key: lists}
    metadata = {"name": template.name, "namespace": template.namespace}
    return {"apiVersion": template.api_version, "kind": template.kind, "metadata": metadata, "spec": lists}


def build_entries(template: MachineTemplate, identity: str, egress: Egress) -> Entries:
    """Build the entries of a template that is not Talos'; none if its machines get nothing."""
    secret = build_systemd_name(identity, own_name=egress.own_drop_in)
    if template.family is MachineFamily.RKE2:
        return build_rke2_entries(secret, egress, control_plane=template.control_plane)
    if template.family in (MachineFamily.EKS, MachineFamily.NODEADM):
        return build_eks_entries(secret, egress, nodeadm=template.family is MachineFamily.NODEADM)
    if template.windows:
        has_entries = bool(build_linux_entries(secret, egress).files)
        return windows_proxy.build_windows_entries(windows_proxy.build_secret_name(identity)) if has_entries else Entries()
    return build_linux_entries(
        secret, egress, control_plane=template.control_plane, runtime=find_runtime_service(template.content)
    )


def build_cluster_class_patch(
    cluster: Cluster, egress: Egress, own_class: MachineObject | None = None, index: MachineIndex | None = None
) -> dict[str, Any] | None:
    """Build the patch for the class of a cluster; None if its machines get nothing. Raises InvalidIdentity.

    Of a class that is not known, the names of the workers' classes are placeholders.
    """
    identity = get_cluster_id(cluster)
    labelled = identity != cluster.metadata.name
    if own_class is None or index is None:
        guesses = MachineIndex(()).list_templates(msgspec.structs.replace(cluster, control_plane=None))
        entries = {(item.control_plane, item.windows): build_entries(item, identity, egress) for item in guesses}
        if not entries[True, False].files:
            return None
        workers: dict[tuple[str, ...], Entries] = {LINUX_CLASSES: entries[False, False], WINDOWS_CLASSES: entries[False, True]}
        return build_class_patch(entries[True, False], workers, identity, labelled=labelled)
    patched = set(_iter_patched_paths(own_class))
    groups: dict[tuple[Any, ...], list[str]] = {}
    additions: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for item in index.list_class_templates(own_class):
        operations = _build_class_operations(item, identity, egress, labelled=labelled, patched=patched)
        text = msgspec.json.encode(operations)
        key = (item.template.api_version, item.template.kind, item.template.control_plane, item.of_pools, text)
        groups.setdefault(key, []).append(item.workers)
        additions[key] = operations
    definitions = [
        {"selector": _build_patch_selector(key, names), "jsonPatches": additions[key]}
        for key, names in groups.items()
        if additions[key]
    ]
    return {"name": "transom-egress", "definitions": definitions} if definitions else None


def _build_patch_selector(key: tuple[Any, ...], names: list[str]) -> dict[str, Any]:
    api_version, kind, is_control_plane, of_pools, _ = key
    field = "machinePoolClass" if of_pools else "machineDeploymentClass"
    resources = {"controlPlane": True} if is_control_plane else {field: {"names": list(dict.fromkeys(names))}}
    return {"apiVersion": api_version, "kind": kind, "matchResources": resources}


def _build_class_operations(
    item: ClassTemplate, identity: str, egress: Egress, *, labelled: bool, patched: set[str]
) -> list[dict[str, Any]]:
    """Build the operations for a template of a class, which first create the lists that it lacks."""
    template = item.template
    spec = "/".join(("/spec", *get_spec_path(template.kind)))
    entries = build_entries(template, identity, egress)
    missing = []
    if template.spec is not None:
        lists = convert_entries(entries, template.family)
        # an empty list is dropped when the object is stored
        missing = [f"{spec}/{name}" for name in lists if not template.content.get(name)]
    created = [{"op": "add", "path": path, "value": []} for path in missing if not _is_patched_path(path, patched)]
    identity_text = _BY_LABEL if labelled else _BY_NAME
    return created + _build_add_operations(spec, entries, identity, identity_text, template.family)


def _is_patched_path(path: str, patched: Iterable[str]) -> bool:
    """Return True if another patch creates a list, or adds to it."""
    return any(item == path or item.startswith(f"{path}/") for item in patched)


def _iter_patched_paths(own_class: MachineObject) -> Iterable[str]:
    """Yield the paths that other patches of a class set: one of them creates a list that a template lacks."""
    patches = get_nested_value(own_class.spec, "patches")
    for patch in patches if isinstance(patches, list) else ():
        definitions = get_nested_value(patch, "definitions")
        for definition in definitions if isinstance(definitions, list) else ():
            operations = get_nested_value(definition, "jsonPatches")
            for operation in operations if isinstance(operations, list) else ():
                yield str(get_nested_value(operation, "path"))


def build_class_patch(
    control_plane: Entries,
    workers: dict[tuple[str, ...], Entries],
    cluster_id: str,
    *,
    labelled: bool,
    version: str = "v1beta2",
) -> dict[str, Any]:
    """Build an item of `spec.patches` of a ClusterClass: the same entries, with the name of each cluster's own Secret.

    `workers` are the entries of classes of MachineDeployments; `labelled`: the clusters' ids are their labels, not their
    names.
    A JSON Patch adds to existing lists: the templates of the class need `files` and both lists of commands. Cluster API
    compares the version of a selector with that of the reference in the class (kubernetes-sigs/cluster-api,
    topology/cluster/patches/inline/json_patch_generator.go, `matchesSelector`).
    """
    identity = _BY_LABEL if labelled else _BY_NAME
    definitions = [
        {
            "selector": {
                "apiVersion": f"controlplane.cluster.x-k8s.io/{version}",
                "kind": "KubeadmControlPlaneTemplate",
                "matchResources": {"controlPlane": True},
            },
            "jsonPatches": _build_add_operations(_CONTROL_PLANE_SPEC, control_plane, cluster_id, identity),
        }
    ]
    definitions += [
        {
            "selector": {
                "apiVersion": f"bootstrap.cluster.x-k8s.io/{version}",
                "kind": "KubeadmConfigTemplate",
                "matchResources": {"machineDeploymentClass": {"names": list(classes)}},
            },
            "jsonPatches": _build_add_operations(_WORKER_SPEC, entries, cluster_id, identity),
        }
        for classes, entries in workers.items()
    ]
    return {"name": "transom-egress", "definitions": [item for item in definitions if item["jsonPatches"]]}


_CONTROL_PLANE_SPEC: Final = "/".join(("/spec", *SPEC_PATHS["KubeadmControlPlaneTemplate"]))
_WORKER_SPEC: Final = "/".join(("/spec", *SPEC_PATHS["KubeadmConfigTemplate"]))


def _build_add_operations(
    spec: str, entries: Entries, cluster_id: str, identity: str, family: MachineFamily = MachineFamily.KUBEADM
) -> list[dict[str, Any]]:
    _, before, after = _LISTS[family]
    additions: list[dict[str, Any]] = []
    for file in entries.files:
        value = msgspec.to_builtins(file)
        path = f"{spec}/files/-"
        if file.content_from is None:
            additions.append({"op": "add", "path": path, "value": value})
            continue
        name = file.content_from.secret.name.removeprefix(cluster_id)
        value["contentFrom"]["secret"]["name"] = f"{_PLACEHOLDER}{name}"
        template = msgspec.json.encode(value).decode().replace(_PLACEHOLDER, identity.replace('"', "`"))
        additions.append({"op": "add", "path": path, "valueFrom": {"template": template}})
    # each goes to the front: the last one added is the first
    additions += [{"op": "add", "path": f"{spec}/{before}/0", "value": text} for text in reversed(entries.pre)]
    additions += [{"op": "add", "path": f"{spec}/{after}/-", "value": text} for text in entries.post]
    return additions
