"""How a host becomes a node: its token, its names and addresses, the facts of its cluster."""
