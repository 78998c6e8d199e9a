"""What the product imports of others, and what its package says that it needs."""

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOR_HOSTS = ROOT / "src" / "transom" / "capi" / "image" / "files"
"""Programs that run on a Windows host, with what is there."""
IMPORT = re.compile(r"^\s*(?:from|import) ([a-zA-Z_]\w*)", re.MULTILINE)


def normal(name: str) -> str:
    """A distribution's name as the index compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_what_is_imported_is_declared_and_the_other_way_round() -> None:
    own = {path.name for path in (ROOT / "src").iterdir()}
    files = [path for path in (ROOT / "src").rglob("*.py") if FOR_HOSTS not in path.parents]
    names = {name for path in files for name in IMPORT.findall(path.read_text("utf-8"))} - own - sys.stdlib_module_names
    providers = packages_distributions()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {normal(re.split(r"[<>=\[ ]", one)[0]) for one in project["dependencies"]}
    assert {normal(provider) for name in names for provider in providers.get(name, ())} == declared
