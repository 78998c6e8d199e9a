"""The cmd scripts that run on a host, and parsers of their results."""
