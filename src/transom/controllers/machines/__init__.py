"""The machines of workload clusters and their templates."""
