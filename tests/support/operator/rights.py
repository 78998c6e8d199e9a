"""What roles grant, and what was asked of the API server."""

from typing import Any

from tests.support.operator.clusters import Cluster

Use = tuple[str, str, str]
"""Group, resource with its subresource, and verb."""


def granted(objects: list[dict[str, Any]], kind: str, namespace: str | None = None) -> set[Use]:
    return {
        (group, resource, verb)
        for one in objects
        if one["kind"] == kind and one["metadata"].get("namespace") == namespace
        for rule in one["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(cluster: Cluster, user: str) -> list[tuple[Use, str | None, int]]:
    """What a user asked for: the use, the namespace, the code of the answer."""
    found = []
    for entry in cluster.control_plane.audit():
        if entry["user"]["username"] == user and "objectRef" in entry:
            reference = entry["objectRef"]
            resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
            use = (reference.get("apiGroup", ""), resource, entry["verb"])
            found.append((use, reference.get("namespace"), entry.get("responseStatus", {}).get("code", 0)))
    return found
