"""The objects of workload clusters."""
