"""PowerShell text read by tree-sitter's grammar: what is wrong with its syntax, and which commands it calls. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterator

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


def _tree(script: str) -> Node:
    return Parser(_LANGUAGE).parse(script.encode()).root_node


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk(child)
