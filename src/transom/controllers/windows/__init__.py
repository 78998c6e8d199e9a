"""Windows hosts, and the life of those that are nodes."""
