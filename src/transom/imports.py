"""What libraries import or make when they are imported, and no command needs."""

import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, Final


class _Pattern:
    """A regular expression that is made when it is first used: one whose classes end at U+10FFFF takes 5 ms."""

    def __init__(self, *given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        # re keeps what it has compiled
        return getattr(re.compile(*self._given), name)


_ABSENT: Final = {
    # structlog would colour tracebacks by it: 6 MB in each process that writes a log line
    "rich": ("structlog.dev", "ConsoleRenderer"),
    # msgspec asks it for what `typing` has since Python 3.11
    "typing_extensions": ("msgspec._utils", "rebuild"),
}
"""What is not there for a module that can do without, until that one has the name that is beside it."""

_LAZY: Final = ("cryptography.x509.name", "yaml.reader")
"""Modules whose regular expressions are made when they are used: PyYAML's own, say, is not where its C library reads."""


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        found = re.compile
        vars(re)["compile"] = _Pattern
        try:
            super().exec_module(module)
        finally:
            vars(re)["compile"] = found


class Imports:
    """The first of `sys.meta_path` in the program. All that it does not know, others find."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As Python's finders do. Raises ModuleNotFoundError for what is kept from the module that is just looking for it."""
        if name in _ABSENT:
            module, last = _ABSENT[name]
            asking = sys.modules.get(module)
            if asking is not None and not hasattr(asking, last):
                raise ModuleNotFoundError(name=name)
        if name in _LAZY:
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and isinstance(spec.loader, SourceFileLoader):
                spec.loader = _Loader(spec.loader.name, spec.loader.path)
            return spec
        return None
