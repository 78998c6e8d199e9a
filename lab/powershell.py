"""PowerShell text read by tree-sitter's grammar: what is wrong with its syntax, and which commands it calls. Nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter_powershell
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_powershell.language())


def find_syntax_errors(script: str) -> list[str]:
    """Return the syntax errors of a script, each with its line; empty if it is valid."""
    return [
        f"line {node.start_point[0] + 1}: {'missing ' + node.type if node.is_missing else 'not understood'}"
        for node in _walk(_parse_script(script))
        if node.is_error or node.is_missing
    ]


def list_commands(script: str) -> set[str]:
    """Return the names of the commands that are called by name: cmdlets, functions, programs."""
    return {node.text.decode() for node in _walk(_parse_script(script)) if node.type == "command_name" and node.text}


def list_statements(script: str) -> list[str]:
    """Return the text of each command and method call, in the order of the script; a nested one comes after the outer one."""
    return [_get_text(node) for node in _walk(_parse_script(script)) if node.type in ("command", "invokation_expression")]


@dataclass(frozen=True)
class Call:
    """A command that is called by name: its named parameters as written, its line, and the conditions of its `if`s."""

    name: str
    parameters: tuple[str, ...]
    line: int
    conditions: tuple[str, ...] = ()


def list_calls(script: str) -> list[Call]:
    """Return every call of a command by name, in the order of the script; splatted tables count with their keys."""
    tree = _parse_script(script)
    tables = _read_tables(tree)
    result = []
    for node in (node for node in _walk(tree) if node.type == "command"):
        name = next((_get_text(child) for child in node.children if child.type == "command_name"), None)
        elements = [element for child in node.children if child.type == "command_elements" for element in child.children]
        if name is not None:
            named = [_get_text(element).lstrip("-").rstrip(":") for element in elements if element.type == "command_parameter"]
            splatted = [_get_text(element).lstrip("@") for element in elements if _get_text(element).startswith("@")]
            keys = [key for table in splatted for key in tables.get(table.casefold(), ())]
            result.append(Call(name, (*named, *keys), node.start_point[0] + 1, tuple(_iter_conditions(node))))
    return result


def _iter_conditions(node: Node) -> Iterator[str]:
    """Yield the condition of each `if` whose first block contains the node, innermost first."""
    while (parent := node.parent) is not None:
        if parent.type == "if_statement" and node.type == "statement_block":
            yield next(_get_text(child) for child in parent.children if child.type == "pipeline")
        node = parent


def list_functions(script: str) -> set[str]:
    """Return the names of the functions that a script defines."""
    return {_get_text(node) for node in _walk(_parse_script(script)) if node.type == "function_name"}


def _read_tables(tree: Node) -> dict[str, list[str]]:
    """Return the keys of each table by its variable's name, including keys added by `$table['key'] =`."""
    tables: dict[str, list[str]] = {}
    for node in (node for node in _walk(tree) if node.type == "assignment_expression"):
        text = _get_text(node)
        if table := re.match(r"\$(\w+)\s*=\s*@\{", text):
            keys = [_get_text(key) for entry in _walk(node) if entry.type == "hash_entry" for key in entry.children[:1]]
            tables.setdefault(table[1].casefold(), []).extend(key.strip() for key in keys)
        elif added := re.match(r"\$(\w+)\['(\w+)'\]\s*=", text):
            tables.setdefault(added[1].casefold(), []).append(added[2])
    return tables


def _get_text(node: Node) -> str:
    return (node.text or b"").decode()


def _parse_script(script: str) -> Node:
    return Parser(_LANGUAGE).parse(script.encode()).root_node


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk(child)
