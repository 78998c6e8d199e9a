"""The proxy variables of a Linux node. Pure."""
