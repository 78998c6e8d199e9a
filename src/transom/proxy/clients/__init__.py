"""How programs read NO_PROXY: one profile a client, one engine that evaluates them all.

`decide(CLIENTS["go"], url, no_proxy)` says what a client does with a URL, and which item decides.
`lint(no_proxy)` names the items that clients on nodes misread, each with a safer form; `translate` writes other languages.
"""

from transom.proxy.clients.catalog import CLIENTS, NODE_CLIENTS
from transom.proxy.clients.decision import Decision, decide
from transom.proxy.clients.lint import LintFinding, lint
from transom.proxy.clients.profile import ClientProfile
from transom.proxy.clients.translation import Translation, translate

__all__ = ["CLIENTS", "NODE_CLIENTS", "ClientProfile", "Decision", "LintFinding", "Translation", "decide", "lint", "translate"]
