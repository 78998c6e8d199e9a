"""Settings for workload clusters that run their own Transom."""
