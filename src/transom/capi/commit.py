"""What a person commits where Transom does not edit: the entries for templates in Git, and the patch for a ClusterClass."""

from typing import Any, Final

import msgspec

from transom.capi import other_bootstraps, windows_proxy
from transom.capi.identity import ID_LABEL, cluster_id, systemd_name
from transom.capi.kubeadm import Entries
from transom.capi.machine_files import linux_entries
from transom.proxy.objects import Cluster
from transom.proxy.settings import Egress

_CONTROL_PLANE_SPEC: Final = "/spec/template/spec/kubeadmConfigSpec"
_WORKER_SPEC: Final = "/spec/template/spec"
LINUX_CLASSES: Final = ("<classes of Linux machines>",)
WINDOWS_CLASSES: Final = ("<classes of Windows machines>",)
_PLACEHOLDER: Final = "TRANSOM-CLUSTER-ID"
_BY_NAME: Final = "{{ .builtin.cluster.name }}"
_BY_LABEL: Final = f'{{{{ index .builtin.cluster.metadata.labels "{ID_LABEL}" }}}}'


def entries_as_objects(entries: Entries) -> dict[str, Any]:
    """The lists of a KubeadmConfigSpec with these entries alone, as plain values."""
    parts = {
        "files": [msgspec.to_builtins(file) for file in entries.files],
        "preKubeadmCommands": list(entries.pre),
        "postKubeadmCommands": list(entries.post),
    }
    return {key: value for key, value in parts.items() if value}


def template_objects(
    cluster: Cluster, egress: Egress, version: str = "v1beta2", *, show_secrets: bool = False
) -> list[dict[str, Any]]:
    """The parts of a cluster's control plane and of its Linux and Windows templates that are to be committed, as objects.

    Their names are those of the cluster: the lists go into the objects that are there. By the kind of the Cluster's control
    plane they are kubeadm's, RKE2's or those of Talos, which hold the proxy in plain with `show_secrets`. Raises
    InvalidIdentity.
    """
    identity, place = cluster_id(cluster), (cluster.metadata.name, cluster.metadata.namespace or "")
    if cluster.control_plane == other_bootstraps.RKE2_CONTROL_PLANE:
        return other_bootstraps.rke2_objects(*place, systemd_name(identity), egress)
    if cluster.control_plane == other_bootstraps.TALOS_CONTROL_PLANE:
        return other_bootstraps.talos_objects(*place, egress, show_secrets=show_secrets)
    return _of_kubeadm(identity, *place, egress, version)


def _of_kubeadm(identity: str, name: str, namespace: str, egress: Egress, version: str) -> list[dict[str, Any]]:
    first, worker, windows = (entries_as_objects(one) for one in _entries(identity, egress))
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


def class_patch_of(cluster: Cluster, egress: Egress) -> dict[str, Any] | None:
    """`class_patch` for the class of a cluster; None where its machines get nothing. Raises InvalidIdentity."""
    identity = cluster_id(cluster)
    first, worker, windows = _entries(identity, egress)
    if not first.files:
        return None
    workers: dict[tuple[str, ...], Entries] = {LINUX_CLASSES: worker, WINDOWS_CLASSES: windows}
    return class_patch(first, workers, identity, labelled=identity != cluster.metadata.name)


def _entries(identity: str, egress: Egress) -> tuple[Entries, Entries, Entries]:
    """Of the control plane, of a Linux worker and of a Windows worker."""
    secret = systemd_name(identity)
    worker = linux_entries(secret, egress)
    windows = windows_proxy.entries(windows_proxy.secret_name(identity)) if worker.files else Entries()
    return linux_entries(secret, egress, control_plane=True), worker, windows


def class_patch(
    control_plane: Entries,
    workers: dict[tuple[str, ...], Entries],
    cluster_id: str,
    *,
    labelled: bool,
    version: str = "v1beta2",
) -> dict[str, Any]:
    """An item of `spec.patches` of a ClusterClass: the same entries, for each cluster with the name of its own Secret.

    `workers` are the entries of classes of MachineDeployments; `labelled`: the clusters' ids are their labels, not their names.
    A JSON Patch adds to lists that are there: the templates of the class need `files` and both lists of commands.
    """
    identity = _BY_LABEL if labelled else _BY_NAME
    definitions = [
        {
            "selector": {
                "apiVersion": f"controlplane.cluster.x-k8s.io/{version}",
                "kind": "KubeadmControlPlaneTemplate",
                "matchResources": {"controlPlane": True},
            },
            "jsonPatches": _additions(_CONTROL_PLANE_SPEC, control_plane, cluster_id, identity),
        }
    ]
    definitions += [
        {
            "selector": {
                "apiVersion": f"bootstrap.cluster.x-k8s.io/{version}",
                "kind": "KubeadmConfigTemplate",
                "matchResources": {"machineDeploymentClass": {"names": list(classes)}},
            },
            "jsonPatches": _additions(_WORKER_SPEC, entries, cluster_id, identity),
        }
        for classes, entries in workers.items()
    ]
    return {"name": "transom-egress", "definitions": [item for item in definitions if item["jsonPatches"]]}


def _additions(spec: str, entries: Entries, cluster_id: str, identity: str) -> list[dict[str, Any]]:
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
