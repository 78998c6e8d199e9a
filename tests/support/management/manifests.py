"""Manifests of a management cluster, as people write them."""

from datetime import UTC, datetime
from typing import Any

from transom.capi.values.cluster_objects import FleetObject, build_fleet_objects
from transom.proxy.objects import Cluster
from transom.proxy.secret import Secret
from transom.proxy.settings import ResolvedSettings, resolve_settings
from transom.sources.objects import ObjectReader, Objects

USER, PASSWORD = "myProxyUser", "hunter2%^&+!\"\\é$ '"
ENCODED = "hunter2%25%5E%26%2B%21%22%5C%C3%A9%24%20%27"
PROXY = "http://192.168.52.220:3128"
NO_PROXY = "172.16.0.0/16,internal.corpdomain.net,example.com"
RFC_LINE = (
    "cluster.local,100.64.0.0/13,100.96.0.0/11,178.170.32.59,172.16.0.0/16,internal.corpdomain.net,example.com,"
    "svc,127.0.0.1,localhost"
)


def egress_proxy(name: str = "cluster", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"name": name}, "spec": spec}


def base(**more: Any) -> dict[str, Any]:
    """The settings of the RFC's example, with the credentials in a Secret, for all clusters."""
    spec = {"httpProxy": PROXY, "httpsProxy": PROXY, "noProxy": NO_PROXY, "credentialsSecret": {"name": "egress-credentials"}}
    return egress_proxy(**(spec | {"clusterSelector": {}} | more))


def unsent(**more: Any) -> dict[str, Any]:
    """The same, where nobody said which clusters get the credentials."""
    made = base(**more)
    del made["spec"]["clusterSelector"]
    return made


def credentials(password: str = PASSWORD, namespace: str = "transom-system") -> dict[str, Any]:
    metadata = {"name": "egress-credentials", "namespace": namespace}
    data = {"username": USER, "password": password}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def cluster(
    name: str = "mycluster",
    namespace: str = "org-giantswarm",
    version: str = "v1beta1",
    *,
    services: tuple[str, ...] = ("100.64.0.0/13",),
    pods: tuple[str, ...] = ("100.96.0.0/11",),
    domain: str | None = "cluster.local",
    host: str | None = "178.170.32.59",
    **meta: Any,
) -> dict[str, Any]:
    network: dict[str, Any] = {"services": {"cidrBlocks": list(services)}, "pods": {"cidrBlocks": list(pods)}}
    spec: dict[str, Any] = {"clusterNetwork": network}
    if domain:
        network["serviceDomain"] = domain
    if host:
        spec["controlPlaneEndpoint"] = {"host": host, "port": 6443}
    return {
        "apiVersion": f"cluster.x-k8s.io/{version}",
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": namespace, **meta},
        "spec": spec,
    }


def read(*values: dict[str, Any]) -> tuple[Objects, ResolvedSettings]:
    reader = ObjectReader()
    for value in values:
        reader.add(value, "test", lambda _: (0, 0))
    objects = reader.build_objects()
    return objects, resolve_settings(objects, datetime(2026, 11, 21, tzinfo=UTC))


def rendered(*values: dict[str, Any], **more: Any) -> dict[tuple[str, str], dict[str, str]]:
    """Kind and name to the data, of the objects of the first cluster."""
    objects, settings = read(*values)
    one: Cluster = objects.clusters[0]
    egress = settings.clusters[one.metadata.namespace or "", one.metadata.name]
    assert egress is not None, settings.findings
    return {(made.kind, made.name): data_of(made) for made in build_fleet_objects(one, egress, **more)}


def data_of(made: FleetObject) -> dict[str, str]:
    return {key: value.reveal() if isinstance(value, Secret) else value for key, value in made.data.items()}
