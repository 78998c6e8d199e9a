"""What the product imports of others, and what its package says that it needs."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOR_HOSTS = ROOT / "src" / "transom" / "capi" / "image" / "files"
"""Programs that run on a Windows host, with what is there."""


def normal(name: str) -> str:
    """A distribution's name as the index compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(path: Path) -> Iterator[str]:
    """The packages that a file names in its imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (name.name.partition(".")[0] for name in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]


def test_what_is_imported_is_declared_and_the_other_way_round() -> None:
    own = {path.name for path in (ROOT / "src").iterdir()}
    files = [path for path in (ROOT / "src").rglob("*.py") if FOR_HOSTS not in path.parents]
    names = {name for path in files for name in imported(path)} - own - sys.stdlib_module_names
    # several distributions put modules below one name, as opentelemetry's do
    providers = {
        name: {normal(item) for item in packages_distribution}
        for name, packages_distribution in packages_distributions().items()
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = (*project["dependencies"], *(item for extra in project["optional-dependencies"].values() for item in extra))
    declared = {normal(re.split(r"[<>=\[ ]", line)[0]) for line in lines}
    missing = {name for name in names if not providers.get(name, set()) & declared}
    unused = {item for item in declared if not any(item in providers.get(name, ()) for name in names)}
    assert (missing, unused) == (set(), set())
