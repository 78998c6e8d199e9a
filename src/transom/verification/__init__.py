"""Whether the Windows nodes of a cluster work from end to end. The checks do no I/O, `cluster` does."""
