"""Functions begin with a verb, and no name is a lone participle, pronoun or preposition (names.yaml)."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

FOLDERS = ("src/transom", "src/winsim", "lab", "image", "website")
PROPERTIES = ("property", "cached_property")
MAX_EXCEPTIONS = 60


@dataclass(frozen=True)
class Rules:
    """The words of names.yaml."""

    first_words: frozenset[str]
    banned: frozenset[str]
    exceptions: dict[str, str]


def read_rules() -> Rules:
    """Read names.yaml."""
    data = yaml.safe_load((Path(__file__).parent / "names.yaml").read_text())
    first_words = frozenset(word for field in ("verbs", "predicates", "conversions") for word in data[field].split())
    return Rules(first_words, frozenset(data["banned"].split()), data["exceptions"] or {})


RULES = read_rules()


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for a function that is a command of typer: its name is the command's."""
    return any("typer.Option" in ast.unparse(argument) for argument in (node.args, *node.decorator_list)) or any(
        ".command(" in ast.unparse(decorator) or ".callback(" in ast.unparse(decorator) for decorator in node.decorator_list
    )


def is_exempt(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for special methods, properties and commands."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    is_property = any(decorator.endswith(PROPERTIES) or decorator.endswith(".setter") for decorator in decorators)
    return node.name.startswith("__") or is_property or is_command(node)


def find_problems(text: str, rules: Rules) -> Iterator[tuple[str, str]]:
    """Yield name and problem of each function, parameter and variable that breaks a rule."""
    for node in ast.walk(ast.parse(text)):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and not is_exempt(node) and node.name.strip("_").split("_")[0] not in rules.first_words:
            yield node.name, "does not begin with a verb"
        if isinstance(node, ast.arg) and node.arg in rules.banned:
            yield node.arg, "is a lone participle, pronoun or preposition"
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in rules.banned:
            yield node.id, "is a lone participle, pronoun or preposition"


@pytest.mark.parametrize("folder", FOLDERS)
def test_names(folder: str) -> None:
    files = sorted(Path(folder).rglob("*.py"))
    assert files
    problems = [
        f"{file}: {name} {problem}"
        for file in files
        for name, problem in find_problems(file.read_text(), RULES)
        if not RULES.exceptions.keys() & {name, f"{file}::{name}"}
    ]
    assert problems == []


def test_exceptions_are_few_and_used() -> None:
    files = [file for folder in FOLDERS for file in Path(folder).rglob("*.py")]
    names = {key for file in files for name, _ in find_problems(file.read_text(), RULES) for key in (name, f"{file}::{name}")}
    assert set(RULES.exceptions) <= names
    assert all(RULES.exceptions.values())
    assert len(RULES.exceptions) < MAX_EXCEPTIONS


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def read_hosts(): ...", []),
        ("def _read_hosts(): ...", []),
        ("def hosts(): ...", ["hosts"]),
        ("class A:\n    @property\n    def hosts(self): ...", []),
        ("class A:\n    def of(self): ...", ["of"]),
        ("def is_ready(told): ...", ["told"]),
        ("def read():\n    found = 1", ["found"]),
        ("def read(items):\n    return [one for one in items]", ["one"]),
        ("def from_json(data): ...", []),
    ],
)
def test_what_breaks_a_rule(text: str, names: list[str]) -> None:
    assert [name for name, _ in find_problems(text, RULES)] == names
