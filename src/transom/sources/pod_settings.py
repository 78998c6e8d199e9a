"""What the pods of a cluster get, and which of them are older than that: the objects behind it, read once."""

from datetime import datetime
from typing import Final

import msgspec

from transom.kube.client import Client
from transom.kube.resources import NAMESPACES, Resource
from transom.pods.environment import HASH_KEY, PodEgress, of
from transom.pods.outdated import Outdated, outdated
from transom.pods.pod import Pod
from transom.sources.api_server import load
from transom.sources.examination import Examined, examine
from transom.sources.objects import Objects

PODS: Final = Resource("", "v1", "Pod", "pods", True, Pod)
_HOLDER: Final = "transom-webhook"


UNKNOWN: Final = "***"
"""The digest of settings that pods cannot be compared with."""


class HashKeyUnread(Exception):
    """Without the webhook's key the digest of settings with credentials would give these away to whoever guesses."""

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"Secret {namespace}/{_HOLDER} cannot be read: without its key pods of these settings cannot be told apart"
        )


def pod_egress(objects: Objects, examined: Examined, address: str | None) -> PodEgress:
    """What pods get; its digest is UNKNOWN without the webhook's key. `address` is that of the Service default/kubernetes."""
    present = objects.secret(objects.namespace, _HOLDER)
    key = present.data.get(HASH_KEY) if present else None
    made = of(examined.settings.own, objects.namespace, address, key.reveal().encode() if key else b"")
    return msgspec.structs.replace(made, digest=UNKNOWN) if made.in_secret and key is None else made


async def older_pods(client: Client, namespace: str, now: datetime) -> list[Outdated]:
    """The pods of a cluster that are older than its settings, by owner. Raises ApiError, HashKeyUnread."""
    objects = await load(client, namespace)
    examined = examine(objects, now, client.connection.server)
    own = examined.settings.own
    if own is None or own.missing:
        # nobody knows what pods are to have
        return []
    service = await client.get_json("/api/v1/namespaces/default/services/kubernetes")
    egress = pod_egress(objects, examined, service["spec"].get("clusterIP"))
    if egress.digest == UNKNOWN:
        raise HashKeyUnread(namespace)
    running = (await client.list_objects(PODS)).items
    labels = {one.metadata.name: one.metadata.labels or {} for one in (await client.list_objects(NAMESPACES)).items}
    return outdated(running, labels, egress, own.variables)
