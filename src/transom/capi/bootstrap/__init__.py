"""Entries in the bootstrap configuration of Linux and Windows machines."""
