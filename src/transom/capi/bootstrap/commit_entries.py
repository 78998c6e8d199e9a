"""What a person commits where Transom does not edit: the entries for templates in Git, and the patch for a ClusterClass."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from transom.capi.bootstrap import other_bootstraps, windows_proxy
from transom.capi.bootstrap.kubeadm import Entries
from transom.capi.bootstrap.machine_files import build_linux_entries
from transom.capi.bootstrap.machine_kinds import CONTROL_PLANES, KUBEADM_CONTROL_PLANE, MachineFamily, MachineKinds
from transom.capi.values.cluster_identity import ID_LABEL, build_systemd_name, get_cluster_id
from transom.proxy.objects import Cluster
from transom.proxy.settings import Egress

_CONTROL_PLANE_SPEC: Final = "/spec/template/spec/kubeadmConfigSpec"
_WORKER_SPEC: Final = "/spec/template/spec"
LINUX_CLASSES: Final = ("<classes of Linux machines>",)
WINDOWS_CLASSES: Final = ("<classes of Windows machines>",)
_PLACEHOLDER: Final = "TRANSOM-CLUSTER-ID"
_BY_NAME: Final = "{{ .builtin.cluster.name }}"
_BY_LABEL: Final = f'{{{{ index .builtin.cluster.metadata.labels "{ID_LABEL}" }}}}'


def convert_entries(entries: Entries) -> dict[str, Any]:
    """Convert entries to the lists of a KubeadmConfigSpec, as plain values."""
    parts = {
        "files": [msgspec.to_builtins(file) for file in entries.files],
        "preKubeadmCommands": list(entries.pre),
        "postKubeadmCommands": list(entries.post),
    }
    return {key: value for key, value in parts.items() if value}


def build_template_objects(
    cluster: Cluster,
    egress: Egress,
    version: str = "v1beta2",
    *,
    show_secrets: bool = False,
    kinds: MachineKinds | None = None,
) -> list[dict[str, Any]]:
    """Build the parts of a cluster's control plane and of its Linux and Windows templates to commit, as objects.

    Their names are those of the cluster: add the lists to the existing objects. `kinds` are those of its machines;
    None: what its control plane says. Kinds without entries get none. Those of Talos contain the proxy in plain with
    `show_secrets`. Raises InvalidIdentity.
    """
    identity, place = get_cluster_id(cluster), (cluster.metadata.name, cluster.metadata.namespace or "")
    kinds = kinds or MachineKinds(cluster.control_plane)
    secret = build_systemd_name(identity, own=egress.own_drop_in)
    items: list[dict[str, Any]] = []
    for family in kinds.families:
        match family:
            case MachineFamily.KUBEADM:
                objects = _build_kubeadm_objects(identity, *place, egress, version)
            case MachineFamily.RKE2:
                objects = other_bootstraps.build_rke2_objects(*place, secret, egress)
            case MachineFamily.TALOS:
                objects = other_bootstraps.build_talos_objects(*place, egress, show_secrets=show_secrets)
            case MachineFamily.EKS | MachineFamily.NODEADM:
                nodeadm = family is MachineFamily.NODEADM
                objects = other_bootstraps.build_eks_objects(*place, secret, egress, nodeadm=nodeadm)
        items += objects if _has_own_control_plane(kinds, family) else _without_control_plane(objects)
    return [each for item in items for each in _as_used(item, kinds)]


def _as_used(item: dict[str, Any], kinds: MachineKinds) -> Iterator[dict[str, Any]]:
    """Yield a template as the kinds that the workers refer to: a MachinePool has a configuration of its own."""
    kind = item["kind"]
    own = kind.removesuffix("Template")
    if not kind.endswith("Template") or own not in kinds.bootstraps or kind in kinds.bootstraps:
        yield item
    if kind.endswith("Template") and own in kinds.bootstraps:
        yield {**item, "kind": own, "spec": item["spec"]["template"]["spec"]}


def _has_own_control_plane(kinds: MachineKinds, family: MachineFamily) -> bool:
    """Return True if the machines of the cluster's control plane are of that family."""
    return CONTROL_PLANES.get(kinds.control_plane or KUBEADM_CONTROL_PLANE) is family


def _without_control_plane(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in objects if item["kind"].endswith("Template")]


def _build_kubeadm_objects(identity: str, name: str, namespace: str, egress: Egress, version: str) -> list[dict[str, Any]]:
    first, worker, windows = (convert_entries(entry) for entry in _build_entries(identity, egress))
    if not first:
        return []
    bootstrap = f"bootstrap.cluster.x-k8s.io/{version}"
    return [
        {
            "apiVersion": f"controlplane.cluster.x-k8s.io/{version}",
            "kind": "KubeadmControlPlane",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"kubeadmConfigSpec": first},
        },
        *(
            {
                "apiVersion": bootstrap,
                "kind": "KubeadmConfigTemplate",
                "metadata": {"name": f"{name}-{system}", "namespace": namespace},
                "spec": {"template": {"spec": lists}},
            }
            for system, lists in (("linux", worker), ("windows", windows))
            if lists
        ),
    ]


def build_cluster_class_patch(cluster: Cluster, egress: Egress) -> dict[str, Any] | None:
    """Build the patch for the class of a cluster; None if its machines get nothing. Raises InvalidIdentity."""
    identity = get_cluster_id(cluster)
    first, worker, windows = _build_entries(identity, egress)
    if not first.files:
        return None
    workers: dict[tuple[str, ...], Entries] = {LINUX_CLASSES: worker, WINDOWS_CLASSES: windows}
    return build_class_patch(first, workers, identity, labelled=identity != cluster.metadata.name)


def _build_entries(identity: str, egress: Egress) -> tuple[Entries, Entries, Entries]:
    """Build the entries of the control plane, of a Linux worker and of a Windows worker."""
    secret = build_systemd_name(identity, own=egress.own_drop_in)
    worker = build_linux_entries(secret, egress)
    windows = windows_proxy.build_entries(windows_proxy.build_secret_name(identity)) if worker.files else Entries()
    return build_linux_entries(secret, egress, control_plane=True), worker, windows


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
    A JSON Patch adds to existing lists: the templates of the class need `files` and both lists of commands.
    """
    identity = _BY_LABEL if labelled else _BY_NAME
    definitions = [
        {
            "selector": {
                "apiVersion": f"controlplane.cluster.x-k8s.io/{version}",
                "kind": "KubeadmControlPlaneTemplate",
                "matchResources": {"controlPlane": True},
            },
            "jsonPatches": _build_additions(_CONTROL_PLANE_SPEC, control_plane, cluster_id, identity),
        }
    ]
    definitions += [
        {
            "selector": {
                "apiVersion": f"bootstrap.cluster.x-k8s.io/{version}",
                "kind": "KubeadmConfigTemplate",
                "matchResources": {"machineDeploymentClass": {"names": list(classes)}},
            },
            "jsonPatches": _build_additions(_WORKER_SPEC, entries, cluster_id, identity),
        }
        for classes, entries in workers.items()
    ]
    return {"name": "transom-egress", "definitions": [item for item in definitions if item["jsonPatches"]]}


def _build_additions(spec: str, entries: Entries, cluster_id: str, identity: str) -> list[dict[str, Any]]:
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
    additions += [{"op": "add", "path": f"{spec}/preKubeadmCommands/0", "value": text} for text in reversed(entries.pre)]
    additions += [{"op": "add", "path": f"{spec}/postKubeadmCommands/-", "value": text} for text in entries.post]
    return additions
