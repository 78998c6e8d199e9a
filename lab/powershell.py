"""PowerShell text read by tree-sitter's grammar: what is wrong with its syntax, and which commands it calls. Nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter_powershell
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_powershell.language())


def faults(script: str) -> list[str]:
    """Where the text is no PowerShell, each with its line; empty when all of it is."""
    return [
        f"line {node.start_point[0] + 1}: {'missing ' + node.type if node.is_missing else 'not understood'}"
        for node in _walk(_tree(script))
        if node.is_error or node.is_missing
    ]


def commands(script: str) -> set[str]:
    """The names of the commands that are called by name: cmdlets, functions, programs."""
    return {node.text.decode() for node in _walk(_tree(script)) if node.type == "command_name" and node.text}


def statements(script: str) -> list[str]:
    """The text of each command, in the order of the script; one within another comes after it."""
    return [_text(node) for node in _walk(_tree(script)) if node.type == "command"]


@dataclass(frozen=True)
class Call:
    """A command that is called by name: the parameters that are named, as they are written, its line, and under which `if`s."""

    name: str
    parameters: tuple[str, ...]
    line: int
    conditions: tuple[str, ...] = ()


def calls(script: str) -> list[Call]:
    """Every call of a command by name, in the order of the text; of a table that is splatted, its keys count."""
    tree = _tree(script)
    tables = _tables(tree)
    found = []
    for node in (node for node in _walk(tree) if node.type == "command"):
        name = next((_text(child) for child in node.children if child.type == "command_name"), None)
        elements = [element for child in node.children if child.type == "command_elements" for element in child.children]
        if name is not None:
            named = [_text(element).lstrip("-").rstrip(":") for element in elements if element.type == "command_parameter"]
            splatted = [_text(element).lstrip("@") for element in elements if _text(element).startswith("@")]
            keys = [key for table in splatted for key in tables.get(table.casefold(), ())]
            found.append(Call(name, (*named, *keys), node.start_point[0] + 1, tuple(_conditions(node))))
    return found


def _conditions(node: Node) -> Iterator[str]:
    """The condition of each `if` in whose first block the node is, from the innermost out."""
    while (parent := node.parent) is not None:
        if parent.type == "if_statement" and node.type == "statement_block":
            yield next(_text(child) for child in parent.children if child.type == "pipeline")
        node = parent


def functions(script: str) -> set[str]:
    """The names of the functions that the text defines."""
    return {_text(node) for node in _walk(_tree(script)) if node.type == "function_name"}


def _tables(tree: Node) -> dict[str, list[str]]:
    """The keys of each table that is assigned to a variable, or added to one by `$table['key'] =`, by the variable's name."""
    found: dict[str, list[str]] = {}
    for node in (node for node in _walk(tree) if node.type == "assignment_expression"):
        text = _text(node)
        if table := re.match(r"\$(\w+)\s*=\s*@\{", text):
            keys = [_text(key) for entry in _walk(node) if entry.type == "hash_entry" for key in entry.children[:1]]
            found.setdefault(table[1].casefold(), []).extend(key.strip() for key in keys)
        elif added := re.match(r"\$(\w+)\['(\w+)'\]\s*=", text):
            found.setdefault(added[1].casefold(), []).append(added[2])
    return found


def _text(node: Node) -> str:
    return (node.text or b"").decode()


def _tree(script: str) -> Node:
    return Parser(_LANGUAGE).parse(script.encode()).root_node


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk(child)
