"""Cluster API on the lab's API server: its definitions, and the real bootstrap provider (CABPK), built from Go modules."""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import shutil
import time
import urllib.error
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
from image.progress import run_step

from lab import cache, golang, kubernetes
from lab.authority import Authority
from lab.control_plane import ControlPlane
from lab.ports import reserve
from lab.process import Process

MODULE = Path(__file__).parent / "go" / "cluster-api"
PROVIDER = "sigs.k8s.io/cluster-api/bootstrap/kubeadm"
DIRECTORIES = ("core/config/crd/bases", "bootstrap/kubeadm/config/crd/bases", "controlplane/kubeadm/config/crd/bases")
BOTH = ("v1beta1", "v1beta2")
_CORE = "cluster.x-k8s.io"
_BOOTSTRAP = "bootstrap.cluster.x-k8s.io"
_TOKEN = "abcdef.hunter2hunter2xx"
_START_SECONDS = 120


class ClusterApiError(Exception):
    """Cluster API could not be started, or made no bootstrap data; the message says what it said."""


def read_definitions(versions: Sequence[str] = BOTH, storage: str | None = None) -> list[dict[str, Any]]:
    """Read the CustomResourceDefinitions of Cluster API and its kubeadm bootstrap and control plane providers.

    `versions` are served, `storage` is stored (default: the last version). The server converts by dropping unknown fields.
    """
    result = []
    for file in (file for name in DIRECTORIES for file in sorted((_fetch_module() / name).glob("*.yaml"))):
        definition = yaml.load(file.read_text(), yaml.CSafeLoader)
        kept = storage or versions[-1]
        names = {version["name"] for version in definition["spec"]["versions"]}
        for version in definition["spec"]["versions"]:
            # a kind that never was in both keeps its own
            if version["name"] in BOTH and names.issuperset(BOTH):
                version["served"] = version["name"] in versions
                version["storage"] = version["name"] == kept
        # the contract labels of its kustomizations, which the providers look for
        definition["metadata"]["labels"] = {f"{_CORE}/{name}": name for name in versions}
        result.append(definition)
    return result


def define(control_plane: ControlPlane, versions: Sequence[str] = BOTH, storage: str | None = None) -> None:
    """Bring the definitions to a server that runs. Done again with other versions, it is an upgrade."""
    control_plane.define(read_definitions(versions, storage))


class BootstrapProvider:
    """CABPK beside an API server that has the definitions. A context manager: it ends with the block.

    Its webhook server is not used: objects are written in v1beta2, which is what it reads.
    """

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._directory = control_plane.directory / "cabpk"
        self._process: Process | None = None
        self._made = 0

    def __enter__(self) -> BootstrapProvider:
        self._directory.mkdir(exist_ok=True)
        for suffix, path in zip(("crt", "key"), Authority(self._directory).issue("webhook", "webhook"), strict=True):
            shutil.copy(path, self._directory / f"tls.{suffix}")
        health, diagnostics, webhook = (reserve() for _ in range(3))
        options = (
            f"--kubeconfig={self._control_plane.kubeconfig}",
            f"--webhook-cert-dir={self._directory}",
            f"--webhook-port={webhook}",
            f"--health-addr=127.0.0.1:{health}",
            f"--diagnostics-address=127.0.0.1:{diagnostics}",
            "--insecure-diagnostics",
            "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields",
        )
        environment = {"PATH": os.defpath, "HOME": str(self._directory)}
        self._process = Process([build_bootstrap_provider(), *options], self._directory / "cabpk.log", environment)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            self._process.stop()

    def read_log(self) -> str:
        """Return the end of the provider's log."""
        return (self._directory / "cabpk.log").read_text(errors="replace")[-3000:]

    def start_machine(
        self,
        namespace: str,
        cluster: str,
        spec: Mapping[str, Any],
        *,
        control_plane: bool = False,
        version: str | None = None,
    ) -> str:
        """Make a Machine and its KubeadmConfig, as the controllers of Cluster API do; its name, which is the Secret's too.

        `spec` is a KubeadmConfigSpec, as in the `template.spec` of a KubeadmConfigTemplate or the `kubeadmConfigSpec` of a
        KubeadmControlPlane. A control plane machine is the first of its cluster; a worker joins one that is there.
        """
        self._made += 1
        name = f"{cluster}-{'control-plane' if control_plane else 'worker'}-{self._made}"
        self._make_cluster_ready(namespace, cluster, initialized=not control_plane)
        labels = {f"{_CORE}/cluster-name": cluster} | ({f"{_CORE}/control-plane": ""} if control_plane else {})
        metadata = {"namespace": namespace, "name": name, "labels": labels}
        machine = {
            "apiVersion": f"{_CORE}/v1beta2",
            "kind": "Machine",
            "metadata": metadata,
            "spec": {
                "clusterName": cluster,
                "version": version or kubernetes.read_version(),
                "bootstrap": {"configRef": {"apiGroup": _BOOTSTRAP, "kind": "KubeadmConfig", "name": name}},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "LabMachine", "name": name},
            },
        }
        made = json.loads(self._request("POST", f"/apis/{_CORE}/v1beta2/namespaces/{namespace}/machines", machine))
        owner = {"apiVersion": f"{_CORE}/v1beta2", "kind": "Machine", "name": name, "uid": made["metadata"]["uid"]}
        config = {
            "apiVersion": f"{_BOOTSTRAP}/v1beta2",
            "kind": "KubeadmConfig",
            "metadata": metadata | {"ownerReferences": [owner | {"controller": True}]},
            "spec": dict(spec) if control_plane else _add_join_token(spec),
        }
        self._request("POST", f"/apis/{_BOOTSTRAP}/v1beta2/namespaces/{namespace}/kubeadmconfigs", config)
        return name

    def start_pool(self, namespace: str, cluster: str, pool: str, config: str = "") -> None:
        """Let a MachinePool that is there own a KubeadmConfig, as its controller does; the cluster is ready.

        `config` is the KubeadmConfig's name, the pool's where empty.
        """
        self._make_cluster_ready(namespace, cluster, initialized=True)
        path = f"/apis/{_CORE}/v1beta2/namespaces/{namespace}/machinepools/{pool}"
        made = json.loads(self._request("GET", path))
        owner = {"apiVersion": f"{_CORE}/v1beta2", "kind": "MachinePool", "name": pool, "uid": made["metadata"]["uid"]}
        path = f"/apis/{_BOOTSTRAP}/v1beta2/namespaces/{namespace}/kubeadmconfigs/{config or pool}"
        live = json.loads(self._request("GET", path))
        live["metadata"]["ownerReferences"] = [owner | {"controller": True}]
        live["spec"] = _add_join_token(live.get("spec") or {})
        self._request("PUT", path, live)

    def wait_data(self, namespace: str, name: str, seconds: float = 60) -> bytes:
        """Wait for the bootstrap data of a machine and return it. Raises ClusterApiError on a timeout."""
        end = time.monotonic() + seconds
        path = f"/apis/{_BOOTSTRAP}/v1beta2/namespaces/{namespace}/kubeadmconfigs/{name}"
        while True:
            status = json.loads(self._request("GET", path)).get("status", {})
            if secret := status.get("dataSecretName"):
                secret_object = json.loads(self._request("GET", f"/api/v1/namespaces/{namespace}/secrets/{secret}"))
                return base64.b64decode(secret_object["data"]["value"])
            if time.monotonic() > end or (self._process is not None and self._process.has_ended()):
                message = self.read_condition(namespace, name) or self.read_log()
                raise ClusterApiError(f"KubeadmConfig {namespace}/{name} has no bootstrap data: {message}")
            time.sleep(0.1)

    def read_condition(self, namespace: str, name: str) -> str:
        """Return why no bootstrap data exists: the message of `DataSecretAvailable`, or an empty string."""
        path = f"/apis/{_BOOTSTRAP}/v1beta2/namespaces/{namespace}/kubeadmconfigs/{name}"
        conditions = json.loads(self._request("GET", path)).get("status", {}).get("conditions", ())
        matches = [item for item in conditions if item["type"] == "DataSecretAvailable" and item["status"] != "True"]
        return str(matches[0].get("message", "")) if matches else ""

    def _make_cluster_ready(self, namespace: str, cluster: str, *, initialized: bool) -> None:
        """Write the status that an infrastructure provider and a control plane would report, and the cluster's CA."""
        path = f"/apis/{_CORE}/v1beta2/namespaces/{namespace}/clusters/{cluster}"
        live = json.loads(self._request("GET", path))
        condition = {
            "type": "ControlPlaneInitialized",
            "status": "True" if initialized else "False",
            "reason": "Initialized" if initialized else "NotInitialized",
            "message": "",
            "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        ready = {"initialization": {"infrastructureProvisioned": True, "controlPlaneInitialized": initialized}}
        live["status"] = live.get("status", {}) | ready | {"conditions": [condition]}
        self._request("PUT", f"{path}/status", live)
        if initialized:
            self._make_authority(namespace, cluster)

    def _make_authority(self, namespace: str, cluster: str) -> None:
        directory = self._directory / f"{namespace}-{cluster}-ca"
        directory.mkdir(exist_ok=True)
        authority = Authority(directory)
        parts = {"tls.crt": authority.certificate_file, "tls.key": authority.key_file}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": namespace, "name": f"{cluster}-ca", "labels": {f"{_CORE}/cluster-name": cluster}},
            "type": f"{_CORE}/secret",
            "data": {key: base64.b64encode(path.read_bytes()).decode() for key, path in parts.items()},
        }
        try:
            self._request("POST", f"/api/v1/namespaces/{namespace}/secrets", secret)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        try:
            return self._control_plane.request(method, path, body)
        except urllib.error.HTTPError as error:
            if error.code == 409:
                raise
            raise ClusterApiError(f"{method} {path}: {error.read().decode(errors='replace')[:1000]}") from error


def build_bootstrap_provider() -> Path:
    """Return the built CABPK; the build takes 4 minutes on two cores, once."""
    key = cache.digest([MODULE / "go.mod", MODULE / "go.sum", PROVIDER])
    return cache.get_entry("cabpk", key, _build) / "cabpk"


def read_version() -> str:
    """Return the version of Cluster API that is built, as ``v1.14.2``."""
    match = re.search(r"^\s*(?:require )?sigs\.k8s\.io/cluster-api (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if not match:
        raise ClusterApiError(f"{MODULE / 'go.mod'} does not require sigs.k8s.io/cluster-api")
    return match[1]


def _build(target: Path) -> None:
    command: list[str | Path] = ["build", "-trimpath", "-ldflags", "-s -w", "-o", target / "cabpk", PROVIDER]
    with run_step(f"building Cluster API's bootstrap provider {read_version()}"):
        golang.run(MODULE, command, CGO_ENABLED="0", GOFLAGS="-mod=readonly")


@functools.cache
def _fetch_module() -> Path:
    """Return Go's directory of the module's source, which has the definitions as YAML; fetch it if it is missing."""
    return golang.fetch_module_source(MODULE, "sigs.k8s.io/cluster-api")


def _add_join_token(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec with a join token; without it, CABPK would create one in the workload cluster."""
    joining = dict(spec.get("joinConfiguration") or {})
    discovery = dict(joining.get("discovery") or {})
    discovery.setdefault("bootstrapToken", {"token": _TOKEN, "apiServerEndpoint": "127.0.0.1:6443"})
    return {**spec, "joinConfiguration": joining | {"discovery": discovery}}
