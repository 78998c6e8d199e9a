"""The objects that machines are made by: a template of each, and the MachineDeployment or the MachinePool that refers to both.

Templates cannot be changed, so their names end in a hash of what is in them. A pool's infrastructure is one living object. The
name of its KubeadmConfig ends in a hash: CAPA replaces machines when the Secret of the bootstrap data has another name.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from transom.capi.check.worker_inputs import WorkerInputs, build_machine_prefix
from transom.capi.providers.provider import Pool, Provider

CLUSTER = "cluster.x-k8s.io"
BOOTSTRAP = "bootstrap.cluster.x-k8s.io"
WORKER_LABEL = "transom.dev/windows-worker"
"""On every object of a worker: the MachineDeployment's name, or the MachinePool's. Those that are not made any more are old."""

Object = dict[str, Any]


def build_labels(inputs: WorkerInputs) -> dict[str, str]:
    """Those of every object of a worker."""
    return {f"{CLUSTER}/cluster-name": inputs.cluster, WORKER_LABEL: inputs.deployment}


def build_metadata(inputs: WorkerInputs, name: str, annotations: Mapping[str, str] | None = None) -> Object:
    """Build the metadata of an object of a worker."""
    made: Object = {"name": name, "namespace": inputs.namespace, "labels": build_labels(inputs)}
    return {**made, "annotations": dict(annotations)} if annotations else made


def build_machine_pool(inputs: WorkerInputs, provider: Provider, pool: Pool) -> Object:
    """Return the provider's pool of machines."""
    return {
        "apiVersion": provider.api_version,
        "kind": pool.kind,
        "metadata": build_metadata(inputs, pool.called(inputs), provider.annotations(inputs)),
        "spec": _merge_overrides(pool.spec(inputs), inputs.machine),
    }


def build_machine_template(inputs: WorkerInputs, provider: Provider) -> Object:
    """Return the provider's template of a machine."""
    body = {"template": {"spec": _merge_overrides(provider.machine(inputs), inputs.machine)}}
    return {
        "apiVersion": provider.api_version,
        "kind": provider.template,
        "metadata": build_metadata(inputs, _build_hashed_name(inputs, body), provider.annotations(inputs)),
        "spec": body,
    }


def build_bootstrap_config(inputs: WorkerInputs, spec: Object, settings: Object) -> Object:
    """Build the KubeadmConfigTemplate, or a pool's KubeadmConfig; `settings` are hashed with it."""
    body: Object = spec if inputs.machine_pool else {"template": {"spec": spec}}
    return {
        "apiVersion": f"{BOOTSTRAP}/{inputs.api_version}",
        "kind": "KubeadmConfig" if inputs.machine_pool else "KubeadmConfigTemplate",
        "metadata": build_metadata(inputs, _build_hashed_name(inputs, {**body, "settings": settings})),
        "spec": body,
    }


def build_deployment_or_pool(inputs: WorkerInputs, configuration: Object, machine: Object) -> Object:
    """Build the MachineDeployment or the MachinePool."""
    beta2 = inputs.api_version == "v1beta2"
    named = {f"{CLUSTER}/deployment-name": inputs.deployment}
    spec: Object = {"clusterName": inputs.cluster, "replicas": inputs.replicas}
    if not inputs.machine_pool:
        naming = {"template": build_machine_prefix(inputs) + "-{{ .random }}"}
        spec |= {"selector": {"matchLabels": named}, "machineNaming" if beta2 else "machineNamingStrategy": naming}
    spec["template"] = {
        "metadata": {"labels": build_labels(inputs) | ({} if inputs.machine_pool else named)},
        "spec": {
            "clusterName": inputs.cluster,
            "version": inputs.kubernetes_version,
            "bootstrap": {"configRef": _build_reference(configuration, beta2=beta2)},
            "infrastructureRef": _build_reference(machine, beta2=beta2),
        },
    }
    return {
        "apiVersion": f"{CLUSTER}/{inputs.api_version}",
        "kind": "MachinePool" if inputs.machine_pool else "MachineDeployment",
        "metadata": build_metadata(inputs, inputs.deployment),
        "spec": spec,
    }


def compute_digest(body: object) -> str:
    """Return the suffix of an object's name."""
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()[:10]


def _build_hashed_name(inputs: WorkerInputs, body: object) -> str:
    return f"{inputs.deployment}-{compute_digest([body, inputs.kubernetes_version, inputs.revision])}"


def _build_reference(made: Object, *, beta2: bool) -> Object:
    group = made["apiVersion"].partition("/")[0]
    api = {"apiGroup": group} if beta2 else {"apiVersion": made["apiVersion"]}
    return {**api, "kind": made["kind"], "name": made["metadata"]["name"]}


def _merge_overrides(made: Object, overrides: Mapping[str, Any]) -> Object:
    """Return `made` with `overrides`, mapping by mapping; a null removes a field."""
    merged = dict(made)
    for key, value in overrides.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = _merge_overrides(merged[key], value)
        else:
            merged[key] = value
    return merged
