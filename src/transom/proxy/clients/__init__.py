"""How programs read NO_PROXY: a profile for each client, and one engine that evaluates them. Pure."""
