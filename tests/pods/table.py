"""The table of pods: what goes in, and what is to come out."""

import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml
from tests.support.operator.bundles import ROOT_1

from transom.pods.environment import CA_VARIABLES, CONFIG_MAP, PodEgress, build_pod_egress
from transom.pods.pod_types import Pod
from transom.proxy.settings import Egress, resolve_settings
from transom.sources.objects import ObjectReader

OWN = "transom-system"
KUBERNETES_IP = "10.96.0.1"
PASSWORD = 'hunter2%^&!"\\é$ x'
NETWORKS = {
    "dnsDomain": "cluster.local",
    "machineNetwork": ["192.168.0.0/16"],
    "serviceNetwork": ["10.96.0.0/16"],
    "podNetwork": ["10.244.0.0/16"],
    "internalAPIHost": "api.corp.example",
}
_TABLE = yaml.load((Path(__file__).parent / "table.yaml").read_text(), yaml.CSafeLoader)
SETTINGS: dict[str, dict[str, Any] | None] = _TABLE["settings"]
NAMESPACES: dict[str, dict[str, str]] = _TABLE["namespaces"]


@dataclass(frozen=True)
class Case:
    name: str
    settings: str
    namespace: str
    pod: dict[str, Any]
    env: dict[str, list[Any]]
    proxy: str
    ca: str | None
    warning: str | None
    mounted: list[str] | None
    offline: bool

    @property
    def labels(self) -> dict[str, str]:
        return NAMESPACES.get(self.namespace, {})

    @property
    def with_ca(self) -> bool:
        return self.ca == "given"


def _case(value: dict[str, Any]) -> Case:
    spec = copy.deepcopy(value["spec"])
    for field in ("initContainers", "containers"):
        for container in spec.get(field, ()):
            container.setdefault("image", "registry.corp.example/x:1")
    metadata = {"name": value["name"], **{field: value[field] for field in ("labels", "annotations") if field in value}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return Case(
        value["name"],
        value.get("settings", "plain"),
        value.get("namespace", "plain"),
        pod,
        value.get("env", {}),
        value.get("proxy", "given"),
        value.get("ca"),
        value.get("warning"),
        value.get("mounted"),
        value.get("offline", False),
    )


CASES = [_case(value) for value in _TABLE["cases"]]


def objects(settings: str) -> list[dict[str, Any]]:
    """The settings of that name as manifests, with what they refer to."""
    spec = SETTINGS[settings]
    if spec is None:
        return []
    kind = {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy"}
    credentials = {"username": "alice", "password": PASSWORD}
    return [
        {**kind, "metadata": {"name": "cluster"}, "spec": {**spec, "networks": NETWORKS}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "egress-credentials"}, "stringData": credentials},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "corp-ca"}, "data": {"ca-bundle.crt": ROOT_1}},
    ]


def egress(settings: str) -> Egress | None:
    reader = ObjectReader(OWN)
    for value in objects(settings):
        reader.add(value, "", lambda _: (0, 0))
    read = resolve_settings(reader.build_objects(), datetime.now(UTC))
    assert not [finding for finding in read.findings if finding.severity == "error"]
    return read.own


def pod_egress(settings: str, key: bytes = b"k") -> PodEgress:
    return build_pod_egress(egress(settings), OWN, KUBERNETES_IP, key)


def decoded(pod: dict[str, Any]) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(pod), type=Pod)


def own_namespace(case: Case) -> str:
    return OWN if case.namespace == "own" else case.namespace


def wanted(case: Case, pod: dict[str, Any], made: PodEgress) -> dict[str, Any]:
    """The pod as it has to look afterwards; `pod` is the one before."""
    after = copy.deepcopy(pod)
    ours = {entry["name"]: entry for pair in made.pairs for entry in (pair.upper, pair.lower)}
    windows = decoded(pod).spec.windows
    directory = r"C:\transom\ca" if windows else "/etc/transom/ca"
    file = directory + (r"\ca-bundle.crt" if windows else "/ca-bundle.crt")
    ours |= {name: {"name": name, "value": file} for name in CA_VARIABLES}
    ours["NODE_USE_ENV_PROXY"] = {"name": "NODE_USE_ENV_PROXY", "value": "1"}
    everywhere = [item for field in ("initContainers", "containers") for item in after["spec"].get(field, ())]
    for container in everywhere:
        if container["name"] in case.env:
            container["env"] = [_entry(item, ours) for item in case.env[container["name"]]]
        if case.with_ca and container["name"] in (case.mounted or [item["name"] for item in everywhere]):
            mount = {"name": CONFIG_MAP, "mountPath": directory, "readOnly": True}
            container.setdefault("volumeMounts", []).append(mount)
    if case.with_ca:
        volume = {"name": CONFIG_MAP, "configMap": {"name": CONFIG_MAP, "optional": False}}
        after["spec"].setdefault("volumes", []).append(volume)
    if case.proxy == "given" and case.env:
        after["metadata"].setdefault("annotations", {})["transom.dev/settings-hash"] = made.digest
    return after


def _entry(item: Any, ours: dict[str, Any]) -> dict[str, Any]:
    if isinstance(item, dict):
        return item
    name, equals, value = item.partition("=")
    if not equals:
        return dict(ours[name])
    return {"name": name, "value": value} if value else {"name": name}
