"""What a workload cluster is called, and the names, labels and owner of the objects that Transom keeps for it."""

import re
from collections.abc import Mapping
from typing import Any, Final

from transom.common.escaping import NAME
from transom.proxy.objects import Cluster

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


def get_cluster_id(cluster: Cluster) -> str:
    """Return the ID of a Cluster. Raises InvalidIdentity."""
    return get_identity(cluster.metadata.name, cluster.metadata.labels)


def get_identity(name: str, labels: Mapping[str, str]) -> str:
    """Label `giantswarm.io/cluster`, else the Cluster's name. Raises InvalidIdentity."""
    label = labels.get(ID_LABEL)
    if label is not None:
        if not NAME.match(label) or len(label) > _LONGEST_ID:
            raise InvalidIdentity(
                f"metadata.labels[{ID_LABEL}] must be at most {_LONGEST_ID} lower-case letters, digits, `-` and `.`, "
                "the first and last a letter or a digit"
            )
        return label
    if not _LABEL.match(name):
        raise InvalidIdentity(f"metadata.name is longer than {_LONGEST_ID} characters: give the Cluster a label {ID_LABEL}")
    return name


def build_values_name(identity: str, *, own_name: bool = False) -> str:
    """Return the name of the values' ConfigMap and Secret; `own_name`: the pair next to a peer's."""
    return f"{identity}-egress-values" if own_name else f"{identity}-cluster-values"


def list_values_names(identity: str) -> tuple[str, str]:
    """Both names that they can have."""
    return build_values_name(identity), build_values_name(identity, own_name=True)


def build_systemd_name(identity: str, *, own_name: bool = False) -> str:
    """Return the name of the drop-in's Secret."""
    return f"{identity}-egress-systemd-proxy" if own_name else f"{identity}-systemd-proxy"


def build_systemd_names(identity: str) -> tuple[str, str]:
    """Both names that it can have."""
    return build_systemd_name(identity), build_systemd_name(identity, own_name=True)


def build_ca_name(identity: str) -> str:
    """Return the name of the trust bundle's ConfigMap."""
    return f"{identity}-egress-ca"


def build_labels(identity: str) -> dict[str, str]:
    """Return the labels of each object."""
    return {ID_LABEL: identity, MANAGED_BY: TRANSOM}


def build_owner_reference(cluster: Cluster) -> dict[str, Any] | None:
    """Return the entry of `ownerReferences`; None for a Cluster from a file, which has no UID."""
    if not cluster.metadata.uid:
        return None
    return {
        "apiVersion": cluster.api_version,
        "kind": "Cluster",
        "name": cluster.metadata.name,
        "uid": cluster.metadata.uid,
    }
