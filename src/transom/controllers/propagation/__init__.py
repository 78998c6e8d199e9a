"""Settings brought into workload clusters."""
