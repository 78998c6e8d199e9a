"""The machines of workload clusters, and what they are made from."""
