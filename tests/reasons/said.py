"""What the source says: the reasons of conditions and events, by following each to the constants that it is made of."""

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

Where = Literal["condition", "event"]
ANY_ERROR = "type(error).__name__"
"""What stands for the name of whichever HostError there was."""
_OTHERS = ("_log", "log", "first", "place", "reader", "self", "skew")
"""What has a method `warning` and is no recorder of events: loggers, and places of findings. Anything else is one."""
_SIGNS = ("Condition(", "FetchResult(", ".normal", ".warning", '"reason"')


class Unresolved(Exception):
    """An expression that cannot be followed to constants: the message says where it stands."""


class Said(msgspec.Struct, frozen=True):
    """A reason, and where it is said."""

    reason: str
    where: Where
    place: str


class _Module:
    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    @cached_property
    def tree(self) -> ast.Module:
        tree = ast.parse(self.text)
        for parent in ast.walk(tree):
            for child in ast.iter_child_nodes(parent):
                child.parent = parent  # type: ignore[attr-defined]
        return tree


class Source:
    """Modules by their dotted names.

    `forwarded` are expressions that hand on what another place says, by package and text, each with the reasons that come
    this way and from nowhere else.
    """

    def __init__(self, texts: Mapping[str, str], forwarded: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        self._modules = {name: _Module(name, text) for name, text in texts.items()}
        self._forwarded = forwarded
        self.used: set[tuple[str, str]] = set()
        """What of `forwarded` was met."""

    def said(self) -> set[Said]:
        """Everything that is said. Raises Unresolved."""
        found: set[Said] = set()
        for module in self._modules.values():
            if any(sign in module.text for sign in _SIGNS):
                for expression, index, where in _sinks(module.tree):
                    place = f"{module.name}:{expression.lineno}"
                    found |= {Said(reason, where, place) for reason in self._follow(module, expression, index)}
        return found

    def _follow(self, module: _Module, node: ast.expr, index: int | None = None) -> set[str]:
        """The constants of an expression; with `index`, of that part of the tuple that it is."""
        text = ast.unparse(node)
        packages = [one for one, forwarded in self._forwarded if forwarded == text and f"{module.name}.".startswith(f"{one}.")]
        if packages:
            self.used.add((packages[0], text))
            return set(self._forwarded[packages[0], text])
        match node:
            case ast.Constant(value=None):
                return set()
            case ast.Constant(value=str(text)) if index is None:
                return {text}
            case ast.Tuple(elts=parts) if index is not None:
                return self._follow(module, parts[index])
            case ast.Starred(value=value):
                return self._follow(module, value, index)
            case ast.IfExp(body=one, orelse=other):
                return self._follow(module, one, index) | self._follow(module, other, index)
            case ast.BoolOp(values=values):
                return set().union(*(self._follow(module, one, index) for one in values))
            case ast.Attribute(value=ast.Call(func=ast.Name(id="type")), attr="__name__"):
                return {ANY_ERROR}
            case ast.Attribute(value=(ast.Name(id=name) | ast.Attribute(attr=name)), attr="__name__") if name[0].isupper():
                return {name}
            case ast.Subscript(value=ast.Name(id=name)):
                return self._values(module, name, index)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[_, default]):
                return self._values(module, name, index) | self._follow(module, default, index)
            case ast.Call(func=(ast.Name(id=name) | ast.Attribute(attr=name))):
                return self._returned(name, node, index)
            case ast.Name(id=name):
                return self._named(module, node, name, index)
        raise Unresolved(f"{module.name}:{node.lineno}: {ast.unparse(node)}")

    def _named(self, module: _Module, node: ast.expr, name: str, index: int | None) -> set[str]:
        function = _around(node)
        if function is not None:
            position = _position(function, name)
            if position is not None:
                return self._given(module, function, position, name, index)
            bound = list(_bound(function, name))
            if bound:
                return set().union(*(self._bound(module, value, part, index) for value, part in bound))
        return self._constant(module, name, lambda where, value: self._follow(where, value, index))

    def _bound(self, module: _Module, value: ast.expr, part: int | None, index: int | None) -> set[str]:
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="items")) if part is not None:
                return self._constant(module, name, lambda where, table: self._side(where, table, part))
        return self._follow(module, value, index if part is None else part)

    def _side(self, module: _Module, table: ast.expr, part: int) -> set[str]:
        assert isinstance(table, ast.Dict)
        side = [key for key in table.keys if key is not None] if part == 0 else table.values
        return set().union(*(self._follow(module, one) for one in side))

    def _values(self, module: _Module, name: str, index: int | None) -> set[str]:
        def of(where: _Module, table: ast.expr) -> set[str]:
            if not isinstance(table, ast.Dict):
                raise Unresolved(f"{where.name}:{table.lineno}: {name}")
            return set().union(*(self._follow(where, one, index) for one in table.values))

        return self._constant(module, name, of)

    def _constant(self, module: _Module, name: str, follow) -> set[str]:  # type: ignore[no-untyped-def]
        """Follow what a name of a module stands for, there or where it is imported from."""
        for node in module.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                    return follow(module, value)  # type: ignore[no-any-return]
                case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value) if found == name:
                    return follow(module, value)  # type: ignore[no-any-return]
                case ast.ImportFrom(module=str(source), names=names) if source in self._modules:
                    for one in names:
                        if (one.asname or one.name) == name:
                            return self._constant(self._modules[source], one.name, follow)
        raise Unresolved(f"{module.name}: {name}")

    def _given(
        self, module: _Module, function: ast.FunctionDef | ast.AsyncFunctionDef, position: int, name: str, index: int | None
    ) -> set[str]:
        """What the callers of a function give for a parameter: of a private one in its module, else in all."""
        found: set[str] = set()
        for other in [module] if function.name.startswith("_") else self._modules.values():
            if function.name in other.text:
                for call in _calls(other.tree, function.name):
                    given = _argument(call, position, name)
                    if given is None:
                        raise Unresolved(f"{other.name}:{call.lineno}: {function.name} is not given {name}")
                    found |= self._follow(other, given, index)
        return found

    def _returned(self, name: str, node: ast.expr, index: int | None) -> set[str]:
        found: set[str] = set()
        defined = 0
        for module in self._modules.values():
            if f"def {name}(" in module.text:
                for function in ast.walk(module.tree):
                    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name == name:
                        defined += 1
                        for one in ast.walk(function):
                            if isinstance(one, ast.Return) and one.value is not None:
                                found |= self._follow(module, one.value, index)
        if defined != 1:
            raise Unresolved(f"line {node.lineno}: {ast.unparse(node)} is defined {defined} times")
        return found


def _sinks(tree: ast.Module) -> Iterator[tuple[ast.expr, int | None, Where]]:
    """Each expression that is a reason; with an index where it is that part of what it is."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=(ast.Name(id=name) | ast.Attribute(attr=name))) if name in ("Condition", "FetchResult"):
                given = _argument(node, 1, "reason")
                assert given is not None, ast.unparse(node)
                yield given, 0 if isinstance(given, ast.Starred) else None, "condition"
            case ast.Dict(keys=keys, values=values):
                texts = [one.value if isinstance(one, ast.Constant) else None for one in keys]
                if {"type", "status", "reason"} <= set(texts):
                    yield values[texts.index("reason")], None, "condition"
            case ast.Attribute(attr=("normal" | "warning"), value=receiver) if _tells(receiver):
                for call in _uses(node):
                    given = _argument(call, 1, "reason")
                    assert given is not None, ast.unparse(call)
                    yield given, 0 if isinstance(given, ast.Starred) else None, "event"


def _tells(receiver: ast.expr) -> bool:
    """Whether it is a recorder of events: what logs and what makes findings have `warning`, too, and other names."""
    return ast.unparse(receiver).rpartition(".")[2] not in _OTHERS


def _uses(bound: ast.Attribute) -> Iterator[ast.Call]:
    """The calls of a bound method: itself, or the name that it is given."""
    above = bound.parent  # type: ignore[attr-defined]
    if isinstance(above, ast.Call) and above.func is bound:
        yield above
        return
    while not isinstance(above, ast.Assign):
        above = above.parent
    (target,) = above.targets
    function = _around(bound)
    assert isinstance(target, ast.Name) and function is not None, ast.unparse(above)
    yield from _calls(function, target.id)


def _calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=(ast.Name(id=found) | ast.Attribute(attr=found))) if found == name:
                yield node


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if position < len(call.args) else None


def _around(node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    above = getattr(node, "parent", None)
    while above is not None and not isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
        above = getattr(above, "parent", None)
    return above


def _position(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> int | None:
    """Of a parameter among those that callers give, without `self`."""
    names = [one.arg for one in function.args.args]
    names = names[1:] if names[:1] in (["self"], ["cls"]) else names
    return names.index(name) if name in names else None


def _bound(function: ast.AST, name: str) -> Iterator[tuple[ast.expr, int | None]]:
    """What a name of a function is given; with an index, that part of it."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[target], value=value):
                yield from _unpacked(target, value, name)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from _unpacked(target, value, name)
            case ast.For(target=target, iter=value):
                yield from _unpacked(target, value, name)
            case ast.NamedExpr(target=target, value=value):
                yield from _unpacked(target, value, name)


def _unpacked(target: ast.expr, value: ast.expr, name: str) -> Iterator[tuple[ast.expr, int | None]]:
    match target:
        case ast.Name(id=found) if found == name:
            yield value, None
        case ast.Tuple(elts=parts):
            for index, part in enumerate(parts):
                if isinstance(part, ast.Name) and part.id == name:
                    yield value, index


def texts(root: Path, package: str) -> dict[str, str]:
    """The modules of a package by their names."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = [package, *path.relative_to(root).with_suffix("").parts]
        found[".".join(part for part in parts if part != "__init__")] = path.read_text("utf-8")
    return found
