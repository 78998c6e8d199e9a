"""Cluster API's `Cluster` (cluster.x-k8s.io, v1beta1 and v1beta2: the same places in both)."""

from typing import Any

from transom.proxy.finding import Finding, Place
from transom.proxy.objects import Cluster, Meta
from transom.sources.core_objects import at, text, texts
from transom.sources.decoding import Decoder


def cluster(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> Cluster:
    """The networks and the endpoint, as far as the object knows them."""
    port = at(value, ("spec", "controlPlaneEndpoint", "port"))
    return Cluster(
        meta,
        place,
        str(value["apiVersion"]),
        texts(value, ("spec", "clusterNetwork", "services", "cidrBlocks"), decoder),
        texts(value, ("spec", "clusterNetwork", "pods", "cidrBlocks"), decoder),
        text(value, ("spec", "clusterNetwork", "serviceDomain"), decoder),
        text(value, ("spec", "controlPlaneEndpoint", "host"), decoder),
        port if isinstance(port, int) and port > 0 else None,
    )
