"""The structs that objects are read into, as the structural OpenAPI schema of a CustomResourceDefinition.

The structs say names, types, choices and defaults, and may describe a field (`msgspec.Meta`). A table of `Rules` describes
the others, and says what a type cannot: limits and CEL.
"""

import types
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from transom.proxy.objects import LabelSelector
from transom.proxy.secret import Secret
from transom.proxy.status import Status, StatusCondition

_INT32: Final = {"type": "integer", "format": "int32"}


class CelRule(msgspec.Struct, frozen=True):
    """One CEL rule (`x-kubernetes-validations`). The API server shows `message` to users: it contains no value."""

    rule: str
    message: str


class FieldRules(msgspec.Struct, frozen=True):
    """The description and limits of one field."""

    description: str
    limits: Mapping[str, Any] = {}
    """OpenAPI's own: maxLength, pattern, minimum, maxItems …"""
    items: Mapping[str, Any] = {}
    """The same, for each item of a list."""
    checks: tuple[CelRule, ...] = ()
    default: bool = True
    """Whether the struct's default is written into objects; not if "not set" has its own meaning."""
    required: tuple[str, ...] = ()
    """Fields that this object must have."""


def build_object_schema(type_: type[msgspec.Struct], rules: Mapping[str, FieldRules], path: str) -> dict[str, Any]:
    """Build the schema of a struct at a path such as `spec`. Raises KeyError for a field without a description."""
    own = rules[path]
    properties = {}
    for field in msgspec.structs.fields(type_):
        properties[field.encode_name] = _build_field_schema(field, rules, f"{path}.{field.encode_name}")
    schema: dict[str, Any] = {"description": own.description, "type": "object", "properties": properties}
    if own.required:
        schema["required"] = list(own.required)
    return schema | dict(own.limits) | _build_validations(own)


def _build_field_schema(field: msgspec.structs.FieldInfo, rules: Mapping[str, FieldRules], path: str) -> dict[str, Any]:
    type_ = field.type
    if get_origin(type_) is Annotated:
        type_, annotation = get_args(type_)
        rules = {**rules, path: FieldRules(annotation.description)}
    if get_origin(type_) in (types.UnionType, Union):
        (type_,) = (member for member in get_args(type_) if member is not types.NoneType)
    schema = _build_type_schema(type_, rules, path)
    own = rules[path]
    default = _get_default(field)
    if own.default and default is not None:
        schema["default"] = default
    return schema


def _build_type_schema(type_: Any, rules: Mapping[str, FieldRules], path: str) -> dict[str, Any]:
    if type_ is LabelSelector:
        return {"description": rules[path].description} | _SELECTOR
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return build_object_schema(type_, rules, path)
    own = rules[path]
    described: dict[str, Any] = {"description": own.description}
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (tuple, list):
        item = arguments[0]
        if item is StatusCondition:
            return described | _CONDITIONS
        if isinstance(item, type) and issubclass(item, msgspec.Struct):
            items = build_object_schema(item, rules, f"{path}[]")
        else:
            items = _build_scalar_schema(item) | dict(own.items)
        return described | {"type": "array", "items": items} | dict(own.limits) | _build_validations(own)
    if origin is dict:
        values = {"type": "string"} | dict(own.items)
        return described | {"type": "object", "additionalProperties": values} | dict(own.limits)
    return described | _build_scalar_schema(type_) | dict(own.limits) | _build_validations(own)


def _build_scalar_schema(type_: Any) -> dict[str, Any]:
    if get_origin(type_) is Literal:
        return {"type": "string", "enum": list(get_args(type_))}
    if type_ is bool:
        return {"type": "boolean"}
    if type_ is int:
        return dict(_INT32)
    if type_ is str or type_ is Secret:
        return {"type": "string"}
    raise TypeError(f"no schema exists for {type_}")


def _get_default(field: msgspec.structs.FieldInfo) -> Any:
    """Return the default of a field for the schema, or None; an empty default is omitted."""
    value = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    if value is msgspec.NODEFAULT or value is None:
        return None
    plain = msgspec.to_builtins(value)
    return plain if isinstance(plain, bool | int) or plain else None


def _build_validations(rules: FieldRules) -> dict[str, Any]:
    if not rules.checks:
        return {}
    checks = [{"rule": check.rule, "message": check.message} for check in rules.checks]
    return {"x-kubernetes-validations": checks}


_SELECTOR: Final[dict[str, Any]] = {
    "type": "object",
    "x-kubernetes-map-type": "atomic",
    "properties": {
        "matchLabels": {
            "description": "Labels that must exist with these values.",
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": 63},
            "maxProperties": 64,
        },
        "matchExpressions": {
            "description": "Requirements that must all be met.",
            "type": "array",
            "maxItems": 64,
            "items": {
                "type": "object",
                "required": ["key", "operator"],
                "properties": {
                    "key": {"description": "The label.", "type": "string", "minLength": 1, "maxLength": 317},
                    "operator": {
                        "description": "How the label is compared.",
                        "type": "string",
                        "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                    },
                    "values": {
                        "description": "The values to compare with: at least one for In and NotIn, none for the others.",
                        "type": "array",
                        "maxItems": 64,
                        "items": {"type": "string", "maxLength": 63},
                    },
                },
                "x-kubernetes-validations": [
                    {
                        "rule": "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0"
                        " : !has(self.values) || size(self.values) == 0",
                        "message": "In and NotIn require values, Exists and DoesNotExist accept none",
                    }
                ],
            },
        },
    },
}


def _build_conditions_schema() -> dict[str, Any]:
    """Build the schema of a list of metav1.Condition, with `type` as its key."""
    texts = {
        "type": ("The type of the condition.", {"maxLength": 316}),
        "reason": ("The reason, in CamelCase.", {"maxLength": 1024, "minLength": 1}),
        "message": ("The details. If a field is wrong, the message begins with it.", {"maxLength": 32768}),
    }
    properties: dict[str, Any] = {
        name: {"description": text, "type": "string"} | limits for name, (text, limits) in texts.items()
    }
    properties["status"] = {
        "description": "The status of the condition.",
        "type": "string",
        "enum": ["True", "False", "Unknown"],
    }
    properties["observedGeneration"] = {
        "description": "The generation of the object that the condition was computed from.",
        "type": "integer",
        "format": "int64",
        "minimum": 0,
    }
    properties["lastTransitionTime"] = {"description": "When the status last changed.", "type": "string", "format": "date-time"}
    return {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": properties,
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }


_CONDITIONS: Final = _build_conditions_schema()


NAME: Final = {"minLength": 1, "maxLength": 253}
"""Limits of an object's name."""


class Kind(msgspec.Struct, frozen=True):
    """One custom resource: its names, the structs of its spec and status with rules by path, and checks of the whole."""

    kind: str
    plural: str
    singular: str
    short_name: str
    scope: str
    description: str
    spec: type[msgspec.Struct]
    rules: dict[str, FieldRules]
    checks: tuple[dict[str, str], ...]
    status: type[Status]
    columns: tuple[dict[str, Any], ...]
    spec_required: bool


def build_string_schema(description: str, **more: Any) -> dict[str, Any]:
    """Build the schema of a string."""
    return {"description": description, "type": "string"} | more


def build_column(name: str, path: str, type_: str = "string", priority: int = 0) -> dict[str, Any]:
    """Build a column of `kubectl get`; with a priority above 0, only `-o wide` shows it."""
    return {"name": name, "type": type_, "jsonPath": path} | ({"priority": priority} if priority else {})


def build_condition_column(name: str, condition: str, priority: int = 0) -> dict[str, Any]:
    """Build a column with the status of a condition."""
    return build_column(name, f'.status.conditions[?(@.type=="{condition}")].status', priority=priority)


AGE: Final = build_column("Age", ".metadata.creationTimestamp", "date")
