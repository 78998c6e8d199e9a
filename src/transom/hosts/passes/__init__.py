"""Passes: one connection to one host, from reading its state to the result."""
