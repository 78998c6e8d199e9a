"""The Windows host, the proxy and the registry that tests and the demo use."""
