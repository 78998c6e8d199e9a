"""Definitions of other projects that Go's proxy lacks: each file says where it is from, `scripts/definitions` writes them."""

from pathlib import Path
from typing import Any

import yaml

_DIRECTORY = Path(__file__).parent / "definitions"


def kept_definitions(*providers: str) -> list[dict[str, Any]]:
    """Those whose names begin so (`rke2`, `azure`): CustomResourceDefinitions, with the one version that is used."""
    return [yaml.safe_load(file.read_text()) for name in providers for file in sorted(_DIRECTORY.glob(f"{name}*.yaml"))]
