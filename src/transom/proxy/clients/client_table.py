"""How programs read NO_PROXY: one profile a client, one engine that evaluates them all.

`decision.decide(CLIENTS["go"], url, no_proxy)` says what a client does with a URL, and which item decides.
`lint.lint(no_proxy)` names the items that clients on nodes misread, each with a safer form; `translation` writes other
languages. Where a version matters, each version is a row of its own.
"""

from types import MappingProxyType

from transom.proxy.clients import java, lists, node, programs, python

_ROWS = (*programs.ROWS, *python.ROWS, *node.ROWS, *java.ROWS, *lists.ROWS)

CLIENTS = MappingProxyType({row.name: row for row in _ROWS})
"""Every client by its name, in the order of the page in the docs."""

NODE_CLIENTS = tuple(row.name for row in _ROWS if row.nodes)
"""The clients that run on a Windows or a Linux node."""
