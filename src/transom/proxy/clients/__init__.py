"""How programs read NO_PROXY: one profile a client, one engine that evaluates them all.

`decide(CLIENTS["go"], url, no_proxy)` says what a client does with a URL, and which item decides.
"""

from transom.proxy.clients.catalog import CLIENTS, NODE_CLIENTS
from transom.proxy.clients.decision import Decision, decide
from transom.proxy.clients.profile import Client

__all__ = ["CLIENTS", "NODE_CLIENTS", "Client", "Decision", "decide"]
