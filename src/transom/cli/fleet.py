"""The objects of workload clusters, from manifests, for the commands that print or write them."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transom.capi.objects import FleetObject
    from transom.proxy.objects import Cluster
    from transom.proxy.settings import Effective
    from transom.sources.objects import Objects


def fleet_objects(objects: "Objects", settings: "Effective") -> "Iterator[tuple[Cluster, tuple[FleetObject, ...]]]":
    """The objects of each cluster that has any. What a cluster's id does not allow is said on stderr."""
    from transom.capi.identity import InvalidIdentity
    from transom.capi.objects import key_of, namesakes, wanted

    later = namesakes(objects.clusters)
    for cluster in objects.clusters:
        egress = settings.clusters[key_of(cluster)]
        if key_of(cluster) in later:
            first = "/".join(later[key_of(cluster)])
            _warn(f"{cluster.place.object}: Cluster {first} has the same id and is older: nothing is made for this one")
        elif egress is not None:
            try:
                made = wanted(cluster, egress, windows=False)
            except InvalidIdentity as error:
                _warn(f"{cluster.place.object}: {error}")
                continue
            if made:
                yield cluster, made


def app_references(objects: "Objects", settings: "Effective") -> Iterator[dict[str, Any]]:
    """For each App and HelmRelease of the settings, what there is to put into it."""
    from transom.capi.apps import cluster_of, references
    from transom.capi.objects import key_of

    apps = dict.fromkeys(app for egress in settings.clusters.values() if egress is not None for app in egress.apps)
    for app in apps:
        found = ((one, settings.clusters[key_of(one)]) for one in objects.clusters)
        having = [one for one, egress in found if egress is not None and app in egress.apps]
        cluster = cluster_of(app, having)
        if cluster is None:
            _warn(f"{app.kind}/{app.namespace}/{app.name} of spec.apps: no one Cluster in its namespace that it belongs to")
        else:
            yield references(app, cluster)


def _warn(message: str) -> None:
    sys.stderr.write(f"transom: warning: {message}\n")
