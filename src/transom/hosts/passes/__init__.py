"""Passes: one connection to one host, from what is found to what is reported."""
