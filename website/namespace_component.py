"""`python -m website.namespace_component`: write kustomize-namespace/, which moves the base into another namespace."""

from pathlib import Path
from typing import Final

import yaml

from transom.manifests.namespace_component import build_namespace_component

ROOT: Final = Path(__file__).parents[1]
BASE: Final = ROOT / "kustomize"
FILE: Final = ROOT / "kustomize-namespace" / "kustomization.yaml"
_MADE: Final = "# Made by scripts/reference from kustomize/: change it there.\n"
_NAMESPACE: Final = "transom-system"


class _WholeDumper(yaml.SafeDumper):
    """Writes each target in full: people read it."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def render_component() -> str:
    """Return the component for the base of this repository, as YAML."""
    names = yaml.safe_load((BASE / "kustomization.yaml").read_text("utf-8"))["resources"]
    objects = [yaml.load((BASE / name).read_text("utf-8"), yaml.CSafeLoader) for name in names]
    return _MADE + yaml.dump(build_namespace_component(objects, _NAMESPACE), Dumper=_WholeDumper, sort_keys=False, width=110)


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(render_component(), "utf-8")
