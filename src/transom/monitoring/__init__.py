"""Metrics, objectives and alerts as data. Pure."""
