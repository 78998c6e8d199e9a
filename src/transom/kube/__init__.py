"""Transom's client of the Kubernetes API."""
