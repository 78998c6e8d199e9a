"""The values objects of a workload cluster."""
