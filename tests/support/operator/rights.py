"""What roles grant, and what was asked of the API server."""

from typing import Any

from lab.control_plane import ControlPlane, Moment

Use = tuple[str, str, str]
"""Group, resource with its subresource, and verb."""


def granted(objects: list[dict[str, Any]], kind: str, namespace: str | None = None) -> set[Use]:
    return {
        (group, resource, verb)
        for obj in objects
        if obj["kind"] == kind and obj["metadata"].get("namespace") == namespace
        for rule in obj["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(control_plane: ControlPlane, user: str, since: Moment | None = None) -> list[tuple[Use, str | None, int]]:
    """What a user asked for, at all or since a moment: the use, the namespace, the code of the answer."""
    found = []
    for entry in control_plane.read_audit(since):
        if entry["user"]["username"] == user and "objectRef" in entry:
            reference = entry["objectRef"]
            resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
            use = (reference.get("apiGroup", ""), resource, entry["verb"])
            found.append((use, reference.get("namespace"), entry.get("responseStatus", {}).get("code", 0)))
    return found
