"""What a workload cluster is called, and the names, labels and owner of the objects that Transom keeps for it."""

import re
from collections.abc import Mapping
from typing import Any, Final

from transom.proxy.objects import Cluster
from transom.shown import NAME

ID_LABEL: Final = "giantswarm.io/cluster"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
TRANSOM: Final = "transom"
SECRETS_ANNOTATION: Final = "transom.dev/secrets"
"""On the ConfigMap of the values: which Secrets of the cluster there are, and what is in them, as a keyed hash."""
ADOPT: Final = "transom.dev/adopt"
"""Put on an object by a person, with the value `true`: the object is handed over to Transom."""
_LABEL: Final = re.compile(r"(?=.{1,63}\Z)[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_LONGEST_ID: Final = 63


class InvalidIdentity(ValueError):
    """The cluster's id cannot be part of a name; the message begins with the field."""


def cluster_id(cluster: Cluster) -> str:
    """The id of a Cluster. Raises InvalidIdentity."""
    return identity_of(cluster.metadata.name, cluster.metadata.labels)


def identity_of(name: str, labels: Mapping[str, str]) -> str:
    """Label `giantswarm.io/cluster`, else the Cluster's name. Raises InvalidIdentity."""
    label = labels.get(ID_LABEL)
    if label is not None:
        if not NAME.match(label) or len(label) > _LONGEST_ID:
            raise InvalidIdentity(
                f"metadata.labels[{ID_LABEL}] is no name of at most {_LONGEST_ID} lower-case letters, digits, `-` and `.`"
            )
        return label
    if not _LABEL.match(name):
        raise InvalidIdentity(f"metadata.name is longer than {_LONGEST_ID} characters: give the Cluster a label {ID_LABEL}")
    return name


def values_name(identity: str, *, own: bool = False) -> str:
    """The ConfigMap and the Secret of the values; `own`: the pair that stands beside a peer's."""
    return f"{identity}-egress-values" if own else f"{identity}-cluster-values"


def values_names(identity: str) -> tuple[str, str]:
    """Both names that they can have."""
    return values_name(identity), values_name(identity, own=True)


def systemd_name(identity: str) -> str:
    """The Secret of the drop-in."""
    return f"{identity}-systemd-proxy"


def ca_name(identity: str) -> str:
    """The ConfigMap of the trust bundle."""
    return f"{identity}-egress-ca"


def labels(identity: str) -> dict[str, str]:
    """The labels of each object."""
    return {ID_LABEL: identity, MANAGED_BY: TRANSOM}


def owner_reference(cluster: Cluster) -> dict[str, Any] | None:
    """The entry of `ownerReferences`; None for a Cluster from a file, which has no uid."""
    if not cluster.metadata.uid:
        return None
    return {
        "apiVersion": cluster.api_version,
        "kind": "Cluster",
        "name": cluster.metadata.name,
        "uid": cluster.metadata.uid,
    }
