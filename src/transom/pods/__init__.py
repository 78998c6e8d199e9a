"""Pods: which of them get the proxy and the CAs, and the JSON patch. Pure."""
