"""The machine templates of infrastructure providers: the CustomResourceDefinitions of those that Go's proxy has."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from lab import golang

MODULES = {
    "aws": ("sigs.k8s.io/cluster-api-provider-aws/v2@v2.13.0", "awsmachinetemplates"),
    "gcp": ("sigs.k8s.io/cluster-api-provider-gcp@v1.13.1", "gcpmachinetemplates"),
}
_GROUP = "infrastructure.cluster.x-k8s.io"


def read_definitions(kinds: Iterable[tuple[str, ...]] = tuple(MODULES.values())) -> list[dict[str, Any]]:
    """Read the definitions, with the stored version served and no conversion webhook.

    Each kind is a module, a plural, and a group if it is not that of the infrastructure.
    """
    result = []
    for module, plural, *group in kinds:
        name = f"{group[0] if group else _GROUP}_{plural}.yaml"
        file = golang.fetch_module_source(Path(__file__).parent, module) / "config" / "crd" / "bases" / name
        definition = yaml.load(file.read_text(), yaml.CSafeLoader)
        definition["spec"]["versions"] = [version for version in definition["spec"]["versions"] if version["storage"]]
        result.append(definition)
    return result
