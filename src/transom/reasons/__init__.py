"""Reasons of conditions and events, and kinds of host errors. Pure data."""
