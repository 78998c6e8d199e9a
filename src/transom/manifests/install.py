"""All the objects of an install, as templates, in the order in which they are needed."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from transom.manifests import admission, grants, monitoring, openshift, policies, roles, workloads
from transom.manifests.definitions import definitions
from transom.manifests.parts import Part
from transom.manifests.templates import Given, Test, Value, When, resolved


class Piece(msgspec.Struct, frozen=True):
    """Templates of objects that are applied together, and the parts that they belong to."""

    parts: tuple[Part, ...]
    objects: tuple[Any, ...]


def pieces() -> Iterator[Piece]:
    """Everything that can be installed."""
    others = tuple(part for part in Part if part is not Part.CRDS)
    yield Piece(others, (workloads.namespace_template(),))
    yield Piece((Part.CRDS,), _where(Given(Value("definitions")), definitions()))
    yield Piece((Part.RBAC,), (*roles.role_templates(), *_where(openshift.NODES, openshift.node_manager())))
    yield Piece((Part.RBAC, Part.WEBHOOK), _where(admission.SERVES, admission.admission_role_templates()))
    scraped = [(grants.NAME, None), (admission.NAME, admission.SERVES)]
    yield Piece((Part.RBAC,), _where(workloads.BEHIND_PROXY, grants.metrics_roles(scraped)))
    yield Piece((Part.OPERATOR,), tuple(workloads.operator()))
    yield Piece((Part.WEBHOOK,), _where(admission.SERVES, admission.admission()))
    yield Piece((Part.POLICIES,), tuple(policies.policies()))
    yield Piece(
        (Part.MONITORING,), (*monitoring.monitors(), *monitoring.alerts(), *_where(openshift.NODES, openshift.monitoring()))
    )


def objects(values: Mapping[str, Any], namespace: str, parts: Collection[Part] = ()) -> list[dict[str, Any]]:
    """The objects of an install with these values (`values.plain`) in a namespace: of some parts, or all."""
    chosen = [one for piece in pieces() if not parts or set(piece.parts) & set(parts) for one in piece.objects]
    made: list[dict[str, Any]] = resolved(chosen, values, namespace)
    return made


def _where(test: Test, templates: Any) -> tuple[When, ...]:
    return tuple(When(test, one) for one in templates)
