"""The objects that machines are made by: a template of each, and the MachineDeployment or the MachinePool that refers to both.

Templates cannot be changed, so their names end in a hash of what is in them. A pool's infrastructure is one living object. The
name of its KubeadmConfig ends in a hash: CAPA replaces machines when the Secret of the bootstrap data has another name.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from transom.capi.inputs import WorkerInputs, machine_prefix
from transom.capi.providers.provider import Provider

CLUSTER = "cluster.x-k8s.io"
BOOTSTRAP = "bootstrap.cluster.x-k8s.io"
WORKER_LABEL = "transom.dev/windows-worker"
"""On every object of a worker: the MachineDeployment's name, or the MachinePool's. Those that are not made any more are old."""

Object = dict[str, Any]


def labels(inputs: WorkerInputs) -> dict[str, str]:
    """Those of every object of a worker."""
    return {f"{CLUSTER}/cluster-name": inputs.cluster, WORKER_LABEL: inputs.deployment}


def metadata(inputs: WorkerInputs, name: str, annotations: Mapping[str, str] | None = None) -> Object:
    """That of an object of a worker."""
    made: Object = {"name": name, "namespace": inputs.namespace, "labels": labels(inputs)}
    return {**made, "annotations": dict(annotations)} if annotations else made


def infrastructure(inputs: WorkerInputs, provider: Provider) -> Object:
    """The provider's template of a machine, or its pool."""
    annotations = provider.annotations(inputs)
    if inputs.machine_pool:
        assert provider.pool is not None
        return {
            "apiVersion": provider.api_version,
            "kind": provider.pool.kind,
            "metadata": metadata(inputs, provider.pool.called(inputs), annotations),
            "spec": _merged(provider.pool.spec(inputs), inputs.machine),
        }
    body = {"template": {"spec": _merged(provider.machine(inputs), inputs.machine)}}
    return {
        "apiVersion": provider.api_version,
        "kind": provider.template,
        "metadata": metadata(inputs, _hashed(inputs, body), annotations),
        "spec": body,
    }


def bootstrap(inputs: WorkerInputs, spec: Object, settings: Object) -> Object:
    """The KubeadmConfigTemplate of a KubeadmConfigSpec, or a pool's KubeadmConfig; `settings` are hashed with it."""
    body: Object = spec if inputs.machine_pool else {"template": {"spec": spec}}
    return {
        "apiVersion": f"{BOOTSTRAP}/{inputs.api_version}",
        "kind": "KubeadmConfig" if inputs.machine_pool else "KubeadmConfigTemplate",
        "metadata": metadata(inputs, _hashed(inputs, {**body, "settings": settings})),
        "spec": body,
    }


def owner(inputs: WorkerInputs, configuration: Object, machine: Object) -> Object:
    """The MachineDeployment or the MachinePool."""
    beta2 = inputs.api_version == "v1beta2"
    named = {f"{CLUSTER}/deployment-name": inputs.deployment}
    spec: Object = {"clusterName": inputs.cluster, "replicas": inputs.replicas}
    if not inputs.machine_pool:
        naming = {"template": machine_prefix(inputs) + "-{{ .random }}"}
        spec |= {"selector": {"matchLabels": named}, "machineNaming" if beta2 else "machineNamingStrategy": naming}
    spec["template"] = {
        "metadata": {"labels": labels(inputs) | ({} if inputs.machine_pool else named)},
        "spec": {
            "clusterName": inputs.cluster,
            "version": inputs.kubernetes_version,
            "bootstrap": {"configRef": _reference(configuration, beta2=beta2)},
            "infrastructureRef": _reference(machine, beta2=beta2),
        },
    }
    return {
        "apiVersion": f"{CLUSTER}/{inputs.api_version}",
        "kind": "MachinePool" if inputs.machine_pool else "MachineDeployment",
        "metadata": metadata(inputs, inputs.deployment),
        "spec": spec,
    }


def digest(body: object) -> str:
    """What the name of an object ends in."""
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()[:10]


def _hashed(inputs: WorkerInputs, body: object) -> str:
    return f"{inputs.deployment}-{digest([body, inputs.kubernetes_version, inputs.revision])}"


def _reference(made: Object, *, beta2: bool) -> Object:
    group = made["apiVersion"].partition("/")[0]
    api = {"apiGroup": group} if beta2 else {"apiVersion": made["apiVersion"]}
    return {**api, "kind": made["kind"], "name": made["metadata"]["name"]}


def _merged(made: Object, given: Mapping[str, Any]) -> Object:
    """`given` over `made`, mapping by mapping; a null takes a field away."""
    merged = dict(made)
    for key, value in given.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = _merged(merged[key], value)
        else:
            merged[key] = value
    return merged
