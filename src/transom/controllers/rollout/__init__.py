"""Many hosts, one change: whose turn it is, what may be interrupted, what is drained."""
