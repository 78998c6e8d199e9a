"""The parts of a host: what `ledger.PARTS` names."""

import ast
from pathlib import Path

import pytest

from transom.windows import parts
from transom.windows.ledger import PARTS, SETTINGS, Ledger
from transom.windows.parts.part import Part, Setting

MODULES = {Path(str(part.__file__)).stem for part in PARTS.values()}
FILES = sorted(Path(parts.__path__[0]).glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_part_knows_another(file: Path) -> None:
    """What one of them finds, and another has to heed, goes through the plan's builder. So what they are made of knows none."""
    package = parts.__name__
    imported = set[str]()
    for item in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(item, ast.ImportFrom) and item.module == package:
            imported |= {alias.name for alias in item.names}
        elif isinstance(item, ast.ImportFrom) and item.module is not None and item.module.startswith(f"{package}."):
            imported.add(item.module.removeprefix(f"{package}."))
    assert not imported & MODULES


def test_each_part_has_its_field_and_its_functions() -> None:
    assert set(PARTS) <= set(Ledger.__struct_fields__)
    for protocol, modules in ((Part, PARTS), (Setting, SETTINGS)):
        names = {name for base in protocol.__mro__ for name in vars(base) if not name.startswith("_")}
        assert {name: names - set(vars(module)) for name, module in modules.items() if names - set(vars(module))} == {}
