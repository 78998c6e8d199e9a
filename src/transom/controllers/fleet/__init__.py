"""Workload clusters: their objects, their machines, and what is brought into them."""
