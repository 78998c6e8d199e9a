"""From settings and a host's state to a plan: what is wanted, what to ask, what differs."""
