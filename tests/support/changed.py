"""`python -m tests.support.changed`: the test files that the changes since the upstream can break, one a line; `tests` for all.

Changes are those of the commits that the upstream does not have, and of the working tree. A test is affected by what it
imports, directly or not, also by a module's name; by what it starts with `python -m`; by the files of a package that it
imports; by files that it names; by the conftest whose fixtures it asks for. Where that cannot tell, all tests are.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
PACKAGES = {"transom": "src", "winsim": "src", "image": ".", "lab": ".", "tests": ".", "website": "."}
"""The packages, and the directory that each lies in."""
_UPSTREAMS = ("@{upstream}", "origin/HEAD", "origin/main", "main")
_EVERYTHING = ("pyproject.toml", "uv.lock", "scripts/", ".github/")


@dataclass(frozen=True)
class Source:
    """What matters of a module besides its imports."""

    file: str
    strings: frozenset[str]
    arguments: frozenset[str]
    fixtures: frozenset[str]
    by_name: bool
    """Whether it imports or starts modules by their names."""

    @classmethod
    def read(cls, root: Path, file: Path) -> Source:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        strings = frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
        imports = any(isinstance(node, ast.Attribute) and node.attr == "import_module" for node in nodes)
        return cls(
            str(file.relative_to(root)),
            strings,
            frozenset(name.arg for function in functions for name in (*function.args.args, *function.args.kwonlyargs)),
            frozenset(
                function.name for function in functions if any("fixture" in ast.unparse(d) for d in function.decorator_list)
            ),
            imports or "-m" in strings,
        )


class Project:
    """The modules of a repository, and who depends on whom."""

    def __init__(self, root: Path, packages: Mapping[str, str], tests: str) -> None:
        """Read all modules; `tests` is the package whose files are tests. What cannot be parsed raises SyntaxError."""
        self._root, self._tests = root, tests
        self.modules: dict[str, Source] = {}
        for package, place in packages.items():
            for file in sorted((root / place / package).rglob("*.py")):
                parts = file.relative_to(root / place).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                self.modules[name] = Source.read(root, file)
        self._graph = grimp.build_graph(*packages, cache_dir=None)
        self._files = {source.file: name for name, source in self.modules.items()}
        for name, source in self.modules.items():
            for other in (*self._started(source), *self._conftests(name, source)):
                self._graph.add_import(importer=name, imported=other)

    def affected(self, changed: Iterable[str]) -> list[str] | None:
        """The files of tests that changed files can break; None for all."""
        begun: set[str] = set()
        for file in changed:
            if file.startswith(_EVERYTHING):
                return None
            found = self._of_module(file) if file.endswith(".py") else self._of_data(file)
            if found is None:
                return None
            begun |= found
        reached = begun.union(*(self._graph.find_downstream_modules(name) for name in begun))
        return sorted(self.modules[name].file for name in reached if self._is_test(name))

    def _started(self, source: Source) -> Iterator[str]:
        """The modules that one starts or imports by their names."""
        if source.by_name:
            for name in source.strings & self.modules.keys():
                yield f"{name}.__main__" if f"{name}.__main__" in self.modules else name

    def _conftests(self, name: str, source: Source) -> Iterator[str]:
        """The conftests, and the plugins that they name, of whose fixtures a module asks for one."""
        if name.startswith(f"{self._tests}."):
            parts = name.split(".")[:-1]
            asked = source.arguments | source.strings
            above = (".".join((*parts[:length], "conftest")) for length in range(1, len(parts) + 1))
            for conftest in (one for one in above if one in self.modules):
                plugins = self.modules[conftest].strings & self.modules.keys()
                yield from (one for one in (conftest, *plugins) if one != name and asked & self.modules[one].fixtures)

    def _of_module(self, file: str) -> set[str] | None:
        name = self._files.get(file)
        if name is None:
            # a test that is gone breaks nobody; of another module that is gone nobody knows who missed it
            return set() if Path(file).name.startswith("test_") or not self._ours(file) else None
        if name.endswith(".conftest"):
            below = name.removesuffix("conftest")
            return {name} | {other for other in self.modules if other.startswith(below)}
        return {name}

    def _of_data(self, file: str) -> set[str]:
        """The modules of the package that a file is in, and those that name it or its directory below the root."""
        path = Path(file)
        words = {path.name, file, path.parts[0]} if len(path.parts) > 1 else {path.name}
        found = {name for name, source in self.modules.items() if words & source.strings and not self._ours(file)}
        found |= {name for name, source in self.modules.items() if path.name in source.strings}
        for directory in path.parents:
            inside = {name for name, source in self.modules.items() if Path(source.file).parent == directory}
            if inside:
                return found | inside
        return found

    def _ours(self, file: str) -> bool:
        tops = {Path(source.file).parts[0] for source in self.modules.values()}
        return Path(file).parts[0] in tops

    def _is_test(self, name: str) -> bool:
        return name.startswith(f"{self._tests}.") and name.rpartition(".")[2].startswith("test_")


def changes(root: Path) -> list[str] | None:
    """The files that differ from the upstream, deleted and new ones among them; None where there is no upstream."""
    for upstream in _UPSTREAMS:
        base = _git(root, "merge-base", "HEAD", upstream)
        if base:
            differing = _git(root, "diff", "--name-only", "--no-renames", base[0]) or []
            return sorted({*differing, *(_git(root, "ls-files", "--others", "--exclude-standard") or [])})
    return None


def _git(root: Path, *arguments: str) -> list[str] | None:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else None


def main() -> None:
    """Print them, and on stderr why."""
    changed = changes(ROOT)
    if changed is None:
        print("no upstream and no main to compare with: all tests", file=sys.stderr)
        print("tests")
        return
    for place in {str(ROOT / place) for place in PACKAGES.values()}:
        sys.path.insert(0, place)
    found = Project(ROOT, PACKAGES, "tests").affected(changed)
    print(f"{len(changed)} changed files: {'all tests' if found is None else f'{len(found)} test files'}", file=sys.stderr)
    print("\n".join(["tests"] if found is None else found))


if __name__ == "__main__":
    main()
